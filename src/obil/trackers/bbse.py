"""Track the prior by black-box shift estimation (BBSE): predicted frequencies, corrected by the confusion matrix."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import (
    FloatArray,
    IntArray,
    PriorLike,
    as_floats,
    as_integer,
    as_labels,
    as_log_ratios,
    as_prior,
    require_distributions,
    require_same_length,
)
from obil.bayes.posterior import posterior
from obil.compiled import compiled
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers.bank_kernel import LARGEST_TOTAL
from obil.trackers.tracker import CompiledTracker

SMALLEST_PRIOR = 1e-6
LARGEST_CONDITION = 1e6


class BBSEMemory(NamedTuple):
    """The estimate, the predictions for the last rows with their sum, and how many rows were seen."""

    prior: FloatArray  # (K,)
    predictions: FloatArray  # (window, K)
    sums: FloatArray  # (K,)
    seen: IntArray  # (1,)


class BBSE(CompiledTracker):
    """Solve `confusion @ prior = mean prediction` over the last `window` rows after each row (Lipton et al. 2018).

    Rows are predicted at the training prior, whatever the current estimate: this estimator has no
    feedback loop, and it needs only the confusion matrix, not calibrated ratios. It is consistent for every matrix
    that can be inverted (docs/theory.md, Proposition 9). Its variance is higher.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) mean predictions for each true class (columns); see `BBSE.from_holdout`.
    training_prior
        The prior at which rows are predicted.
    soft
        Predict the posterior instead of its largest class.
    window
        How many rows the mean prediction covers.

    >>> tracker = BBSE(0.5, confusion=[[1.0, 0.0], [0.0, 1.0]], window=4)
    >>> _ = tracker.update_many([[0.0, 9.0], [0.0, -9.0], [0.0, -9.0], [0.0, -9.0]])
    >>> tracker.prior.round(3)
    array([0.75, 0.25])
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        confusion: npt.ArrayLike,
        training_prior: PriorLike | None = None,
        soft: bool = False,
        window: int = 1_000,
    ) -> None:
        super().__init__(
            prior,
            confusion=as_floats(confusion, "confusion").tolist(),
            training_prior=None if training_prior is None else as_prior(training_prior).tolist(),
            soft=bool(soft),
            window=as_integer("window", window, 1),
        )

    @classmethod
    def from_holdout(
        cls,
        log_ratios: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        prior: PriorLike,
        soft: bool = False,
        window: int = 1_000,
    ) -> "BBSE":
        """Build the tracker from held-out log ratios (n, K) and class numbers (n,), predicting at `prior`."""
        confusion = confusion_of_predictions(log_ratios, labels, prior=prior, soft=soft)
        return cls(prior, confusion=confusion, training_prior=prior, soft=soft, window=window)

    def _begin(self, start: FloatArray) -> BBSEMemory:
        self._inverse = inverse_of_confusion(self._settings["confusion"], n_classes=start.size)
        training = self._settings["training_prior"]
        self._log_training = np.log(start if training is None else as_prior(training, n_classes=start.size))
        predictions = np.zeros((self._settings["window"], start.size))
        return BBSEMemory(start.copy(), predictions, np.zeros(start.size), np.zeros(1, dtype=np.int64))

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        _run_bbse(rows, priors, self._inverse, self._log_training, self._settings["soft"], *self._memory)

    def _check_memory(self) -> None:
        if not 0 <= self._memory.seen[0] <= LARGEST_TOTAL:
            raise InvalidStateError("BBSE cannot have seen fewer rows than none, or so many")
        predictions = self._memory.predictions[: int(self._memory.seen[0])]
        require_distributions("the predictions of BBSE", predictions)
        if not np.allclose(predictions.sum(axis=0), self._memory.sums, rtol=1e-6, atol=1e-6):
            raise InvalidStateError("the sums of BBSE must be those of its predictions")


