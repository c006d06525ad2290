"""Turn what a classifier outputs into raw scores on the scale of log ratios."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError

SMALLEST_FLOOR = 1e-12


class Scorer(Protocol):
    """Gives raw scores: not yet calibrated, column 0 is 0.

    A scorer whose scores of a row have the same bits whichever rows are scored together with it has the attribute
    `batch_invariant`, and it is true: streams then score many rows in one call.
    """

    @property
    def n_features(self) -> int | None:
        """The width of a row, or None where any is taken."""

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores of rows, (n, K)."""


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorScorer:
    """The scores of a fitted scikit-learn classifier, with the prior it was trained at divided out.

    Probabilities become log p_k/prior_k - log p_0/prior_0; margins (`decision_function`) are taken as they are.
    Probabilities of exactly 0 or 1, as forests give them, are moved to `floor`.
    """

    estimator: Any
    method: str  # "predict_proba" or "decision_function"
    training_prior: FloatArray  # (K,)
    floor: float = SMALLEST_FLOOR
    n_features: int | None = None

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores, (n, K)."""
        try:
            output = np.asarray(getattr(self.estimator, self.method)(X), dtype=np.float64)
        except Exception as error:  # a foreign estimator raises what it likes
            reason = (str(error).splitlines() or [""])[0]
            raise InvalidInputError(
                f"the model cannot score these rows: {type(error).__name__}: {reason:.300}"
            ) from error
        if self.method == "predict_proba":
            return scores_of_probabilities(output, self.training_prior, self.floor)
        return scores_of_margins(output, self.training_prior.size)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnScorer:
    """Scores that another system computed: a row is its score, or one score a class."""

    batch_invariant: ClassVar[bool] = True
    kind: str  # "probability" or "margin"
    training_prior: FloatArray  # (K,)
    floor: float = SMALLEST_FLOOR

    @property
    def n_features(self) -> int | None:
        """Any: a single score of the positive class, or one score a class."""
        return None

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores, (n, K), of scores (n,), (n, 1) or (n, K)."""
        values = as_score_columns(X, n_classes=self.training_prior.size)
        if self.kind == "margin":
            return scores_of_margins(values, self.training_prior.size)
        if values.shape[1] == 1:
            values = np.concatenate([1.0 - values, values], axis=1)
        if (values < 0.0).any() or (values > 1.0).any():
            raise InvalidInputError("these scores are probabilities, so each must lie in [0, 1]")
        return scores_of_probabilities(values, self.training_prior, self.floor)


def as_score_columns(scores: npt.ArrayLike, *, n_classes: int | None = None) -> FloatArray:
    """Return scores as (n, 1) or (n, K), finite."""
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("scores must be numbers") from None
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or (n_classes is not None and values.shape[1] not in (1, n_classes)):
        raise InvalidInputError(f"scores must have shape (n,) or (n, {n_classes or 'K'}), got {values.shape}")
    if n_classes is not None and n_classes > 2 and values.shape[1] == 1:
        raise InvalidInputError(f"{n_classes} classes need one score a class, got a single column")
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise InvalidInputError(f"scores must be finite, got {values[row].tolist()} in row {row}")
    return values


def scores_of_probabilities(probabilities: FloatArray, training_prior: FloatArray, floor: float) -> FloatArray:
    """Return log p_k - log p_0 with the training prior divided out, (n, K)."""
    if not np.isfinite(probabilities).all():
        raise InvalidInputError("the model gave a probability that is not a number")
    logs = np.log(np.maximum(probabilities, floor)) - np.log(training_prior)
    relative: FloatArray = logs - logs[:, :1]
    return relative


def scores_of_margins(margins: FloatArray, n_classes: int) -> FloatArray:
    """Return margins relative to class 0, (n, K); a single column is the margin of class 1."""
    columns = margins[:, None] if margins.ndim == 1 else margins
    if n_classes == 2 and columns.shape[1] == 1:
        columns = np.concatenate([np.zeros_like(columns), columns], axis=1)
    if columns.shape[1] != n_classes or not np.isfinite(columns).all():
        raise InvalidInputError(f"margins must be finite with one column a class ({n_classes}), got {columns.shape}")
    relative: FloatArray = columns - columns[:, :1]
    return relative


def floor_of(probabilities: FloatArray) -> float:
    """Return half the smallest positive probability where some are 0, else a value that changes nothing.

    A forest of 100 trees says 0 where it means "below 1 in 100": taken as 1e-12 such rows would bend the
    whole calibration.

    >>> floor_of(np.array([[1.0, 0.0], [0.98, 0.02]]))
    0.01
    """
    positive = probabilities[probabilities > 0.0]
    if positive.size == probabilities.size:
        return SMALLEST_FLOOR
    return max(float(positive.min()) / 2.0, SMALLEST_FLOOR)
