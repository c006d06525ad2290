"""Bound how far a histogram of n rows can be from the one they were drawn from, whatever n is."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, xlogy

from obil.arrays import FloatArray

TILTS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
MOST_DRAWS = 50  # of a binomial: with more the moments fall again, to the limit of many draws
MARGIN = 1e-3  # for what a grid of chances misses


def divergence_bound(n_bins: int, chance: float) -> float:
    """Return c so that n KL(seen || true) > c has at most this chance, for every n and every true histogram.

    It holds for few rows as well, and is above the limit for many, half a chi-square quantile: by a third for sixteen
    bins or more, by half for four, at usual chances. Proof: docs/theory.md, Proposition 7.

    >>> round(divergence_bound(2, 0.05), 1), round(divergence_bound(8, 0.0025), 1)
    (4.7, 15.4)
    """
    return min((max(n_bins - 1, 1) * _log_moments()[tilt] - math.log(chance)) / tilt for tilt in TILTS)


@lru_cache(maxsize=1)
def _log_moments() -> dict[float, float]:
    """Return the largest log E exp(t m KL(k/m || p)) over draws m and chances p, k binomial, for each tilt t."""
    largest = dict.fromkeys(TILTS, 0.0)
    for n_draws in range(1, MOST_DRAWS):
        chances = np.unique(np.concatenate([np.linspace(0.01, 0.5, 50), np.geomspace(0.3, 30.0, 50) / n_draws]))
        for tilt in TILTS:
            found = _binomial_log_moment(n_draws, tilt, chances[chances <= 0.5])
            largest[tilt] = max(largest[tilt], found * (1.0 + MARGIN))
    return largest


def _binomial_log_moment(n_draws: int, tilt: float, chances: FloatArray) -> float:
    seen = np.arange(n_draws + 1)
    left = n_draws - seen
    counts = gammaln(n_draws + 1) - gammaln(seen + 1) - gammaln(left + 1)
    at_seen = xlogy(seen, seen / n_draws) + xlogy(left, left / n_draws)
    at_true = xlogy(seen, chances[:, None]) + xlogy(left, 1.0 - chances[:, None])
    return float(np.logaddexp.reduce(counts + tilt * at_seen + (1.0 - tilt) * at_true, axis=1).max())