def confusion_of_predictions(
    log_ratios: npt.ArrayLike, labels: npt.ArrayLike, *, prior: PriorLike | None = None, soft: bool = False
) -> FloatArray:
    """Return C[i, j], the mean prediction of class i for held-out rows whose true class is j, (K, K).

    A hard prediction is the class with the largest posterior at `prior`, a soft one is that posterior.
    Without a prior it is the class with the largest ratio.

    >>> confusion_of_predictions([[0.0, -1.0], [0.0, 1.0], [0.0, 2.0]], [0, 0, 1])
    array([[0.5, 0. ],
           [0.5, 1. ]])
    """
    rows = as_log_ratios(log_ratios)
    true = as_labels(labels, n_classes=rows.shape[1])
    require_same_length(log_ratios=rows, labels=true)
    at = np.full(rows.shape[1], 1.0 / rows.shape[1]) if prior is None else as_prior(prior, n_classes=rows.shape[1])
    predictions = posterior(rows, at) if soft else np.eye(rows.shape[1])[np.argmax(rows + np.log(at), axis=1)]
    counts = np.bincount(true, minlength=rows.shape[1])
    if (counts == 0).any():
        raise InvalidInputError(f"every class needs a held-out row, got {counts.tolist()} rows per class")
    sums = np.zeros((rows.shape[1], rows.shape[1]))
    np.add.at(sums, true, predictions)
    return np.asarray((sums / counts[:, None]).T)


def inverse_of_confusion(confusion: npt.ArrayLike, *, n_classes: int) -> FloatArray:
    """Return the inverse of C, which maps predicted frequencies to a prior, (K, K).

    >>> inverse_of_confusion([[1.0, 0.0], [0.0, 1.0]], n_classes=2)
    array([[1., 0.],
           [0., 1.]])
    """
    matrix = as_floats(confusion, "confusion")
    if matrix.shape != (n_classes, n_classes):
        raise InvalidInputError(f"confusion must have shape ({n_classes}, {n_classes}), got {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0.0).any() or (abs(matrix.sum(axis=0) - 1.0) > 1e-6).any():
        raise InvalidInputError("confusion must hold probabilities: each column non-negative and summing to 1")
    if np.linalg.cond(matrix) > LARGEST_CONDITION:
        raise InvalidInputError(
            "confusion cannot be inverted: the predictions do not separate the classes. Use soft=True or a better model"
        )
    return np.ascontiguousarray(np.linalg.inv(matrix))


@compiled
def _run_bbse(
    rows: FloatArray,
    priors: FloatArray,
    inverse: FloatArray,
    log_training: FloatArray,
    soft: bool,
    prior: FloatArray,
    predictions: FloatArray,
    sums: FloatArray,
    seen: IntArray,
) -> None:
    window, n_classes = predictions.shape
    predicted = np.empty(n_classes)
    for t in range(rows.shape[0]):
        priors[t] = prior
        largest = -np.inf
        winner = 0
        for k in range(n_classes):
            predicted[k] = rows[t, k] + log_training[k]
            if predicted[k] > largest:
                largest, winner = predicted[k], k
        if soft:
            total = 0.0
            for k in range(n_classes):
                predicted[k] = np.exp(predicted[k] - largest)
                total += predicted[k]
            predicted /= total
        else:
            predicted[:] = 0.0
            predicted[winner] = 1.0
        slot = seen[0] % window
        for k in range(n_classes):
            sums[k] += predicted[k] - predictions[slot, k]
            predictions[slot, k] = predicted[k]
        seen[0] += 1
        if seen[0] % window == 0:  # a running sum of soft predictions accumulates rounding: compute it anew
            for k in range(n_classes):
                sums[k] = predictions[:, k].sum()
        filled = min(seen[0], window)
        total = 0.0
        for i in range(n_classes):
            fraction = 0.0
            for j in range(n_classes):
                fraction += inverse[i, j] * sums[j] / filled
            prior[i] = max(fraction, SMALLEST_PRIOR)
            total += prior[i]
        prior /= total
