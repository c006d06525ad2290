"""Follow the fixed window history: take the mean of the last one-row estimates for the prior (Wu et al. 2021)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.peers.simplex import SMALLEST_PRIOR, project_to_simplex
from experiments.peers.voting import VotingPeer
from obil.arrays import FloatArray, IntArray, PriorLike
from obil.compiled import compiled
from obil.errors import InvalidStateError
from obil.prior.tracker import as_count


class FTFWHMemory(NamedTuple):
    """The estimate, the last votes and how many went to each class, and how many rows were seen."""

    prior: FloatArray  # (K,)
    window: IntArray  # (w,)
    counts: IntArray  # (K,)
    seen: IntArray  # (1,)


class FTFWH(VotingPeer):
    """Average C^-1 e_vote over the last `window` rows and project the mean onto the simplex.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) vote shares for each true class (columns); see `from_holdout`.
    training_prior
        The prior at which rows vote.
    window
        How many rows the mean covers: one number has to serve every speed of change.
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        confusion: npt.ArrayLike,
        training_prior: PriorLike | None = None,
        window: int = 1_000,
    ) -> None:
        super().__init__(prior, confusion=confusion, training_prior=training_prior, window=as_count("window", window))

    def _lay_out(self, start: FloatArray) -> FTFWHMemory:
        return FTFWHMemory(
            prior=start.copy(),
            window=np.zeros(self._settings["window"], dtype=np.int64),
            counts=np.zeros(start.size, dtype=np.int64),
            seen=np.zeros(1, dtype=np.int64),
        )

    def _follow(self, votes: IntArray, priors: FloatArray) -> None:
        memory: FTFWHMemory = self._memory
        _follow_window(votes, priors, *memory, self._inverse)

    def _check_memory(self) -> None:
        super()._check_memory()
        memory: FTFWHMemory = self._memory
        if (memory.window < 0).any() or (memory.window >= memory.prior.size).any():
            raise InvalidStateError("the window of FTFWH must hold class numbers")


@compiled
def _follow_window(
    votes: IntArray,
    priors: FloatArray,
    prior: FloatArray,
    window: IntArray,
    counts: IntArray,
    seen: IntArray,
    inverse: FloatArray,
) -> None:
    n_classes = prior.size
    mean = np.empty(n_classes)
    for t in range(votes.size):
        priors[t] = prior
        slot = seen[0] % window.size
        if seen[0] >= window.size:
            counts[window[slot]] -= 1
        window[slot] = votes[t]
        counts[votes[t]] += 1
        seen[0] += 1
        filled = min(seen[0], window.size)
        for k in range(n_classes):
            mean[k] = 0.0
            for i in range(n_classes):
                mean[k] += inverse[k, i] * counts[i] / filled
        project_to_simplex(mean, SMALLEST_PRIOR, prior)
