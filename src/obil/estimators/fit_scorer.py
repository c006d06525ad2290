"""Fit a classifier that scores, and its views, out-of-fold; then freeze them into arrays where that is possible."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from obil.arrays import BoolArray, FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.cross_fit import (
    CrossFitted,
    HeldOutRows,
    Split,
    cross_fit,
    fit_estimator,
    halved_features,
    outputs_of,
    score_method,
)
from obil.calibration.freezing.freeze import freeze, learn_encoder
from obil.calibration.linear import class_prior
from obil.serving.columns import ColumnEncoder
from obil.serving.folds import FoldScorer, folds_of
from obil.serving.ratio_model import View, columns_of
from obil.serving.scorers import EstimatorScorer, Scorer, floor_of, link_of, raw_scores

N_VIEWS = 4
# of the boosters that are views: they need not be good, only cheap and apart
VIEW_SETTINGS = {"max_iter": 20, "max_leaf_nodes": 8, "learning_rate": 0.3, "early_stopping": False}


class FittedScorer(NamedTuple):
    """Classifiers of the folds, and the raw scores of rows by those that have not seen them."""

    scorer: Scorer  # of the folds, or the only one
    method: str  # how it scores
    scores: FloatArray  # (n, K) out-of-fold
    held_out: HeldOutRows  # which rows they belong to
    pairs: FloatArray  # (m, 2, K) raw scores of rows that two folds have not seen
    refitted: EstimatorScorer | None = None  # on all rows, where folds are not to be averaged


def fit_scorer(
    estimator: Any,
    X: Any,
    labels: npt.NDArray[Any],
    weights: FloatArray | None,
    splits: list[Split] | None,
    *,
    classes: npt.NDArray[Any],
    prior: FloatArray,
    n_jobs: int | None,
    refit: bool = False,
    on_fit: Callable[[], None] | None = None,
) -> FittedScorer:
    """Fit a classifier per fold and score every row out-of-fold; without splits it is fitted already.

    To `refit`, one more is fitted on all rows. `on_fit` is called after each fit.
    """
    if splits is None:
        outputs = outputs_of(estimator, X, classes)
        rows, none = np.arange(len(labels)), np.empty(0, dtype=np.int64)
        crossed = CrossFitted([estimator], HeldOutRows(rows, 0 * rows, none, none), outputs, outputs[:0])
    else:
        crossed = cross_fit(estimator, X, labels, weights, splits, classes=classes, n_jobs=n_jobs, on_fit=on_fit)
    fitted, held_out, outputs, second = crossed
    method = score_method(fitted[0])
    floor = floor_of(np.concatenate([outputs, second])) if method == "predict_proba" else 0.0
    width = np.shape(X)[1] if np.ndim(X) == 2 else None

    def raw(values: FloatArray) -> FloatArray:
        return raw_scores(values[:, None] if values.ndim == 1 else values, link_of(method), prior, floor)

    scores = raw(outputs)
    pairs = np.stack([scores[held_out.first], raw(second)], axis=1)
    scorers = [EstimatorScorer(one, method, prior, floor, width) for one in fitted]
    refitted = None
    if refit:
        refitted = EstimatorScorer(fit_estimator(estimator, X, labels, weights), method, prior, floor, width)
        if on_fit is not None:
            on_fit()
    return FittedScorer(
        scorers[0] if len(scorers) == 1 else FoldScorer(tuple(scorers)), method, scores, held_out, pairs, refitted
    )


def fit_views(
    X: Any,
    numbers: IntArray,
    weights: FloatArray,
    splits: list[Split],
    *,
    random_state: int | None,
    n_jobs: int | None,
    on_fit: Callable[[], None] | None = None,
) -> tuple[View, ...]:
    """Fit a small booster on each half of two random halvings of the features, out-of-fold on the same splits.

    `on_fit` is called after each fit. There are no views of rows that are sparse, of one feature, or no table.
    """
    table = X if hasattr(X, "shape") else np.asarray(X)
    if issparse(table) or len(table.shape) != 2 or not splits:
        return ()
    views = []
    classes = np.unique(numbers)
    prior = class_prior(numbers, weights, len(classes))
    given = None if np.ptp(weights) == 0.0 else weights  # boosters take far longer with weights, even equal ones
    known = np.flatnonzero(_has_values(table, splits))
    for half in halved_features(len(known), N_VIEWS, random_state=random_state):
        features = tuple(known[list(half)].tolist())
        columns = columns_of(table, features)
        try:
            fitted = fit_scorer(
                _view_estimator(columns), columns, numbers, given, splits, classes=classes, prior=prior, n_jobs=n_jobs,
                on_fit=on_fit,
            )  # fmt: skip
        except (TypeError, ValueError) as error:  # columns that only the user's own estimator can read
            warnings.warn(f"no views were fitted, as a small booster cannot read the rows: {error}", stacklevel=3)
            return ()
        rows = fitted.held_out.rows
        calibrator = fit_calibrator(fitted.scores, numbers[rows], weights[rows])
        views.append(View(features, fitted.scorer, calibrator, fitted.scores))
    return tuple(views)


def _has_values(table: Any, splits: list[Split]) -> BoolArray:
    """Return which columns have a value in the training rows of every fold, (d,): a booster needs one."""
    known = pd.notna(table if hasattr(table, "iloc") else pd.DataFrame(table)).to_numpy()
    every: BoolArray = np.all([known[train].any(axis=0) for train, _ in splits], axis=0)
    return every


def _view_estimator(columns: Any) -> Any:
    """Return a small booster, behind an encoder of the columns that are not numbers."""
    booster = HistGradientBoostingClassifier(**VIEW_SETTINGS, random_state=0)
    table = columns if hasattr(columns, "iloc") else pd.DataFrame(columns).infer_objects()
    text = [place for place, kind in enumerate(table.dtypes) if getattr(kind, "kind", "O") not in "biuf"]
    if not text:
        return booster
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    return make_pipeline(ColumnTransformer([("codes", codes, text)], remainder="passthrough"), booster)


class Frozen(NamedTuple):
    """What serves: the classifiers of the folds, one refitted on all rows, and the views."""

    scorer: Scorer
    refitted: Scorer | None
    views: tuple[View, ...]
    encoder: ColumnEncoder | None


def freeze_together(scorer: Scorer, views: tuple[View, ...], X: Any, refitted: Scorer | None = None) -> Frozen:
    """Freeze classifiers and views; where columns hold strings, either all of them are frozen or none.

    A frozen scorer takes strings as codes, a wrapped one as they are, and rows are encoded once for all of them.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    encoder = learn_encoder(X)

    def frozen(one: Scorer, features: tuple[int, ...]) -> Scorer:
        if isinstance(one, FoldScorer):
            return FoldScorer(tuple(frozen(fold, features) for fold in one.folds))
        if not isinstance(one, EstimatorScorer) or one.n_features is None:
            return one
        own = None if encoder is None else ColumnEncoder(tuple(encoder.columns[place] for place in features))
        return freeze(one, X if len(features) == X.shape[1] else columns_of(X, features), own)

    every = tuple(range(scorer.n_features or 0))
    result = Frozen(
        frozen(scorer, every),
        None if refitted is None else frozen(refitted, every),
        tuple(replace(view, scorer=frozen(view.scorer, view.features)) for view in views),
        encoder,
    )
    served = [result.scorer, *([] if result.refitted is None else [result.refitted])]
    served += [view.scorer for view in result.views]
    wrapped = [fold for one in served for fold in folds_of(one) if isinstance(fold, EstimatorScorer)]
    if encoder is not None and wrapped:
        return Frozen(_kept(scorer, wrapped[0]), None if refitted is None else _kept(refitted, wrapped[0]), views, None)
    return result


def _kept(scorer: Scorer, example: EstimatorScorer) -> Scorer:
    """Return wrapped classifiers with the reason why they are."""
    if isinstance(scorer, FoldScorer):
        return FoldScorer(tuple(_kept(fold, example) for fold in scorer.folds))
    return replace(scorer, reason=example.reason) if isinstance(scorer, EstimatorScorer) else scorer
