"""Wrap any classifier so that it gives calibrated likelihood ratios, at whatever class prior it was trained."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import indexable, validate_data

from obil.arrays import IntArray
from obil.calibration.cross_fit import Split, averages, choose_splits
from obil.calibration.linear import SLOPE_SD, class_prior
from obil.errors import InvalidInputError
from obil.estimators.fit_progress import counted, fit_progress
from obil.estimators.fit_scorer import N_VIEWS, fit_scorer, fit_views, freeze_together
from obil.estimators.labelled_rows import is_fraction, set_aside
from obil.estimators.leading_features import fit_row_inputs
from obil.estimators.ratio_mixin import HeldOutScores, RatioMixin, as_weights, warn_of_dependence
from obil.serving.folds import folds_of
from obil.serving.networks.onnx_scorer import OnnxNetwork, OnnxScorer, class_outputs
from obil.serving.ratio_model import View, as_dataframe
from obil.serving.scorers import ColumnScorer, EstimatorScorer, as_score_columns, floor_of

FOLDS_OF_VIEWS, ROWS_OF_VIEWS = 5, 20  # beside a fitted estimator: folds, and rows of the rarest class


class RatioClassifier(RatioMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Calibrated likelihood ratios from any scikit-learn classifier or pipeline.

    The estimator is fitted once per fold, and out-of-fold scores calibrate, so that resampling, class weights and
    overconfidence are divided out whatever they are. The mean of the folds decides; the prior is read from one fold
    per row, which scores new rows as it scored its held-out rows. A `FrozenEstimator` is only calibrated.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba` or `decision_function`; gradient boosting if None.
    cv
        Number of folds, a scikit-learn splitter, (train, test) index pairs, or the fraction of rows that is held out
        from a single fit. A number keeps `groups` on one side, and `time` in blocks.
    calibration
        "affine" (offset and slope), "temperature", "vector" or "matrix" (K > 2), "spline" or "isotonic" (K = 2).
    ensemble
        Whether the mean of the folds decides (True) or one more estimator, fitted on all rows (False). "auto" is True
        unless folds learned from less than 70 % of the rows, or from unequal parts.
    views
        Whether to fit cheap members on feature subsets, too: what supports a move of the prior in a stream without
        labels; and to choose the inputs that late labels recalibrate by. There are no views of sparse rows, of rows of
        one feature, of rows that are no table, and beside a `FrozenEstimator` of fewer than 20 rows of a class.
    n_jobs
        Folds fitted at once.
    random_state
        Seed of the folds, the views and the bootstrap.
    verbose
        Show on standard error how many of the fits are done, and the time that is left: 0 or 1.

    Attributes
    ----------
    model_ : RatioModel
        What serves, and what `obil.save` writes: the estimator frozen into arrays where it has such a form.
    estimators_ : list
        The fitted estimators whose mean decides.
    classes_, prior_, holdout_
        The user's classes, the training prior, and the held-out rows.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> model = RatioClassifier(LogisticRegression(), random_state=0).fit(X, X[:, 0] + 7 * (X[:, 0] % 2) > 22)
    >>> bool(model.predict_proba([[20.0]], prior=0.01)[0, 1] < model.predict_proba([[20.0]])[0, 1])
    True
    """

    _categories: tuple[int, ...] = ()  # columns of a matrix that `fit_table` knows to hold codes

    def __init__(
        self,
        estimator: Any = None,
        *,
        cv: Any = 5,
        calibration: str = "affine",
        ensemble: bool | str = "auto",
        views: bool = True,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.calibration = calibration
        self.ensemble = ensemble
        self.views = views
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
    ) -> Self:
        """Fit one estimator per fold, and calibrate on the out-of-fold scores.

        `sample_weight` defines the population, `groups` stay on one side of every fold (one patient),
        `time` makes the folds blocks of time.
        """
        X = indexable(as_dataframe(X))[0]
        if y is not None:
            validate_data(self, X, skip_check_array=True)
        labels, numbers = self._learn_classes(X, y)
        weights = None if sample_weight is None else as_weights(sample_weight, len(labels))
        estimator = HistGradientBoostingClassifier(random_state=0) if self.estimator is None else self.estimator
        population = np.ones(len(labels)) if weights is None else weights
        prior = class_prior(numbers, population, len(self.classes_))
        splits = None
        if not isinstance(estimator, FrozenEstimator):
            splits = self._splits(X, labels, numbers, groups=groups, time=time)
        refit = splits is not None and not self._averages(splits, len(labels))
        apart: list[Split] = []
        if self.views:
            apart = self._splits_of_views(X, labels, numbers, groups=groups, time=time) if splits is None else splits
        name = type(estimator).__name__
        with fit_progress(f"Fitting {name} on {len(labels):,} rows", verbose=self.verbose) as show:
            on_fit = counted(show, len(splits or ()) + refit + N_VIEWS * len(apart))
            fitted = fit_scorer(
                estimator, X, labels, weights, splits, classes=self.classes_, prior=prior, n_jobs=self.n_jobs,
                refit=refit, on_fit=on_fit,
            )  # fmt: skip
            views: tuple[View, ...] = ()
            if self.views:
                views = fit_views(
                    X, numbers, population, apart, random_state=self.random_state, n_jobs=self.n_jobs, on_fit=on_fit
                )
        frozen = freeze_together(fitted.scorer, views, X, fitted.refitted)
        decides = fitted.scorer if fitted.refitted is None else fitted.refitted
        self.estimators_ = [fold.estimator for fold in folds_of(decides) if isinstance(fold, EstimatorScorer)]
        rows, in_blocks = fitted.held_out.rows, splits is not None and (groups is not None or time is not None)
        held_out = HeldOutScores(
            fitted.scores,
            numbers[rows],
            population[rows],
            fitted.pairs,
            blocks=fitted.held_out.folds if in_blocks else None,
            times=None if time is None else np.asarray(time)[rows],
        )
        model = self._calibrated_model(
            held_out,
            frozen.scorer,
            prior,
            method=self.calibration,
            slope_sd=SLOPE_SD if fitted.method == "predict_proba" else None,
            refitted=frozen.refitted,
            random_state=self.random_state,
        )
        names = getattr(self, "feature_names_in_", None)
        feature_names = None if names is None else tuple(str(name) for name in names)
        model = replace(model, view_members=frozen.views, encoder=frozen.encoder, feature_names=feature_names)
        if time is not None:  # a tracker's past errors are read in the order of held-out rows
            order = np.argsort(np.asarray(time)[rows], kind="stable")
            model, rows = model.with_rows_in(order), rows[order]
        if self.views:
            model = replace(model, inputs=fit_row_inputs(X, model, rows, categories=self._categories))
        self.model_ = model
        warn_of_dependence(self.model_)
        return self

    def _splits(self, X: Any, labels: Any, numbers: IntArray, *, groups: Any, time: Any) -> list[Split]:
        if is_fraction(self.cv):
            if not 0.0 < self.cv < 1.0:
                raise InvalidInputError(f"cv must be at least 2 folds or a fraction of the rows, got {self.cv!r}")
            seed = 0 if self.random_state is None else self.random_state
            return [set_aside(numbers, float(self.cv), classes=self.classes_, groups=groups, time=time, seed=seed)]
        return choose_splits(self.cv, X, labels, numbers, groups=groups, time=time, random_state=self.random_state)

    def _splits_of_views(self, X: Any, labels: Any, numbers: IntArray, *, groups: Any, time: Any) -> list[Split]:
        """Return folds of the rows that a fitted estimator is calibrated on; none where they are too few."""
        if np.bincount(numbers).min() < ROWS_OF_VIEWS:
            return []
        try:
            splits = choose_splits(
                FOLDS_OF_VIEWS, X, labels, numbers, groups=groups, time=time, random_state=self.random_state
            )
        except InvalidInputError:  # groups that cannot be dealt: calibrating needs no folds
            return []
        return splits if all(len(np.unique(numbers[train])) == len(self.classes_) for train, _ in splits) else []

    def _averages(self, splits: list[Split], n_rows: int) -> bool:
        if self.ensemble not in ("auto", True, False):
            raise InvalidInputError(f"ensemble must be 'auto', True or False, got {self.ensemble!r}")
        if self.ensemble != "auto":
            return bool(self.ensemble)
        if not averages(splits, n_rows):
            warnings.warn(
                "the estimator is fitted once more on all rows to decide: folds that learned from less than 70 % "
                "of the rows, or from unequal parts, are not averaged (ensemble=False says so, without this "
                "warning)",
                stacklevel=3,
            )
            return False
        return True

    @classmethod
    def from_scores(
        cls,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        kind: str = "auto",
        calibration: str = "affine",
        sample_weight: npt.ArrayLike | None = None,
        random_state: int | None = None,
    ) -> Self:
        """Calibrate scores that another system computed; rows are then those scores.

        `kind` is "probability" or "margin"; "auto" takes scores that all lie in [0, 1] for probabilities.

        >>> model = RatioClassifier.from_scores([0.1, 0.2, 0.3, 0.7, 0.6, 0.8], [0, 0, 1, 0, 1, 1])
        >>> model.classes_
        array([0, 1])
        """
        model = cls(None, calibration=calibration, random_state=random_state)
        values = as_score_columns(scores)
        labels, numbers = model._learn_classes(values, y)
        if values.shape[1] not in (1, len(model.classes_)):
            raise InvalidInputError(f"scores need 1 or {len(model.classes_)} columns, got {values.shape[1]}")
        if kind not in ("auto", "probability", "margin"):
            raise InvalidInputError(f"kind must be 'auto', 'probability' or 'margin', got {kind!r}")
        weights = np.ones(len(labels)) if sample_weight is None else as_weights(sample_weight, len(labels))
        prior = class_prior(numbers, weights, len(model.classes_))
        if kind == "auto":
            kind = "probability" if values.min() >= 0.0 and values.max() <= 1.0 else "margin"
        floor = floor_of(np.concatenate([values, 1.0 - values])) if kind == "probability" else 0.0
        scorer = ColumnScorer(kind, prior, floor)
        held_out = HeldOutScores(scorer.scores(values), numbers, weights, np.empty((0, 2, len(model.classes_))))
        model.model_ = model._calibrated_model(
            held_out,
            scorer,
            prior,
            method=calibration,
            slope_sd=SLOPE_SD if kind == "probability" else None,
            random_state=random_state,
        )
        return model

    @classmethod
    def from_onnx(
        cls, path: str | os.PathLike[str], X: Any, y: npt.ArrayLike, *, kind: str = "auto", **settings: Any
    ) -> Self:
        """Calibrate a classifier that is only an ONNX file, on held-out rows; ONNX Runtime then serves it.

        The file takes rows as float32 or int64 and gives probabilities or logits: one column for the second class, or
        one per class in sorted order. Labels may stand beside them, as in scikit-learn exports without ZipMap. `kind`
        and `settings` are those of `from_scores`.

        >>> model = RatioClassifier.from_onnx("fraud.onnx", X_held_out, y_held_out)  # doctest: +SKIP
        """
        network = OnnxNetwork.read(Path(path))
        outputs, kind = class_outputs(network, X, kind)
        model = cls.from_scores(outputs, y, kind=kind, **settings)
        reader = model.model_.scorer
        assert isinstance(reader, ColumnScorer)  # what `from_scores` makes
        scorer = OnnxScorer(network, reader.link, reader.training_prior, reader.floor)
        model.model_ = replace(model.model_, scorer=scorer)
        return model

    def _check_rows(self, X: Any) -> Any:
        rows = indexable(as_dataframe(X))[0]
        if hasattr(self, "n_features_in_"):
            if np.ndim(rows) == 1:
                raise InvalidInputError(
                    "rows must be a table, (n, d), got one dimension: Reshape your data, or wrap the row in [ ]"
                )
            validate_data(self, rows, reset=False, skip_check_array=True)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(HistGradientBoostingClassifier() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags
