"""Track the prior with online expectation maximisation: a running mean of responsibilities."""

import numpy as np

from obil.arrays import FloatArray, PriorLike, require_in
from obil.compiled import compiled
from obil.trackers.tracker import CompiledTracker, PriorMemory

SMALLEST_PRIOR = 1e-6


class OnlineEM(CompiledTracker):
    """Move the prior a fixed fraction towards each row's responsibilities.

    One rate has to serve every speed of change: .05 is lost in noise at rare priors, .002 is late for
    every jump. `BayesBank` needs no rate.

    >>> tracker = OnlineEM(0.5, rate=0.1)
    >>> _ = tracker.update([0.0, 50.0])  # certainly a positive
    >>> tracker.prior.round(3)
    array([0.45, 0.55])
    """

    def __init__(self, prior: PriorLike | None = None, *, rate: float = 0.01) -> None:
        super().__init__(prior, rate=require_in("rate", rate, 0.0, 1.0))

    def _begin(self, start: FloatArray) -> PriorMemory:
        return PriorMemory(start.copy())

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        _online_em(rows, priors, self._memory.prior, self._settings["rate"])


@compiled
def _online_em(rows: FloatArray, priors: FloatArray, prior: FloatArray, rate: float) -> None:
    n_classes = prior.size
    weights = np.empty(n_classes)
    for t in range(rows.shape[0]):
        priors[t] = prior
        largest = rows[t].max()
        evidence = 0.0
        for k in range(n_classes):
            weights[k] = prior[k] * np.exp(rows[t, k] - largest)
            evidence += weights[k]
        total = 0.0
        for k in range(n_classes):
            prior[k] = max((1.0 - rate) * prior[k] + rate * weights[k] / evidence, SMALLEST_PRIOR)
            total += prior[k]
        for k in range(n_classes):
            prior[k] /= total
