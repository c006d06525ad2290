"""Score rows to calibrated log ratios: the frozen model that serves, whatever it was fitted with."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, PriorLike, are_finite, as_log_ratios, as_prior
from obil.bayes.posterior import posterior
from obil.errors import InvalidInputError
from obil.serving.calibrators import Calibrator, ScoreMap
from obil.serving.columns import Column, ColumnEncoder, column_names, column_values, is_table, require_columns
from obil.serving.empty_rows import rows_without_features
from obil.serving.folds import fold_scores, folds_of, folds_of_rows, mean_of_folds, trees_in_one_pass
from obil.serving.holdout import Holdout
from obil.serving.records import JSON
from obil.serving.row_inputs import RowInputs
from obil.serving.scorers import PROBABILITY, ColumnScorer, EstimatorScorer, Scorer
from obil.serving.tracker_advice import TrackerAdvice
from obil.serving.trees import TreeScorer

LARGEST_TOLERANCE, LARGEST_BLOCK = 10.0, 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What the prior is read from: scores distributed as on the held-out rows, and their map to log ratios."""

    calibrator: ScoreMap
    scores: FloatArray  # (n, K) raw and out-of-fold, of the model's held-out rows
    scorer: Scorer | None = None  # the models of the folds; None where they are what decides
    tolerance: float = 0.0  # how far histograms of the folds differ beyond chance, for the monitor
    block: int = 1  # neighbouring rows that may depend on each other, likewise
    choice: str = "calibrated"  # which map was chosen, and by what figures

    @property
    def holdout(self) -> FloatArray:
        """The log ratios of the held-out rows, (n, K)."""
        return self.calibrator.apply(self.scores)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A member that sees only some of the features: other evidence from the same rows."""

    features: tuple[int, ...]
    scorer: Scorer
    calibrator: ScoreMap
    scores: FloatArray  # (n, K) its raw, out-of-fold scores of the model's held-out rows

    @property
    def holdout(self) -> FloatArray:
        """The log ratios of the held-out rows, (n, K)."""
        return self.calibrator.apply(self.scores)


class Scores(NamedTuple):
    """The log ratios of rows: what decides, and what the prior is read from.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10).model_
    >>> model.score([[-1.0], [1.0]]).log_ratios.shape
    (2, 2)
    """

    log_ratios: FloatArray  # (n, K) calibrated
    # (n, F, 1 + V + D, K) by the model of each fold: all features first, then each view; then the row's inputs.
    # The first are [0, NaN, ...] where a row must not update the prior.
    evidence: FloatArray

    def evidence_from(self, first_row: int) -> FloatArray:
        """Return the evidence of a stream's rows from `first_row` on, by one fold per row, (n, 1 + V + D, K)."""
        n_rows, n_folds = self.evidence.shape[:2]
        return self.evidence[np.arange(n_rows), folds_of_rows(first_row, n_rows, n_folds)]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RatioModel:
    """A scorer with its calibrator and the held-out rows that vouch for them. Immutable and thread safe.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10).model_
    >>> model.predict_proba([[0.0]], prior=0.2).round(2)  # a score of neither class: the prior decides
    array([[0.8, 0.2]])
    """

    scorer: Scorer
    calibrator: Calibrator
    classes_: Annotated[npt.NDArray[Any], JSON]  # (K,)
    prior_: FloatArray  # (K,)
    holdout_: Holdout
    feature_names: tuple[str, ...] | None = None
    encoder: ColumnEncoder | None = None
    view_members: tuple[View, ...] = ()
    calibration: str = "affine"  # the name of the calibrator's kind
    advice: TrackerAdvice | None = None  # what a backtest found a tracker should start with
    evidence: Evidence | None = None  # None: what decides is distributed as on the held-out rows, and is evidence too
    inputs: RowInputs | None = None  # what recalibrations by labels see of a row, of two classes
    n_folds: int = field(init=False)  # models of folds that give evidence, F, views included; one for each row
    view_trees: TreeScorer | None = field(init=False)  # of all views, walked in one pass

    def __post_init__(self) -> None:
        views = self.view_members
        scorers, features = [view.scorer for view in views], [view.features for view in views]
        trees = trees_in_one_pass(scorers, features, self.scorer.n_features) if views else None
        n_folds = max(len(folds_of(scorer)) for scorer in (self._evidence_scorer, *scorers))
        object.__setattr__(self, "n_folds", n_folds)
        object.__setattr__(self, "view_trees", trees)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.classes_)

    def require_sound(self) -> None:
        """Refuse parts of a damaged file that do not fit one another."""
        if self.classes_.ndim != 1 or len(set(self.classes_.tolist())) != self.n_classes:
            raise InvalidInputError(f"the classes of a model are distinct, got {self.classes_.tolist()!r:.80}")
        if self.prior_.shape != self.classes_.shape:
            raise InvalidInputError(f"the prior must be of {self.n_classes} classes, got the shape {self.prior_.shape}")
        as_prior(self.prior_)
        parts: dict[str, Any] = {"held-out rows": self.holdout_, "calibrator": self.calibrator, "scorer": self.scorer}
        sources: list[tuple[str, Evidence | View]] = [] if self.evidence is None else [("the evidence", self.evidence)]
        sources += [(f"view {place}", view) for place, view in enumerate(self.view_members)]
        for name, source in sources:
            parts |= {f"calibrator of {name}": source.calibrator}
            parts |= {} if source.scorer is None else {f"scorer of {name}": source.scorer}
            if source.scores.shape != self.holdout_.log_ratios.shape or not np.isfinite(source.scores).all():
                raise InvalidInputError(f"the held-out scores of {name} must be those of the model's held-out rows")
            if source.scorer is not None and len(folds_of(source.scorer)) not in (1, self.n_folds):
                raise InvalidInputError(f"{name} must have the model's {self.n_folds} folds, or one")
        n_features = self.scorer.n_features
        if self.inputs is not None and self.n_classes != 2:
            raise InvalidInputError(f"only a model of two classes has inputs, got {self.n_classes} classes")
        if self.inputs is not None and max(self.inputs.features, default=-1) >= (n_features or 0):
            raise InvalidInputError(f"inputs must be features of the model, got {self.inputs.features!r:.80}")
        for view in self.view_members:
            known = view.scorer.n_features in (None, len(view.features))
            if not known or (n_features is not None and not all(0 <= place < n_features for place in view.features)):
                raise InvalidInputError(f"a view must have features of the model, got {view.features!r:.80}")
        if self._evidence_scorer.n_features != self.scorer.n_features:
            raise InvalidInputError("what decides and the evidence must take the same features")
        if self.evidence is not None and not 0.0 <= self.evidence.tolerance <= LARGEST_TOLERANCE:
            raise InvalidInputError(f"the tolerance of a model must lie in [0, 10], got {self.evidence.tolerance!r}")
        if self.evidence is not None and not 1 <= self.evidence.block <= LARGEST_BLOCK:
            raise InvalidInputError(f"the block of a model must be 1 to 1,000 rows, got {self.evidence.block!r}")
        for name, part in parts.items():
            if part.n_classes != self.n_classes:
                raise InvalidInputError(f"the {name} must be of {self.n_classes} classes, got {part.n_classes}")
        if self.encoder is not None and self.feature_names not in (None, self.encoder.names):
            raise InvalidInputError(f"the model's features must be its columns, got {self.feature_names!r:.80}")
        if self.encoder is not None and n_features not in (None, len(self.encoder.columns)):
            raise InvalidInputError(
                f"the model takes {n_features} features, its columns are {len(self.encoder.columns)}"
            )

    @property
    def n_features(self) -> int | None:
        """The number of columns; None if the scorer takes any number."""
        return self.scorer.n_features

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns that rows are encoded by, with their categories; None if the scorer takes rows as they are."""
        return None if self.encoder is None else self.encoder.columns

    @property
    def n_views(self) -> int:
        """How many views the model was fitted with, V."""
        return len(self.view_members)

    @property
    def n_inputs(self) -> int:
        """How many inputs of a row stand beside its log ratios in the evidence, D."""
        return 0 if self.inputs is None else self.inputs.size

    @property
    def n_own_folds(self) -> int:
        """How many models of folds give evidence on all features: those of `fold_scores` and `evidence_rows`."""
        return len(folds_of(self._evidence_scorer))

    @property
    def _evidence_scorer(self) -> Scorer:
        return self.scorer if self.evidence is None or self.evidence.scorer is None else self.evidence.scorer

    @property
    def batch_invariant(self) -> bool:
        """Whether the scores of a row have the same bits whichever rows are scored together with it."""
        scorers = [self.scorer, self._evidence_scorer, *(view.scorer for view in self.view_members)]
        return all(getattr(scorer, "batch_invariant", False) for scorer in scorers)

    @property
    def evidence_holdout(self) -> Holdout:
        """The held-out rows with the log ratios that the prior is read from."""
        if self.evidence is None:
            return self.holdout_
        return Holdout(self.evidence.holdout, self.holdout_.labels, self.holdout_.weights)

    @property
    def evidence_maps(self) -> tuple[tuple[ScoreMap, FloatArray], ...]:
        """The maps that give evidence, the model's own and those of its views, each with raw held-out scores (n, K)."""
        own: tuple[ScoreMap, FloatArray]
        if self.evidence is None:
            own = (self.calibrator, self.calibrator.invert(self.holdout_.log_ratios))
        else:
            own = (self.evidence.calibrator, self.evidence.scores)
        return own, *((view.calibrator, view.scores) for view in self.view_members)

    @property
    def scores_probabilities(self) -> bool:
        """Whether raw scores come from probabilities of a wrapped classifier or of another system.

        Their scale is known, so a calibrator keeps its slope near 1.
        """
        return all(
            isinstance(fold, EstimatorScorer | ColumnScorer) and fold.link == PROBABILITY
            for fold in folds_of(self.scorer)
        )

    def score(self, X: Any, *, at: Any = None) -> Scores:
        """Return the log ratios of rows that decide, and the evidence by each fold; rows are encoded once.

        A row whose features are all missing is decided by what the scorer makes of that, and is no evidence: NaN.

        `at` is when the rows came: datetimes, or seconds since 1970. Recalibrations by labels then see the season.
        """
        matrix, scorer = self.prepare(X), self._evidence_scorer
        raw = fold_scores(scorer, matrix)  # (n, F, K)
        if scorer is self.scorer:
            log_ratios = self.calibrated(mean_of_folds(raw))
        else:
            log_ratios = self.calibrated(self.scorer.scores(matrix))
        n_rows, n_folds, n_classes = raw.shape
        if self.evidence is None and n_folds == 1:
            own = log_ratios.copy()
        else:
            calibrator = self.calibrator if self.evidence is None else self.evidence.calibrator
            own = calibrator.apply(raw.reshape(-1, n_classes))
        evidence = own.reshape(n_rows, n_folds, 1, n_classes)
        if self.view_members or self.inputs is not None:
            evidence = self._with_views_and_inputs(evidence, matrix, at)
        if not are_finite(evidence):
            raise InvalidInputError("the evidence of these rows is not finite: are the features extreme?")
        empty = rows_without_features(matrix)
        if empty is not None:
            evidence[empty, :, 0, 1:] = np.nan  # what the scorer makes of nothing is no evidence
        return Scores(log_ratios, evidence)

    def _with_views_and_inputs(self, own: FloatArray, matrix: Any, at: Any) -> FloatArray:
        """Return evidence on all features, (n, F or 1, 1, K), with what stands behind it, (n, F, 1 + V + D, K)."""
        n_sources, n_classes = 1 + self.n_views, self.n_classes
        evidence = np.empty((len(own), self.n_folds, n_sources + self.n_inputs, n_classes))
        evidence[:, :, :1] = own
        for place, (view, seen) in enumerate(zip(self.view_members, self._view_scores(matrix), strict=True), start=1):
            evidence[:, :, place] = view.calibrator.apply(seen.reshape(-1, n_classes)).reshape(seen.shape)
        if self.inputs is not None:
            self.inputs.write(matrix, at, evidence, n_sources)
        return evidence

    def _view_scores(self, matrix: Any) -> Iterable[FloatArray]:
        """Return the raw scores of rows by the folds of each view, (n, F, K) each."""
        if self.view_trees is None:
            return (fold_scores(view.scorer, columns_of(matrix, view.features)) for view in self.view_members)
        n_scorers = self.n_views * len(folds_of(self.view_members[0].scorer))
        every = self.view_trees.stacked_scores(matrix, n_scorers)
        return every.reshape(len(every), self.n_views, n_scorers // self.n_views, self.n_classes).swapaxes(0, 1)

    def evidence_rows(self, X: Any) -> FloatArray:
        """Return the log ratios that the prior of a batch is read from, by the model of each fold, (n, F, K).

        Those of a row without any feature are 0: it is as likely under every prior.
        """
        rows = replace(self, view_members=(), inputs=None).score(X).evidence[:, :, 0]
        return np.nan_to_num(rows, copy=False)

    def log_ratios(self, X: Any) -> FloatArray:
        """Return calibrated log ratios of rows, (n, K)."""
        return self.calibrated(self.scores(X))

    def scores(self, X: Any) -> FloatArray:
        """Return the raw scores of rows, (n, K): what a calibrator is fitted on."""
        return self.scorer.scores(self.prepare(X))

    def fold_scores(self, X: Any) -> FloatArray:
        """Return the raw scores of rows by the model of each fold, (n, F, K): what evidence is mapped from."""
        return fold_scores(self._evidence_scorer, self.prepare(X))

    def calibrated(self, scores: FloatArray, calibrator: Calibrator | None = None) -> FloatArray:
        """Return the log ratios of raw scores, with this calibrator or another, (n, K)."""
        ratios = (calibrator or self.calibrator).apply(scores)
        # one row is looked at in a tenth of the time the array checks take
        if ratios.shape == (1, 2) and ratios.item(0) == 0.0 and math.isfinite(ratios.item(1)):
            return ratios
        return as_log_ratios(ratios, n_classes=self.n_classes)

    def predict_proba(self, X: Any, *, prior: PriorLike | Mapping[Any, float] | None = None) -> FloatArray:
        """Return posteriors at any prior, (n, K); without one, at the training prior."""
        return posterior(self.log_ratios(X), self.prior_ if prior is None else self.as_prior(prior))

    def as_prior(self, prior: PriorLike | Mapping[Any, float]) -> FloatArray:
        """Return a prior given as a number, an array or {class: probability}, (K,)."""
        return prior_of_classes(prior, self.classes_)

    def recalibrated(
        self, calibrator: Calibrator, holdout: Holdout, *, calibration: str, evidence: Evidence | None = None
    ) -> "RatioModel":
        """Return the same model with another calibrator, of the kind named, and the rows that vouch for it.

        `evidence` is of the same rows. Without it the calibrator maps evidence too, which a model of several folds
        should not do: the scores of one fold are distributed differently from their mean.
        """
        return replace(
            self,
            calibrator=calibrator,
            holdout_=holdout,
            view_members=(),
            calibration=calibration,
            advice=None,
            evidence=evidence,
        )

    def with_rows_in(self, order: IntArray) -> "RatioModel":
        """Return the same model with its held-out rows in another order, (n,)."""
        held_out = self.holdout_
        return replace(
            self,
            holdout_=Holdout(held_out.log_ratios[order], held_out.labels[order], held_out.weights[order]),
            evidence=None if self.evidence is None else replace(self.evidence, scores=self.evidence.scores[order]),
            view_members=tuple(replace(view, scores=view.scores[order]) for view in self.view_members),
        )

    def with_advice(self, advice: TrackerAdvice | None) -> "RatioModel":
        """Return the same model with a backtest's advice to the tracker of its streams."""
        return replace(self, advice=advice)

    def describe(self) -> str:
        """Return a text on what serves: the scorer, frozen or wrapped and why, classes, features, calibration, views.

        >>> from obil.serving.calibrators import LinearCalibrator
        >>> from obil.serving.scorers import ColumnScorer
        >>> print(RatioModel(ColumnScorer("margin", np.array([0.5, 0.5])), LinearCalibrator.identity(2),
        ...     np.array(["ok", "fraud"]), np.array([0.9, 0.1]), Holdout.of([[0, 1], [0, -1]], [1, 0])).describe())
        scores       a margin that another system computed
        evidence     the scores that decide
        classes      ok: 0.9, fraud: 0.1 (training prior)
        features     any
        calibration  affine, on 2 held-out rows
        views        none
        """
        from obil.serving.describe_model import describe_model  # noqa: PLC0415  # a stream does not ask for it

        return describe_model(self)

    def prepare(self, X: Any) -> Any:
        """Match columns by name where there are names; check the width; return what the scorer takes."""
        if (
            type(X) is np.ndarray
            and self.feature_names is None
            and X.ndim == 2
            and X.shape[1] == self.scorer.n_features
        ):
            return X
        if is_table(X):
            if self.encoder is not None:
                return self.encoder.encode(X)
            if self.feature_names is not None:
                return _by_name(X, self.feature_names)
            X = as_dataframe(X)
        n_features = self.scorer.n_features
        shape = X.shape if hasattr(X, "shape") else np.shape(X)
        if n_features is not None and (len(shape) != 2 or shape[1] != n_features):
            raise InvalidInputError(f"a row has {n_features} features, got an array of shape {tuple(shape)}")
        if self.encoder is not None:
            return _encoded(X, self.encoder)
        if self.feature_names is not None and n_features is not None and isinstance(self.scorer, EstimatorScorer):
            return _with_names(X, self.feature_names)
        return X


def as_ratio_model(model: Any) -> RatioModel:
    """Return the frozen model inside a fitted classifier, or the model itself."""
    inner = getattr(model, "model_", model)
    if not isinstance(inner, RatioModel):
        name = type(model).__name__
        if hasattr(model, "log_ratios"):
            raise InvalidInputError(f"this {name} is not fitted: call fit(X, y) first")
        remedy = "give a fitted RatioClassifier or OBILClassifier, or what obil.load returned"
        if hasattr(model, "fit") and not isinstance(model, type):
            remedy = "wrap it as RatioClassifier(FrozenEstimator(model)).fit(X, y), with rows it was not fitted on"
        raise InvalidInputError(f"{name} gives no calibrated log ratios: {remedy}")
    return inner


def prior_of_classes(prior: PriorLike | Mapping[Any, float], classes: npt.NDArray[Any]) -> FloatArray:
    """Return a prior given as a number (of the second class), an array or {class: probability}, (K,).

    >>> prior_of_classes({"ok": 0.9, "fraud": 0.1}, np.array(["fraud", "ok"]))
    array([0.1, 0.9])
    """
    if not isinstance(prior, Mapping):
        return as_prior(prior, n_classes=len(classes))
    names = classes.tolist()
    if set(prior) != set(names):
        raise InvalidInputError(f"a prior by class names every one of {names}, got {list(prior)}")
    return as_prior([prior[name] for name in names])


def labels_to_numbers(labels: npt.ArrayLike, classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the class number of each of the user's labels, (n,)."""
    values = np.asarray(labels)
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    try:
        return np.array([numbers[label] for label in values.tolist()], dtype=np.int64)
    except (KeyError, TypeError) as unknown:  # a label that cannot be looked up is none either
        raise InvalidInputError(f"the classes are {classes.tolist()}, got the label {unknown.args[0]!r:.80}") from None


def class_named(text: str, classes: npt.NDArray[Any]) -> int:
    """Return the number of the class that a text names.

    >>> class_named("1.0", np.array([0, 1]))
    1
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    names = classes.tolist()
    for place, name in enumerate(names):
        if str(name) == text or (not isinstance(name, str | bool) and name == number):
            return place
    raise InvalidInputError(f"{text!r:.40} is not one of the classes {names!r:.200}")


def as_dataframe(X: Any) -> Any:
    """Return a table of another kind as a pandas DataFrame, which wrapped estimators take; other rows as they are.

    >>> table = as_dataframe({"ward": ["A", None], "age": [61, None]})
    >>> table["ward"].tolist(), table["age"].tolist()
    (['A', nan], [61.0, nan])
    """
    if not is_table(X) or hasattr(X, "iloc"):
        return X
    import pandas as pd  # noqa: PLC0415  # only a model fitted on a DataFrame needs it

    table = pd.DataFrame({name: column_values(X, name) for name in column_names(X)})
    table = table.where(table.notna(), np.nan)  # for None too
    # numbers among missing values become floats, so that every kind of table gives the same bits; a column without
    # a value may be one of strings
    known = [name for name in table.columns if table[name].notna().any()]
    return table.assign(**table[known].infer_objects())


def _by_name(table: Any, names: Sequence[str]) -> Any:
    require_columns(names, table)
    present = column_names(table)
    unknown = [str(name) for name in present if name not in set(names)]
    if unknown:
        raise InvalidInputError(f"columns are unknown to the model: {', '.join(unknown)}; it has {', '.join(names)}")
    table = as_dataframe(table)
    return table if present == list(names) else table[list(names)]


def _encoded(X: Any, encoder: ColumnEncoder) -> Any:
    """Return numbers as they are, encoded before, and strings without their column names as codes."""
    if np.asarray(X).dtype.kind in "fiub":
        return X
    return encoder.encode(dict(zip(encoder.names, np.asarray(X, dtype=object).T, strict=True)))


def _with_names(X: Any, names: Sequence[str]) -> Any:
    import pandas as pd  # noqa: PLC0415  # only a model fitted on a DataFrame needs it to score

    return pd.DataFrame(X, columns=list(names))


def columns_of(matrix: Any, features: Sequence[int]) -> Any:
    """Return some columns of a matrix or a table."""
    return matrix.iloc[:, list(features)] if hasattr(matrix, "iloc") else np.asarray(matrix)[:, list(features)]
