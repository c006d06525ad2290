"""Estimate the class weights by regularised least squares over a window (RLLS, Azizzadenesheli et al. 2019)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.peers.simplex import SMALLEST_PRIOR, project_to_simplex
from experiments.peers.voting import VotingPeer
from obil.arrays import FloatArray, IntArray, PriorLike, require_in
from obil.compiled import compiled
from obil.errors import InvalidStateError
from obil.prior.tracker import as_count


class RLLSMemory(NamedTuple):
    """The estimate, the last votes and how many went to each class, and how many rows were seen."""

    prior: FloatArray  # (K,)
    window: IntArray  # (w,)
    counts: IntArray  # (K,)
    seen: IntArray  # (1,)


class RLLS(VotingPeer):
    """Shrink the black-box estimate towards the training prior, the more the less the votes tell.

    The weight of class k is 1 + lambda theta_k, its prior that times the training prior. With J[i, j] the
    joint share of votes for i and class j in training, and b the window's vote shares minus those in
    training, theta minimises |J theta - b|^2 + Delta |theta|^2. The paper adds the norms, not their
    squares. Both run through the same solutions as Delta varies, but its form returns J^-1 b, no
    regularisation at all, for every Delta below some value; the squares always shrink, and their solution is
    linear in the votes.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) vote shares for each true class (columns); see `from_holdout`.
    training_prior
        The prior at which rows vote.
    window
        How many rows the vote shares cover.
    regularisation
        Delta; the eigenvalues of J'J are about 1/K^2 for a good score.
    trust
        The paper's lambda: 1 believes theta, 0 keeps the training prior.
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        confusion: npt.ArrayLike,
        training_prior: PriorLike | None = None,
        window: int = 1_000,
        regularisation: float = 1e-4,
        trust: float = 1.0,
    ) -> None:
        super().__init__(
            prior,
            confusion=confusion,
            training_prior=training_prior,
            window=as_count("window", window),
            regularisation=require_in("regularisation", regularisation, 0.0, 1e6),
            trust=require_in("trust", trust, 0.0, 1.0),
        )

    def _lay_out(self, start: FloatArray) -> RLLSMemory:
        joint = np.asarray(self._settings["confusion"]) * self._training  # (K votes, K classes)
        gram = joint.T @ joint + self._settings["regularisation"] * np.eye(start.size)
        # theta = solve @ (shares - joint.sum(axis=1)), so the prior is constant + slope @ shares
        solve = np.linalg.solve(gram, joint.T)
        self._slope = np.ascontiguousarray(self._settings["trust"] * self._training[:, None] * solve)  # (K, K)
        self._constant = self._training - self._slope @ joint.sum(axis=1)  # (K,)
        return RLLSMemory(
            prior=start.copy(),
            window=np.zeros(self._settings["window"], dtype=np.int64),
            counts=np.zeros(start.size, dtype=np.int64),
            seen=np.zeros(1, dtype=np.int64),
        )

    def _follow(self, votes: IntArray, priors: FloatArray) -> None:
        memory: RLLSMemory = self._memory
        _regularised(votes, priors, *memory, self._constant, self._slope)

    def _check_memory(self) -> None:
        super()._check_memory()
        memory: RLLSMemory = self._memory
        if (memory.window < 0).any() or (memory.window >= memory.prior.size).any():
            raise InvalidStateError("the window of RLLS must hold class numbers")


@compiled
def _regularised(
    votes: IntArray,
    priors: FloatArray,
    prior: FloatArray,
    window: IntArray,
    counts: IntArray,
    seen: IntArray,
    constant: FloatArray,
    slope: FloatArray,
) -> None:
    n_classes = prior.size
    estimate = np.empty(n_classes)
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
            estimate[k] = constant[k]
            for i in range(n_classes):
                estimate[k] += slope[k, i] * counts[i] / filled
        project_to_simplex(estimate, SMALLEST_PRIOR, prior)
