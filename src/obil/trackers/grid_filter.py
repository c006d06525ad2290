"""Filter a binary prior exactly on a grid, with resets to what the past looked like."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray, PriorLike, as_integer, require_distributions, require_in
from obil.compiled import compiled
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers.bank_kernel import LARGEST_TOTAL
from obil.trackers.tracker import CompiledTracker

LARGEST_LOGIT = 14.0  # priors from 8e-7 to 1 - 8e-7
LEARNED_PART = 0.9  # of a reset goes to the average past posterior, the rest to the start
LEAST_SWITCHING = 1e-6


class GridMemory(NamedTuple):
    """One posterior over G grid points for each of H reset rates."""

    prior: FloatArray  # (2,)
    weights: FloatArray  # (H, G)
    past: FloatArray  # (H, G) the average posterior so far: where the prior has been
    rate_weights: FloatArray  # (H,)
    seen: IntArray  # (1,)


class GridFilter(CompiledTracker):
    """Hold the exact posterior of P1 on a grid in the logit: the oracle the other trackers are tested against.

    It is a bank: each filter may at its rate jump to where the prior has been before (the average of its
    past posteriors), and the rates are mixed by how well each predicted the stream. It beats `BayesBank` on
    regimes that return and loses to it at very rare priors, as `python -m experiments trackers` shows.
    `reset_rates=()` makes it the exact filter of a prior that never moves; from a uniform start its log evidence is
    at most log(T + 1) + 1 below that of the best fixed prior. Proof: docs/theory.md, Proposition 4. Binary only.

    It is exact as long as the posterior is wider than the grid's spacing, which is .027 in the logit with
    the default `n_points`; tens of thousands of informative rows at a prior near 1/2 need more of them.

    >>> tracker = GridFilter(0.5)
    >>> _ = tracker.update_many([[0.0, -9.0]] * 400)  # rows that all look negative
    >>> bool(tracker.prior[1] < 0.02)
    True
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        reset_rates: Sequence[float] = (1e-6, 3e-4, 3e-3),
        n_points: int = 1_025,
        start_rows: float = 10.0,
    ) -> None:
        super().__init__(
            prior,
            reset_rates=[require_in("a reset rate", r, 0.0, 0.5) for r in reset_rates],
            n_points=as_integer("n_points", n_points, 16),
            start_rows=require_in("start_rows", start_rows, 1e-3, 1e9),
        )

    def interval(self, level: float = 0.9) -> FloatArray:
        """Return the central credible interval of both classes' priors, (2, 2), interpolated between grid points."""
        tail = (1.0 - require_in("level", level, 1e-6, 1.0 - 1e-6)) / 2.0
        memory: GridMemory = self._started()  # type: ignore[assignment]  # the base class knows only `prior`
        weights = memory.rate_weights @ memory.weights
        cumulative = np.cumsum(weights) - weights / 2.0  # a grid point's mass lies half on each side of it
        low, high = (float(np.interp(q, cumulative, self._points)) for q in (tail, 1.0 - tail))
        return np.array([[1.0 - high, 1.0 - low], [low, high]])

    def _begin(self, start: FloatArray) -> GridMemory:
        if start.size != 2:
            raise InvalidInputError(f"GridFilter is for two classes, got a prior of {start.size}")
        self._rates = np.array(self._settings["reset_rates"] or [0.0])
        logits = np.linspace(-LARGEST_LOGIT, LARGEST_LOGIT, self._settings["n_points"])
        self._points = 1.0 / (1.0 + np.exp(-logits))
        negative, positive = self._settings["start_rows"] * start
        # the Beta density times the Jacobian of the logit
        log_density = positive * np.log(self._points) + negative * np.log1p(-self._points)
        density = np.exp(log_density - log_density.max())
        self._start_weights = density / density.sum()
        mean = float(self._start_weights @ self._points)
        return GridMemory(
            prior=np.array([1.0 - mean, mean]),
            weights=np.tile(self._start_weights, (self._rates.size, 1)),
            past=np.tile(self._start_weights, (self._rates.size, 1)),
            rate_weights=np.full(self._rates.size, 1.0 / self._rates.size),
            seen=np.zeros(1, dtype=np.int64),
        )

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        _run_grid(rows, priors, self._points, self._start_weights, self._rates, *self._memory)

    def _check_memory(self) -> None:
        memory: GridMemory = self._memory
        for weights in (memory.weights, memory.past, memory.rate_weights):
            require_distributions("the weights of a grid filter", weights)
        if not 0 <= memory.seen[0] <= LARGEST_TOTAL:
            raise InvalidStateError("a grid filter cannot have seen fewer rows than none, or so many")


@compiled
def _run_grid(
    rows: FloatArray,
    priors: FloatArray,
    points: FloatArray,
    start_weights: FloatArray,
    reset_rates: FloatArray,
    prior: FloatArray,
    weights: FloatArray,
    past: FloatArray,
    rate_weights: FloatArray,
    seen: IntArray,
) -> None:
    n_rates, n_points = weights.shape
    likelihood = np.empty(n_points)
    evidence = np.empty(n_rates)
    for t in range(rows.shape[0]):
        priors[t] = prior
        largest = max(rows[t, 1], 0.0)
        negative = np.exp(-largest)
        positive = np.exp(rows[t, 1] - largest)
        for g in range(n_points):
            likelihood[g] = negative + points[g] * (positive - negative)
        newest = 1.0 / (seen[0] + 2.0)
        mixed_evidence = 0.0
        for h in range(n_rates):
            evidence[h] = 0.0
            for g in range(n_points):
                weights[h, g] *= likelihood[g]
                evidence[h] += weights[h, g]
            mixed_evidence += rate_weights[h] * evidence[h]
            reset = max(reset_rates[h], newest) if reset_rates[h] > 0.0 else 0.0
            stay = (1.0 - reset) / evidence[h]
            for g in range(n_points):
                fresh = LEARNED_PART * past[h, g] + (1.0 - LEARNED_PART) * start_weights[g]
                weights[h, g] = stay * weights[h, g] + reset * fresh
                past[h, g] += newest * (weights[h, g] - past[h, g])
        switched = max(newest, LEAST_SWITCHING)
        mean = 0.0
        total = 0.0
        for h in range(n_rates):
            rate_weights[h] = (1.0 - switched) * rate_weights[h] * evidence[h] / mixed_evidence + switched / n_rates
            for g in range(n_points):
                mean += rate_weights[h] * weights[h, g] * points[g]
                total += rate_weights[h] * weights[h, g]
        prior[1] = mean / total
        prior[0] = 1.0 - prior[1]
        seen[0] += 1
