"""Keep the prior where it is: what a model without adaptation does."""

from obil.arrays import FloatArray, PriorLike
from obil.trackers.tracker import CompiledTracker, PriorMemory


class FixedPrior(CompiledTracker):
    """Never move: the baseline every tracker has to beat, or the right choice for a known prior.

    >>> tracker = FixedPrior(0.1)
    >>> _ = tracker.update([0.0, 5.0])
    >>> tracker.prior
    array([0.9, 0.1])
    """

    def __init__(self, prior: PriorLike | None = None) -> None:
        super().__init__(prior)

    def _begin(self, start: FloatArray) -> PriorMemory:
        return PriorMemory(start.copy())

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        priors[:] = self._memory.prior
