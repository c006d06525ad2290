"""Fit a classifier that scores, and its views, out-of-fold; then freeze them into arrays where that is possible."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.cross_fit import Split, cross_fit, fit_estimator, halved_features, outputs_of, score_method
from obil.calibration.freezing.freeze import freeze, learn_encoder
from obil.calibration.linear import class_prior
from obil.serving.columns import ColumnEncoder
from obil.serving.ratio_model import View, columns_of
from obil.serving.scorers import EstimatorScorer, Scorer, floor_of, link_of, raw_scores

N_VIEWS = 4


class FittedScorer(NamedTuple):
    """A classifier fitted on all rows, and the raw scores of rows by classifiers that have not seen them."""

    scorer: EstimatorScorer
    scores: FloatArray  # (n, K) out-of-fold
    rows: IntArray  # (n,) which rows they belong to


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
) -> FittedScorer:
    """Fit a classifier and score every row out-of-fold; without splits it is fitted already, and scores them all."""
    if splits is None:
        fitted = estimator
        outputs, rows = outputs_of(fitted, X, classes), np.arange(len(labels))
    else:
        fitted = fit_estimator(estimator, X, labels, weights)
        outputs, rows = cross_fit(estimator, X, labels, weights, splits, classes=classes, n_jobs=n_jobs)
    method = score_method(fitted)
    floor = floor_of(outputs) if method == "predict_proba" else 0.0
    width = np.shape(X)[1] if np.ndim(X) == 2 else None
    scores = raw_scores(outputs[:, None] if outputs.ndim == 1 else outputs, link_of(method), prior, floor)
    return FittedScorer(EstimatorScorer(fitted, method, prior, floor, width), scores, rows)


def fit_views(
    X: Any,
    numbers: IntArray,
    weights: FloatArray,
    splits: list[Split],
    *,
    random_state: int | None,
    n_jobs: int | None,
) -> tuple[View, ...]:
    """Fit a small booster on each half of two random halvings of the features, out-of-fold on the same splits."""
    views = []
    classes = np.unique(numbers)
    prior = class_prior(numbers, weights, len(classes))
    for features in halved_features(X.shape[1], N_VIEWS, random_state=random_state):
        booster = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
        fitted = fit_scorer(
            booster, columns_of(X, features), numbers, weights, splits, classes=classes, prior=prior, n_jobs=n_jobs
        )
        calibrator = fit_calibrator(fitted.scores, numbers[fitted.rows], weights[fitted.rows])
        views.append(View(features, fitted.scorer, calibrator, calibrator.apply(fitted.scores)))
    return tuple(views)


def freeze_together(
    scorer: Scorer, views: tuple[View, ...], X: Any
) -> tuple[Scorer, tuple[View, ...], ColumnEncoder | None]:
    """Freeze a classifier and its views; where columns hold strings, either all of them are frozen or none.

    A frozen scorer takes strings as codes, a wrapped one as they are, and rows are encoded once for all of them.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    encoder = learn_encoder(X)

    def frozen(one: Scorer, features: tuple[int, ...]) -> Scorer:
        if not isinstance(one, EstimatorScorer) or one.n_features is None:
            return one
        own = None if encoder is None else ColumnEncoder(tuple(encoder.columns[place] for place in features))
        return freeze(one, X if len(features) == X.shape[1] else columns_of(X, features), own)

    main = frozen(scorer, tuple(range(scorer.n_features or 0)))
    others = tuple(replace(view, scorer=frozen(view.scorer, view.features)) for view in views)
    wrapped = [one for one in (main, *(view.scorer for view in others)) if isinstance(one, EstimatorScorer)]
    if encoder is not None and wrapped:
        kept = replace(scorer, reason=wrapped[0].reason) if isinstance(scorer, EstimatorScorer) else scorer
        return kept, views, None
    return main, others, encoder
