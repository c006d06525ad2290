"""Wrap any classifier so that it gives calibrated likelihood ratios, at whatever class prior it was trained."""

import os
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

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.cross_fit import choose_splits
from obil.calibration.linear import SLOPE_SD, class_prior
from obil.errors import InvalidInputError
from obil.estimators.fit_scorer import fit_scorer, fit_views, freeze_together
from obil.estimators.ratio_mixin import RatioMixin, as_weights
from obil.serving.holdout import Holdout
from obil.serving.onnx_scorer import OnnxNetwork, OnnxScorer, class_outputs
from obil.serving.ratio_model import RatioModel, View, as_dataframe
from obil.serving.scorers import ColumnScorer, Scorer, as_score_columns, floor_of


class RatioClassifier(RatioMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Calibrated likelihood ratios from any scikit-learn classifier or pipeline.

    Out-of-fold scores calibrate, so that resampling, class weights and overconfidence are divided out
    whatever they are; then the estimator is refitted on all rows. A `FrozenEstimator` is only calibrated.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba` or `decision_function`; gradient boosting if None.
    cv
        Number of folds, a scikit-learn splitter, or (train, test) index pairs. A number keeps exact
        duplicates and `groups` on one side, and `time` in blocks.
    calibration
        "affine" (offset and slope), "temperature", "vector" (K > 2), "spline" or "isotonic" (K = 2).
    views
        Also fit cheap members on feature subsets: other scores of the same rows.
    n_jobs
        Folds fitted at once.
    random_state
        Seed of the folds, the views and the bootstrap.

    Attributes
    ----------
    model_ : RatioModel
        What serves, and what `obil.save` writes: the estimator frozen into arrays where it has such a form.
    estimator_ : estimator
        The estimator fitted on all rows.
    classes_, prior_, holdout_
        The user's classes, the training prior, and the held-out rows.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> model = RatioClassifier(LogisticRegression(), random_state=0).fit(X, X[:, 0] + 7 * (X[:, 0] % 2) > 22)
    >>> bool(model.predict_proba([[20.0]], prior=0.01)[0, 1] < model.predict_proba([[20.0]])[0, 1])
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cv: Any = 5,
        calibration: str = "affine",
        views: bool = False,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.calibration = calibration
        self.views = views
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
    ) -> Self:
        """Cross-fit, calibrate on the out-of-fold scores, refit on all rows.

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
            splits = choose_splits(
                self.cv, X, labels, numbers, groups=groups, time=time, random_state=self.random_state
            )
        fitted = fit_scorer(
            estimator, X, labels, weights, splits, classes=self.classes_, prior=prior, n_jobs=self.n_jobs
        )
        views: tuple[View, ...] = ()
        if self.views and splits is not None:
            views = fit_views(X, numbers, population, splits, random_state=self.random_state, n_jobs=self.n_jobs)
        scorer, views, encoder = freeze_together(fitted.scorer, views, X)
        self.estimator_ = fitted.scorer.estimator
        model = self._calibrated_model(
            scorer,
            fitted.scores,
            numbers[fitted.rows],
            population[fitted.rows],
            prior,
            slope_sd=SLOPE_SD if fitted.scorer.method == "predict_proba" else None,
        )
        self.model_ = replace(model, view_members=views, encoder=encoder)
        return self

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
        slope_sd = SLOPE_SD if kind == "probability" else None
        model.model_ = model._calibrated_model(
            scorer, scorer.scores(values), numbers, weights, prior, slope_sd=slope_sd
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

    def _calibrated_model(
        self,
        scorer: Scorer,
        scores: FloatArray,
        numbers: IntArray,
        weights: FloatArray,
        prior: FloatArray,
        *,
        slope_sd: float | None,
    ) -> RatioModel:
        calibrator = fit_calibrator(
            scores, numbers, weights, method=self.calibration, slope_sd=slope_sd, random_state=self.random_state
        )
        names = getattr(self, "feature_names_in_", None)
        return RatioModel(
            scorer=scorer,
            calibrator=calibrator,
            classes_=self.classes_,
            prior_=prior,
            holdout_=Holdout.of(calibrator.apply(scores), numbers, weights),
            feature_names=None if names is None else tuple(str(name) for name in names),
            calibration=self.calibration,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(HistGradientBoostingClassifier() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse and not self.views
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags
