"""Turn what a classifier outputs into raw scores on the scale of log ratios."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_prior
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.records import SKOPS, JsonFloats

SMALLEST_FLOOR = 1e-12
# What a classifier's outputs are. A single column is class 1's, of two.
PROBABILITY = "probability"
LOGIT = "logit"  # log odds of class 1, or the inputs of a softmax
ONE_VS_REST = "one_vs_rest"  # log odds of each class against the rest, turned into probabilities and normalised
MARGIN = "margin"  # on no particular scale: taken as they are
LINKS = (PROBABILITY, LOGIT, ONE_VS_REST, MARGIN)


@runtime_checkable
class Scorer(Protocol):
    """Gives raw scores: not yet calibrated, column 0 is 0.

    A scorer whose scores of a row have the same bits whichever rows are scored together with it has the attribute
    `batch_invariant`, and it is true: streams then score many rows in one call.
    """

    @property
    def n_features(self) -> int | None:
        """The width of a row, or None where any is taken."""

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores of rows, (n, K)."""


class OutputScorer:
    """A scorer that turns a classifier's outputs into raw scores."""

    __slots__ = ()
    training_prior: JsonFloats  # (K,)
    floor: float  # probabilities below it are moved to it
    links: ClassVar[tuple[str, ...]] = LINKS  # what its outputs may be

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.training_prior.size

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        if as_prior(self.training_prior).shape != self.training_prior.shape:
            raise InvalidInputError(
                f"a model's training prior must have one number per class, got {self.training_prior}"
            )
        if not 0.0 <= self.floor <= 0.5:
            raise InvalidInputError(f"a model's floor of probabilities must lie in [0, 0.5], got {self.floor!r}")
        link = getattr(self, "link", MARGIN)
        if link not in self.links:
            raise InvalidInputError(f"a model's outputs must be one of {', '.join(self.links)}, got {link!r:.40}")


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorScorer(OutputScorer):
    """The scores of a fitted scikit-learn classifier, with the class prior it was trained at divided out.

    Probabilities become log p_k/prior_k - log p_0/prior_0; margins (`decision_function`) are taken as they are.
    Probabilities of exactly 0 or 1, as forests give them, are moved to `floor`.
    """

    estimator: Annotated[Any, SKOPS]
    method: str  # "predict_proba" or "decision_function"
    training_prior: JsonFloats  # (K,)
    floor: float = SMALLEST_FLOOR
    n_features: int | None = None
    reason: str = "it was not frozen into arrays"  # why it is served by its own library

    @property
    def link(self) -> str:
        """What the outputs are: PROBABILITY or MARGIN."""
        return link_of(self.method)

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores, (n, K)."""
        return raw_scores(self.outputs(X), self.link, self.training_prior, self.floor)

    def outputs(self, X: Any) -> FloatArray:
        """Return the classifier's probabilities or margins, (n, K) or (n, 1)."""
        try:
            output = np.asarray(getattr(self.estimator, self.method)(X), dtype=np.float64)
        except Exception as error:  # a foreign estimator raises what it likes
            reason = (str(error).splitlines() or [""])[0]
            raise InvalidInputError(
                f"the model cannot score these rows: {type(error).__name__}: {reason:.300}"
            ) from error
        return output[:, None] if output.ndim == 1 else output


