"""Track the prior with the paper's Algorithm 2, exactly as printed, for comparison."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, PriorLike, as_floats, as_integer, require_in
from obil.compiled import compiled
from obil.errors import InvalidStateError
from obil.trackers.bank_kernel import LARGEST_TOTAL
from obil.trackers.bbse import inverse_of_confusion
from obil.trackers.tracker import CompiledTracker

SMALLEST_PRIOR = 1e-6


class Algorithm2Memory(NamedTuple):
    """The estimate, the class of the largest ratio of each row in the window, and how many rows were seen."""

    prior: FloatArray  # (K,)
    winners: IntArray  # (window,)
    counts: IntArray  # (K,)
    seen: IntArray  # (1,)


class Algorithm2(CompiledTracker):
    """The paper's online adaptation: a biased estimator, kept as a baseline and never the default.

    Each row gives two signals: its posterior at the current estimate, and the fraction of the last
    `window` rows whose ratio is above 1. Their mix moves the estimate by a fraction `rate` if it lies within
    `clamp` of the estimate and is `confident`, not at all if it is within and unsure, and by `clamp`
    towards it otherwise.

    It does not converge to the prior even with exact ratios: most rows are outside the clamp, so that it
    balances the *number* of steps up and down (a median); the confidence test acts on the mix and
    freezes it between 1 - confidence and confidence; and the fraction of ratios above 1 is taken for
    the prior though it is FPR + P (TPR - FPR). `python -m experiments trackers` measures the bias.

    For K classes the fraction is that of the largest ratio, the test is on the largest component of the
    mix, and the clamp bounds the largest component of the step; K = 2 is the printed algorithm.

    Parameters
    ----------
    prior
        The prior to start from.
    rate, confidence, mixing, clamp, window
        The paper's alpha, gamma, beta, Delta_max and W, at the values of its experiments.
    confusion
        (K, K) hard confusion of the largest ratio (`confusion_of_predictions`): given, the frequency signal is
        inverted to an estimate of the prior, which the paper omits.

    >>> tracker = Algorithm2(0.05)
    >>> _ = tracker.update([0.0, 9.0])  # one sure positive: a step of the clamp
    >>> tracker.prior.round(3)
    array([0.93, 0.07])
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        rate: float = 0.05,
        confidence: float = 0.9,
        mixing: float = 0.6,
        clamp: float = 0.02,
        window: int = 100,
        confusion: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(
            prior,
            rate=require_in("rate", rate, 0.0, 1.0),
            confidence=require_in("confidence", confidence, 0.5, 1.0),
            mixing=require_in("mixing", mixing, 0.0, 1.0),
            clamp=require_in("clamp", clamp, 0.0, 1.0),
            window=as_integer("window", window, 1),
            confusion=None if confusion is None else as_floats(confusion, "confusion").tolist(),
        )

    def _begin(self, start: FloatArray) -> Algorithm2Memory:
        confusion = self._settings["confusion"]
        # the printed form takes the frequency for the prior: the identity
        self._inverse = (
            np.eye(start.size) if confusion is None else inverse_of_confusion(confusion, n_classes=start.size)
        )
        return Algorithm2Memory(
            prior=start.copy(),
            winners=np.zeros(self._settings["window"], dtype=np.int64),
            counts=np.zeros(start.size, dtype=np.int64),
            seen=np.zeros(1, dtype=np.int64),
        )

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        settings = self._settings
        rates = (settings[name] for name in ("rate", "confidence", "mixing", "clamp"))
        _run_algorithm2(rows, priors, self._inverse, *rates, *self._memory)

    def _check_memory(self) -> None:
        memory: Algorithm2Memory = self._memory
        filled = min(int(memory.seen[0]), memory.winners.size)
        winners, n_classes = memory.winners, memory.prior.size
        if not 0 <= memory.seen[0] <= LARGEST_TOTAL or (winners < 0).any() or (winners >= n_classes).any():
            raise InvalidStateError("the window of Algorithm 2 must hold class numbers")
        if not np.array_equal(memory.counts, np.bincount(memory.winners[:filled], minlength=memory.prior.size)):
            raise InvalidStateError("the counts of Algorithm 2 must be those of its window")


@compiled
def _run_algorithm2(
    rows: FloatArray,
    priors: FloatArray,
    inverse: FloatArray,
    rate: float,
    confidence: float,
    mixing: float,
    clamp: float,
    prior: FloatArray,
    winners: IntArray,
    counts: IntArray,
    seen: IntArray,
) -> None:
    n_classes, window = prior.size, winners.size
    posterior = np.empty(n_classes)
    frequency = np.empty(n_classes)
    step = np.empty(n_classes)
    for t in range(rows.shape[0]):
        priors[t] = prior
        winner = np.argmax(rows[t])
        slot = seen[0] % window
        if seen[0] >= window:
            counts[winners[slot]] -= 1
        winners[slot] = winner
        counts[winner] += 1
        seen[0] += 1
        filled = min(seen[0], window)

        evidence = 0.0
        total = 0.0
        for k in range(n_classes):
            posterior[k] = prior[k] * np.exp(rows[t, k] - rows[t, winner])
            evidence += posterior[k]
            fraction = 0.0
            for i in range(n_classes):
                fraction += inverse[k, i] * counts[i] / filled
            frequency[k] = max(fraction, 0.0)
            total += frequency[k]
        largest = 0.0
        largest_step = 0.0
        for k in range(n_classes):
            combined = mixing * posterior[k] / evidence + (1.0 - mixing) * frequency[k] / total
            step[k] = combined - prior[k]
            largest = max(largest, combined)
            largest_step = max(largest_step, abs(step[k]))

        if largest_step >= clamp:
            moved = clamp / largest_step if largest_step > 0.0 else 0.0
        elif largest > confidence:
            moved = rate
        else:
            moved = 0.0  # no update for uncertain
        total = 0.0
        for k in range(n_classes):
            prior[k] = max(prior[k] + moved * step[k], SMALLEST_PRIOR)
            total += prior[k]
        for k in range(n_classes):
            prior[k] /= total
