"""Score every row with a model that has not seen it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError

Split = tuple[IntArray, IntArray]


def score_method(estimator: Any) -> str:
    """Return how a classifier gives scores: `predict_proba` where there is one, else `decision_function`."""
    for method in ("predict_proba", "decision_function"):
        if hasattr(estimator, method):
            return method
    raise InvalidInputError(f"{type(estimator).__name__} has neither predict_proba nor decision_function: no scores")


def fit_estimator(estimator: Any, X: Any, y: npt.NDArray[Any], sample_weight: FloatArray | None) -> Any:
    """Fit a copy; weights reach it where it takes them, and the calibrator in any case."""
    fresh = clone(estimator)
    if sample_weight is None:
        return fresh.fit(X, y)
    if isinstance(fresh, Pipeline):
        name, last = fresh.steps[-1]
        resamples = any(hasattr(step, "fit_resample") for _, step in fresh.steps)  # rows would no longer match
        if resamples or not has_fit_parameter(last, "sample_weight"):
            return fresh.fit(X, y)
        return fresh.fit(X, y, **{f"{name}__sample_weight": sample_weight})
    if has_fit_parameter(fresh, "sample_weight"):
        return fresh.fit(X, y, sample_weight=sample_weight)
    return fresh.fit(X, y)


def outputs_of(fitted: Any, X: Any, classes: npt.NDArray[Any]) -> FloatArray:
    """Return probabilities or margins with one column per class of `classes`; a class not seen in fit gets none."""
    method = score_method(fitted)
    output = np.asarray(getattr(fitted, method)(X), dtype=np.float64)
    seen = getattr(fitted, "classes_", classes)
    if len(seen) == len(classes):
        return output
    if method == "decision_function":
        raise InvalidInputError(f"a fold lacks a class: it has {list(seen)} of {list(classes)}; use fewer folds")
    full = np.zeros((len(output), len(classes)))
    full[:, np.searchsorted(classes, seen)] = output
    return full


def cross_fit(
    estimator: Any,
    X: Any,
    y: npt.NDArray[Any],
    sample_weight: FloatArray | None,
    splits: Iterable[Split],
    *,
    classes: npt.NDArray[Any],
    n_jobs: int | None,
) -> tuple[FloatArray, IntArray]:
    """Return the outputs of out-of-fold models, and which rows they belong to."""

    def one_fold(train: IntArray, test: IntArray) -> tuple[FloatArray, IntArray]:
        weight = None if sample_weight is None else sample_weight[train]
        fitted = fit_estimator(estimator, take_rows(X, train), y[train], weight)
        return outputs_of(fitted, take_rows(X, test), classes), test

    folds = Parallel(n_jobs=n_jobs)(delayed(one_fold)(train, test) for train, test in splits)
    outputs, rows = zip(*folds, strict=True)
    return np.concatenate(outputs), np.concatenate(rows)


def take_rows(X: Any, rows: IntArray) -> Any:
    """Return some rows of a DataFrame, an array, a sparse matrix or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]
