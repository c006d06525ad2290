"""Freeze a fitted classifier or pipeline into arrays, and keep the result only where it scores as the library does."""

import warnings
from dataclasses import replace
from inspect import getattr_static
from typing import Any

import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifier, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from obil.calibration.cross_fit import score_method
from obil.calibration.freezing.columns import FrozenColumn, NotFrozenError, as_preprocessing
from obil.calibration.freezing.preprocessing import UNKNOWN, follow
from obil.calibration.freezing.trees import TREES, freeze_lightgbm, freeze_xgboost, lightgbm_columns
from obil.errors import InvalidInputError
from obil.serving.columns import Column, ColumnEncoder
from obil.serving.networks.layers import LayerScorer
from obil.serving.preprocessing import PreprocessedScorer
from obil.serving.scorers import LOGIT, MARGIN, ONE_VS_REST, EstimatorScorer, Scorer, raw_scores

MOST_LEVELS = 1_000  # strings of a column
CHECKED_ROWS = 1_000
TOLERANCE = 1e-6  # of log odds
LINEAR = (
    LogisticRegression, LogisticRegressionCV, LinearDiscriminantAnalysis, SGDClassifier, LinearSVC, RidgeClassifier,
)  # fmt: skip
FOREIGN = {"XGBClassifier": ("xgboost.", freeze_xgboost), "LGBMClassifier": ("lightgbm.", freeze_lightgbm)}


def freeze(scorer: EstimatorScorer, X: Any, encoder: ColumnEncoder | None = None) -> Scorer:
    """Return the scorer frozen into arrays, or itself with the reason why it is not.

    `X` are rows of the kind it was fitted on: a matrix, or a table that `encoder` turns into one. A frozen scorer
    gives the library's log odds to 1e-6 on these rows, also with missing and unseen values, or it is not kept.
    To a frozen scorer a string that is None is missing, as NaN is, also where a SimpleImputer would pass it on.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = np.arange(40.0)[:, None]
    >>> tree = DecisionTreeClassifier(max_depth=1).fit(X, X[:, 0] > 19)
    >>> freeze(EstimatorScorer(tree, "predict_proba", np.array([0.5, 0.5]), 0.01), X).summary()
    'a decision tree'
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that the rows made up here do not have
            if hasattr(X, "tocsr"):
                raise NotFrozenError("its rows are sparse")
            frozen: Scorer = _frozen(scorer, _input_columns(X, encoder))
            _require_equal(frozen, scorer, X, encoder)
    except NotFrozenError as why:
        return replace(scorer, reason=str(why))
    except Exception as error:  # a version of a library that keeps its model differently
        return replace(scorer, reason=f"freezing it failed with {type(error).__name__}: {error!s:.80}")
    return frozen


def learn_encoder(X: Any) -> ColumnEncoder | None:
    """Return the encoder of a table with columns that hold other than plain numbers; None where there are none."""
    if not hasattr(X, "columns") or all(_is_plain(X[name]) for name in X.columns):
        return None
    columns = []
    for name in X.columns:
        values = X[name]
        if _is_plain(values):
            columns.append(Column(str(name)))
            continue
        levels = values.cat.categories if isinstance(values.dtype, pd.CategoricalDtype) else values.dropna().unique()
        strings = all(isinstance(level, str) and level for level in levels)
        if not strings or len(levels) > MOST_LEVELS or not isinstance(name, str):
            return None
        columns.append(Column(name, tuple(sorted(levels))))
    return ColumnEncoder(tuple(columns))


def _frozen(scorer: EstimatorScorer, columns: list[FrozenColumn]) -> Any:
    *steps, last = _steps(scorer.estimator)
    n_features = len(columns)
    for step in steps:
        columns = follow(step, columns)
    classes = getattr(last, "classes_", ())
    if len(classes) != len(scorer.training_prior):
        raise NotFrozenError(f"{type(last).__name__} has other classes than these rows")
    own = getattr(last, "_preprocessor", None)  # of a histogram booster with categorical features
    if own is not None:
        columns = follow(own, columns)
    package, freeze_last = FOREIGN.get(type(last).__name__, (None, None))
    if package is None or not type(last).__module__.startswith(package):
        freeze_last = next((how for kinds, how in KINDS if _is_plainly(last, kinds, scorer.method)), None)
    elif package == "lightgbm.":
        columns = lightgbm_columns(last, columns)
    if freeze_last is None:
        raise NotFrozenError(f"{type(last).__name__} has no frozen form")
    inner = freeze_last(last, training_prior=scorer.training_prior, floor=scorer.floor)
    if inner.n_features != len(columns):
        raise NotFrozenError(f"{type(last).__name__} takes {inner.n_features} columns, it is given {len(columns)}")
    if [column.source for column in columns if column.is_untouched] == list(range(n_features)):
        return inner
    return PreprocessedScorer(as_preprocessing(columns, n_features), inner)


def freeze_linear(estimator: Any, **output: Any) -> LayerScorer:
    """Return the frozen form of a linear classifier."""
    link = LOGIT if score_method(estimator) == "predict_proba" else MARGIN
    one_by_one = isinstance(estimator, SGDClassifier) or getattr(estimator, "solver", None) == "liblinear"
    if link == LOGIT and one_by_one and len(output["training_prior"]) > 2:
        link = ONE_VS_REST
    weights = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)).T.copy()
    biases = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), weights.shape[1:]).copy()
    return LayerScorer((weights,), (biases,), "identity", link, **output)


def freeze_perceptron(estimator: MLPClassifier, **output: Any) -> LayerScorer:
    """Return the frozen form of a multi-layer perceptron."""
    weights = tuple(np.asarray(layer, dtype=np.float64) for layer in estimator.coefs_)
    biases = tuple(np.asarray(layer, dtype=np.float64) for layer in estimator.intercepts_)
    return LayerScorer(weights, biases, estimator.activation, LOGIT, **output)


KINDS: tuple[tuple[Any, Any], ...] = (*TREES, (LINEAR, freeze_linear), (MLPClassifier, freeze_perceptron))


def _steps(estimator: Any) -> list[Any]:
    """Return the steps of a pipeline, nested ones opened, and the classifier last."""
    if isinstance(estimator, FrozenEstimator):
        return _steps(estimator.estimator)
    if isinstance(estimator, Pipeline):
        before = [step for _, step in estimator.steps[:-1]]
        return [*before, *_steps(estimator.steps[-1][1])]
    return [estimator]


def _is_plainly(estimator: Any, kinds: Any, method: str) -> bool:
    """Return whether it is of these types and scores by their method, not by one of its own."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(
        isinstance(estimator, kind) and getattr_static(estimator, method) is getattr_static(kind, method, None)
        for kind in kinds
    )


