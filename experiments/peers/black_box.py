"""Predict the class of each row at the training prior, and hold the confusion matrix that corrects it."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, PriorLike, as_log_ratios, as_prior
from obil.errors import InvalidStateError
from obil.trackers.bbse import confusion_of_predictions, inverse_of_confusion
from obil.trackers.tracker import CompiledTracker


class BlackBoxPeer(CompiledTracker):
    """The base of the peers: all they see of a row is its predicted class.

    With C[i, j] the frequency of prediction i among rows of class j, prediction i of one row gives the one-row
    estimate C^-1 e_i of the prior (black-box shift estimation): unbiased, and far outside the simplex.
    Peers differ in how they smooth these estimates over time. `_inverse` (K, K) holds the one-row
    estimates in its columns. A subclass lays out its memory in `_lay_out` and calls its kernel in `_follow`.
    """

    _inverse: FloatArray  # (K, K)
    _training: FloatArray  # (K,)

    def __init__(
        self, prior: PriorLike | None, *, confusion: npt.ArrayLike, training_prior: PriorLike | None, **settings: Any
    ) -> None:
        super().__init__(
            prior,
            confusion=np.asarray(confusion, dtype=np.float64).tolist(),
            training_prior=None if training_prior is None else as_prior(training_prior).tolist(),
            **settings,
        )

    @classmethod
    def from_holdout(
        cls, log_ratios: npt.ArrayLike, labels: npt.ArrayLike, *, prior: PriorLike, **settings: Any
    ) -> Self:
        """Build the peer from held-out log ratios (n, K) and class numbers (n,), predicting at `prior`."""
        confusion = confusion_of_predictions(as_log_ratios(log_ratios), labels, prior=prior)
        return cls(prior, confusion=confusion, training_prior=prior, **settings)

    def _begin(self, start: FloatArray) -> Any:
        self._inverse = inverse_of_confusion(self._settings["confusion"], n_classes=start.size)
        training = self._settings["training_prior"]
        self._training = start if training is None else as_prior(training, n_classes=start.size)
        return self._lay_out(start)

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        predictions = np.argmax(rows + np.log(self._training), axis=1).astype(np.int64)
        self._follow(predictions, priors)

    def _check_memory(self) -> None:
        memory = self._memory
        if memory.seen[0] < 0 or (memory.counts < 0).any():
            raise InvalidStateError(f"{type(self).__name__} cannot have seen a negative number of rows")

    def _lay_out(self, start: FloatArray) -> Any:
        raise NotImplementedError

    def _follow(self, predictions: IntArray, priors: FloatArray) -> None:
        raise NotImplementedError
