"""Estimate how predictions confuse the classes, and turn predicted frequencies back into a prior."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_floats, as_labels, as_log_ratios, as_prior, require_same_length
from obil.bayes.posterior import posterior
from obil.errors import InvalidInputError

LARGEST_CONDITION = 1e6


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