def _input_columns(X: Any, encoder: ColumnEncoder | None) -> list[FrozenColumn]:
    if encoder is None:
        names = X.columns if hasattr(X, "columns") else [None] * np.shape(X)[1]
        return [FrozenColumn(place, name if isinstance(name, str) else None) for place, name in enumerate(names)]
    return [
        FrozenColumn(
            place,
            column.name,
            None if column.levels is None else {level: float(code) for code, level in enumerate(column.levels)},
        )
        for place, column in enumerate(encoder.columns)
    ]


def _require_equal(frozen: Any, scorer: EstimatorScorer, X: Any, encoder: ColumnEncoder | None) -> None:
    """Refuse a frozen scorer that differs from the library's on rows as they are, with missing or unseen values."""
    accepted = 0
    for rows in _probes(X):
        outputs = expected = None
        try:
            outputs = np.asarray(getattr(scorer.estimator, scorer.method)(rows))
            columns = outputs.reshape(len(outputs), -1).astype(np.float64)
            expected = raw_scores(columns, scorer.link, scorer.training_prior, scorer.floor)
        except Exception as error:  # the library refuses such rows
            if accepted == 0:
                raise NotFrozenError(f"it cannot score its own rows: {error}") from None
        try:
            scores = frozen.scores(rows if encoder is None else encoder.encode(rows))
        except InvalidInputError:
            if expected is not None:
                raise NotFrozenError("its frozen form refuses rows that it scores") from None
            continue
        if expected is None or outputs is None:
            continue  # rows that only the library refuses, for a reason of its own
        accepted += 1
        precision = float(np.finfo(outputs.dtype).eps) if outputs.dtype.kind == "f" else 0.0
        # a probability near 0, as one minus another, is only known to the precision of its type
        least = np.maximum(np.min(outputs, axis=1, keepdims=True), scorer.floor) if outputs.ndim == 2 else 1.0
        allowed = TOLERANCE * np.maximum(np.abs(expected), 1.0) + (
            4.0 * precision / least if scorer.method == "predict_proba" else 0.0
        )
        if not (np.abs(scores - expected) <= allowed).all():
            worst = float(np.abs(scores - expected).max())
            raise NotFrozenError(f"its frozen form differs from it by {worst:.1g} in the log odds")


def _probes(X: Any) -> list[Any]:
    """Return some rows: as they are, with missing values, and with values that were never seen."""
    rng = np.random.default_rng(0)
    n_rows = X.shape[0]
    chosen = np.arange(n_rows) if n_rows <= CHECKED_ROWS else np.sort(rng.choice(n_rows, CHECKED_ROWS, replace=False))
    if not hasattr(X, "columns"):
        rows = np.asarray(X)[chosen].astype(np.float64)
        spread = rows + rng.normal(0.0, 1.0, rows.shape) * np.nan_to_num(np.abs(rows)).max(axis=0, initial=1e-3)
        missing = np.where(rng.random(rows.shape) < 0.2, np.nan, rows)
        return [rows, missing, np.concatenate([spread, np.round(spread)])]
    rows = X.iloc[chosen]
    missing, unseen = rows.copy(), rows.copy()
    for name in rows.columns:
        values = rows[name]
        missing[name] = values.mask(rng.random(len(rows)) < 0.2)
        if values.dtype.kind == "f":
            unseen[name] = values * rng.normal(1.0, 1.0, len(rows))
        elif isinstance(values.dtype, pd.CategoricalDtype):
            unseen[name] = values.cat.add_categories([UNKNOWN]).mask(rng.random(len(rows)) < 0.2, UNKNOWN)
        elif values.dtype.kind == "O":
            unseen[name] = values.mask(rng.random(len(rows)) < 0.2, UNKNOWN)
    return [rows, missing, unseen]


def _is_plain(values: Any) -> bool:
    return isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiub"
