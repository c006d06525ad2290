"""Follow the fixed window history: take the mean of the last one-row estimates for the prior (Wu et al. 2021)."""

import numpy as np
import numpy.typing as npt

from experiments.peers.windowed import WindowedPeer
from obil.arrays import FloatArray, PriorLike, as_integer


class FTFWH(WindowedPeer):
    """Average C^-1 e_vote over the last `window` rows and project the mean onto the simplex.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) frequencies of predictions for each true class (columns); see `from_holdout`.
    training_prior
        The prior at which classes are predicted.
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
        super().__init__(
            prior, confusion=confusion, training_prior=training_prior, window=as_integer("window", window, 1)
        )

    def _map_of_frequencies(self, start: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.zeros(start.size), self._inverse