@dataclass(frozen=True, slots=True, eq=False)
class ColumnScorer(OutputScorer):
    """Scores that another system computed: a row is its score, or one score per class."""

    batch_invariant: ClassVar[bool] = True
    links: ClassVar[tuple[str, ...]] = (PROBABILITY, MARGIN)
    link: str
    training_prior: JsonFloats  # (K,)
    floor: float = SMALLEST_FLOOR

    @property
    def n_features(self) -> int | None:
        """Any: a single score of the positive class, or one score per class."""
        return None

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores, (n, K), of scores (n,), (n, 1) or (n, K)."""
        values = as_score_columns(X, n_classes=self.training_prior.size)
        if self.link == PROBABILITY and ((values < 0.0).any() or (values > 1.0).any()):
            raise InvalidInputError("these scores are probabilities, so each must lie in [0, 1]")
        return raw_scores(values, self.link, self.training_prior, self.floor)


def link_of(method: str) -> str:
    """Return what the outputs of a scikit-learn method are."""
    links = {"predict_proba": PROBABILITY, "decision_function": MARGIN}
    if method not in links:
        raise InvalidInputError(f"a classifier must be scored by {' or '.join(links)}, got {method!r:.40}")
    return links[method]


def as_matrix(X: Any, n_features: int | None = None) -> FloatArray:
    """Return rows as float64, (n, d); d is `n_features` where that is given."""
    try:
        matrix = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"features must be numbers, got {str(error).splitlines()[0]:.120}") from None
    if matrix.ndim != 2:
        raise InvalidInputError(f"rows must be a table, (n, d), got an array of shape {matrix.shape}")
    if n_features is not None and matrix.shape[1] != n_features:
        raise InvalidInputError(f"a row has {n_features} features, got an array of shape {matrix.shape}")
    return matrix


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
        raise InvalidInputError(f"{n_classes} classes need one score per class, got a single column")
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise InvalidInputError(f"scores must be finite, got {values[row].tolist()} in row {row}")
    return values


def raw_scores(outputs: FloatArray, link: str, training_prior: FloatArray, floor: float) -> FloatArray:
    """Return raw scores, (n, K), of a classifier's outputs, (n, K) or (n, 1) for class 1 of two.

    Probabilities, or what a link makes of logits, are moved to `floor` where they are below it, and the training
    prior is divided out: log p_k/prior_k - log p_0/prior_0. Margins are only taken relative to class 0.

    >>> raw_scores(np.array([[0.8]]), PROBABILITY, np.array([0.5, 0.5]), 0.0).round(3).tolist()
    [[0.0, 1.386]]
    """
    n_classes = training_prior.size
    if outputs.shape[1] != n_classes and (outputs.shape[1] != 1 or n_classes != 2):
        raise InvalidInputError(f"the model must give one output per class ({n_classes}), got shape {outputs.shape}")
    scores = np.empty((len(outputs), n_classes))
    if not _fill_scores(outputs, LINKS.index(link), training_prior, floor, scores):
        raise InvalidInputError("the model's outputs must be finite, got one that is not: are the features extreme?")
    return scores


@compiled
def _fill_scores(outputs: FloatArray, link: int, training_prior: FloatArray, floor: float, scores: FloatArray) -> bool:
    """Write raw scores, (n, K); return whether all outputs were finite."""
    n_rows, n_classes = scores.shape
    log_floor = np.log(max(floor, 1e-300))
    log_prior = np.log(training_prior)
    for r in range(n_rows):
        logs = scores[r]
        largest = -np.inf
        for k in range(n_classes):
            if outputs.shape[1] > 1:
                value = outputs[r, k]
            elif link == 0:
                value = outputs[r, 0] if k == 1 else 1.0 - outputs[r, 0]
            else:
                value = outputs[r, 0] if k == 1 else 0.0
            if not np.isfinite(value):
                return False
            if link == 0:
                value = np.log(max(value, floor)) if max(value, floor) > 0.0 else log_floor
            elif link == 2:
                value = -np.log1p(np.exp(-value)) if value > -30.0 else value
            logs[k] = value
            largest = max(largest, value)
        if link in (1, 2):
            total = 0.0
            for k in range(n_classes):
                total += np.exp(logs[k] - largest)
            shift = largest + np.log(total)
            for k in range(n_classes):
                logs[k] = max(logs[k] - shift, log_floor)
        if link != 3:
            for k in range(n_classes):
                logs[k] -= log_prior[k]
        first = logs[0]
        for k in range(n_classes):
            logs[k] -= first
    return True


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
