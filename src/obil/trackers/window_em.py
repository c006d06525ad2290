"""Track the prior by maximum likelihood (MLLS) over a sliding window of rows."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray, PriorLike, as_integer
from obil.compiled import compiled
from obil.errors import InvalidStateError
from obil.trackers.bank_kernel import LARGEST_TOTAL
from obil.trackers.tracker import CompiledTracker

SMALLEST_PRIOR = 1e-6
TOLERANCE = 1e-7


class WindowMemory(NamedTuple):
    """The estimate, the last rows' likelihoods scaled to a largest of 1, and how many rows were seen."""

    prior: FloatArray  # (K,)
    likelihoods: FloatArray  # (window, K)
    seen: IntArray  # (1,)


class WindowEM(CompiledTracker):
    """Run EM over the last `window` rows after each row, from the estimate before it.

    The paper's advice for rapid drift is a window of at most 20 rows. The likelihood of so short a
    window is often largest at a prior of 0, which is why the bank mixes many memories instead.

    >>> tracker = WindowEM(0.5, window=4)
    >>> for log_ratio in (50.0, 50.0, 50.0, -50.0):
    ...     _ = tracker.update([0.0, log_ratio])
    >>> tracker.prior.round(3)
    array([0.25, 0.75])
    """

    def __init__(self, prior: PriorLike | None = None, *, window: int = 500, max_iterations: int = 50) -> None:
        super().__init__(
            prior,
            window=as_integer("window", window, 1),
            max_iterations=as_integer("max_iterations", max_iterations, 1),
        )

    def _begin(self, start: FloatArray) -> WindowMemory:
        likelihoods = np.zeros((self._settings["window"], start.size))
        return WindowMemory(start.copy(), likelihoods, np.zeros(1, dtype=np.int64))

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        _window_em(rows, priors, self._settings["max_iterations"], *self._memory)

    def _check_memory(self) -> None:
        seen = int(self._memory.seen[0])
        kept = self._memory.likelihoods[: max(0, min(seen, len(self._memory.likelihoods)))]
        if not 0 <= seen <= LARGEST_TOTAL or (kept.max(axis=1, initial=0.0) <= 0.0).any() or (kept < 0.0).any():
            raise InvalidStateError("a window holds non-negative likelihoods, one of them positive in each row")


@compiled
def _window_em(
    rows: FloatArray,
    priors: FloatArray,
    max_iterations: int,
    prior: FloatArray,
    likelihoods: FloatArray,
    seen: IntArray,
) -> None:
    window, n_classes = likelihoods.shape
    mean = np.empty(n_classes)
    for t in range(rows.shape[0]):
        priors[t] = prior
        slot = seen[0] % window
        largest = rows[t].max()
        for k in range(n_classes):
            likelihoods[slot, k] = np.exp(rows[t, k] - largest)
        seen[0] += 1
        filled = min(seen[0], window)
        for _ in range(max_iterations):
            mean[:] = 0.0
            for i in range(filled):
                evidence = 0.0
                for k in range(n_classes):
                    evidence += prior[k] * likelihoods[i, k]
                for k in range(n_classes):
                    mean[k] += prior[k] * likelihoods[i, k] / evidence
            total = 0.0
            for k in range(n_classes):
                mean[k] = max(mean[k] / filled, SMALLEST_PRIOR)
                total += mean[k]
            moved = 0.0
            for k in range(n_classes):
                moved = max(moved, abs(mean[k] / total - prior[k]))
                prior[k] = mean[k] / total
            if moved < TOLERANCE:
                break
