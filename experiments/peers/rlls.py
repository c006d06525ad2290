"""Estimate the class weights by regularised least squares over a window (RLLS, Azizzadenesheli et al. 2019)."""

import numpy as np
import numpy.typing as npt

from experiments.peers.windowed import WindowedPeer
from obil.arrays import FloatArray, PriorLike, as_integer, require_in


class RLLS(WindowedPeer):
    """Shrink the black-box estimate towards the training prior, the more the less informative the predictions are.

    The weight of class k is 1 + lambda theta_k, its prior that times the training prior. With J[i, j] the
    joint frequency of prediction i and class j in training, and b the window's frequencies minus those in
    training, theta minimises |J theta - b|^2 + Delta |theta|^2. The paper adds the norms, not their
    squares. Both run through the same solutions as Delta varies, but its form returns J^-1 b, no
    regularisation at all, for every Delta below some value; the squares always shrink, and their solution is
    linear in the predictions.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) frequencies of predictions for each true class (columns); see `from_holdout`.
    training_prior
        The prior at which classes are predicted.
    window
        How many rows the frequencies cover.
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
            window=as_integer("window", window, 1),
            regularisation=require_in("regularisation", regularisation, 0.0, 1e6),
            trust=require_in("trust", trust, 0.0, 1.0),
        )

    def _map_of_frequencies(self, start: FloatArray) -> tuple[FloatArray, FloatArray]:
        joint = np.asarray(self._settings["confusion"]) * self._training  # (K predictions, K classes)
        gram = joint.T @ joint + self._settings["regularisation"] * np.eye(start.size)
        solve = np.linalg.solve(gram, joint.T)  # theta = solve @ (frequencies - joint.sum(axis=1))
        slope = np.ascontiguousarray(self._settings["trust"] * self._training[:, None] * solve)
        return self._training - slope @ joint.sum(axis=1), slope
