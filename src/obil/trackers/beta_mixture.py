"""Invert the distribution function of a mixture of Beta distributions."""

from collections.abc import Sequence

import numpy as np
from scipy.special import betainc, betaln, expit, logit, ndtri

from obil.arrays import FloatArray

FARTHEST = 60.0  # from 0, that a quantile is searched for in the logit
TOLERANCE = 1e-9  # in the logit
MOST_STEPS = 100  # as many as bisection alone could need, and more


def beta_mixture_quantiles(
    weights: FloatArray, successes: FloatArray, failures: FloatArray, probabilities: Sequence[float]
) -> FloatArray:
    """Return quantiles of K mixtures of M Beta distributions with the same weights (M,), (K, len(probabilities)).

    Probabilities increase.

    Newton's method in the logit of both sides, where the distribution function is nearly a line; it is bisected
    where a step leaves the bracket.

    >>> uniform = np.array([[1.0]])
    >>> beta_mixture_quantiles(np.array([1.0]), uniform, uniform, [0.05, 0.95]).round(6)
    array([[0.05, 0.95]])
    """
    wanted = np.asarray(probabilities)[:, None]  # (P, 1)
    target = logit(wanted)
    low = np.full((len(wanted), len(successes)), -FARTHEST)  # (P, K)
    high = -low
    log_scales = betaln(successes, failures)  # (K, M)
    with np.errstate(all="ignore"):  # far outside, densities underflow and steps are no numbers
        mean = (successes / (successes + failures)) @ weights
        width = np.sqrt((1.0 / successes + 1.0 / failures) @ weights)
        at = np.clip(logit(mean) + ndtri(wanted) * width, low, high)
        for _ in range(MOST_STEPS):
            x = expit(at)[:, :, None]
            below = betainc(successes, failures, x) @ weights
            low, high = np.where(below < wanted, at, low), np.where(below < wanted, high, at)
            density = np.exp(successes * np.log(x) + failures * np.log1p(-x) - log_scales) @ weights  # in the logit
            step = (target - logit(below)) * below * (1.0 - below) / density
            found = (np.abs(step) < TOLERANCE) | (high - low < TOLERANCE)
            if found.all():
                break
            inside = (at + step > low) & (at + step < high)
            at = np.where(found, at, np.where(inside, at + step, (low + high) / 2.0))
    return np.sort(expit(at), axis=0).T  # those closer than the tolerance may have come out of order
