"""Follow the history: take the mean of all past one-row estimates for the prior (Wu et al. 2021)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.peers.black_box import BlackBoxPeer
from experiments.peers.simplex import SMALLEST_PRIOR, project_to_simplex
from obil.arrays import FloatArray, IntArray, PriorLike
from obil.compiled import compiled


class FTHMemory(NamedTuple):
    """The estimate, the predictions of each class, and how many rows were seen."""

    prior: FloatArray  # (K,)
    counts: IntArray  # (K,)
    seen: IntArray  # (1,)


class FTH(BlackBoxPeer):
    """Average C^-1 e_vote over every row so far and project the mean onto the simplex.

    The start prior serves the first row only. The right answer for a prior that never moves, late for any other.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) frequencies of predictions for each true class (columns); see `from_holdout`.
    training_prior
        The prior at which classes are predicted.
    """

    def __init__(
        self, prior: PriorLike | None = None, *, confusion: npt.ArrayLike, training_prior: PriorLike | None = None
    ) -> None:
        super().__init__(prior, confusion=confusion, training_prior=training_prior)

    def _lay_out(self, start: FloatArray) -> FTHMemory:
        return FTHMemory(start.copy(), np.zeros(start.size, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def _follow(self, predictions: IntArray, priors: FloatArray) -> None:
        memory: FTHMemory = self._memory
        _follow_history(predictions, priors, *memory, self._inverse)


@compiled
def _follow_history(
    predictions: IntArray, priors: FloatArray, prior: FloatArray, counts: IntArray, seen: IntArray, inverse: FloatArray
) -> None:
    n_classes = prior.size
    mean = np.empty(n_classes)
    for t in range(predictions.size):
        priors[t] = prior
        counts[predictions[t]] += 1
        seen[0] += 1
        for k in range(n_classes):
            mean[k] = 0.0
            for i in range(n_classes):
                mean[k] += inverse[k, i] * counts[i] / seen[0]
        project_to_simplex(mean, SMALLEST_PRIOR, prior)
