"""Choose the features whose effect on the labels changes most with time: the inputs of a recalibration.

Held-out rows in their order are cut in two. A recalibration of the earlier half that has a feature as input is fitted
again on the later half; what the feature gains there, in log likelihood beyond slope, offset and the features chosen
before, is what it is worth. The log likelihoods are taken to be quadratic around the slope and offset of the earlier
half, so that all features together cost one pass over the rows.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit

from obil.arrays import FloatArray, IntArray
from obil.serving.columns import ColumnEncoder
from obil.serving.ratio_model import RatioModel
from obil.serving.row_inputs import FARTHEST, MOST_FEATURES, RowInputs

MOST_ROWS = 20_000  # that are looked at
CENTRED_ROWS = 20.0  # rows at the prior that the log odds of a category start from
SLOPE_SD, OFFSET_SD, INPUT_SD = 0.3, 0.5, 0.3  # of the recalibrations in `obil.trackers.label_experts`
LARGEST_LOGIT = 30.0
MOST_CODES = 1_000  # of a category; a column with larger numbers is read as a number
NEWTON_STEPS = 8


class Candidate(NamedTuple):
    """One feature as a number."""

    place: int  # in the matrix of a row
    values: FloatArray  # (n,)
    centre: float = 0.0
    scale: float = 1.0
    effects: tuple[float, ...] = ()  # of each code of a category


def fit_row_inputs(X: Any, model: RatioModel, rows: IntArray, *, categories: tuple[int, ...] = ()) -> RowInputs | None:
    """Return the inputs of a fitted model's rows; None where there are more than two classes.

    `rows` are the places in X of the model's held-out rows, in their order; `categories` the columns of a matrix that
    hold codes. Rows that are no table of numbers and categories have no features among their inputs.
    """
    if model.n_classes != 2:
        return None
    thinned = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.int64))
    labels, weights = model.holdout_.labels[thinned], model.holdout_.weights[thinned]
    prior = float(model.prior_[1])
    base = model.holdout_.log_ratios[thinned, 1] + np.log(prior / (1.0 - prior))
    columns: ColumnEncoder | None = None
    matrix, levels = None, {}
    table = X if hasattr(X, "shape") else np.asarray(X)
    if not issparse(table) and len(table.shape) == 2:
        matrix, columns = _as_numbers(_rows_of(table, rows[thinned]), model)
        encoder = columns or model.encoder
        levels = dict.fromkeys(categories, 0)
        if encoder is not None:
            levels = {
                i: len(column.levels) + 1 for i, column in enumerate(encoder.columns) if column.levels is not None
            }
    if matrix is None:
        return _inputs([], None)
    found = (_candidate(i, matrix[:, i], labels, weights, levels.get(i)) for i in range(matrix.shape[1]))
    candidates = [one for one in found if one is not None]
    chosen = leading(
        [one.values for one in candidates], np.clip(base, -LARGEST_LOGIT, LARGEST_LOGIT), labels, n=MOST_FEATURES
    )
    return _inputs([candidates[i] for i in chosen], columns)


def leading(candidates: list[FloatArray], base: FloatArray, labels: IntArray, *, n: int) -> list[int]:
    """Return the places of up to n candidates (N,), the one whose effect on the labels changed most first."""
    if not candidates:
        return []
    x = np.column_stack([base, np.ones(len(base)), *candidates])
    half = len(labels) // 2
    start, precision = np.zeros(x.shape[1]), np.full(x.shape[1], INPUT_SD**-2)
    start[0], precision[:2] = 1.0, (SLOPE_SD**-2, OFFSET_SD**-2)
    theta = start.copy()
    for _ in range(NEWTON_STEPS):
        gradient, information = _derivatives(x[:half, :2], labels[:half], theta[:2])
        step = gradient - precision[:2] * (theta - start)[:2]
        theta[:2] += np.linalg.solve(information + np.diag(precision[:2]), step)
    (earlier, earlier_information), (later, later_information) = (
        _derivatives(x[part], labels[part], theta) for part in (slice(0, half), slice(half, None))
    )
    chosen: list[int] = []
    for _ in range(min(n, len(candidates))):
        gains = {}
        for i in set(range(len(candidates))) - set(chosen):
            places = [0, 1, *(2 + j for j in (*chosen, i))]
            both, prior = np.ix_(places, places), np.diag(precision[places])
            before = np.linalg.solve(earlier_information[both] + prior, earlier[places])
            gradient, information = later[places] - later_information[both] @ before, later_information[both] + prior
            gains[i] = _gain(gradient, information) - _gain(gradient[:-1], information[:-1, :-1])
        chosen.append(max(sorted(gains), key=gains.__getitem__))
    return chosen


def _derivatives(x: FloatArray, labels: IntArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of the log likelihood of a logistic regression, and its information."""
    p = expit(x @ theta)
    return x.T @ (labels - p), (x.T * (p * (1.0 - p))) @ x


def _gain(gradient: FloatArray, information: FloatArray) -> float:
    return 0.5 * float(gradient @ np.linalg.solve(information, gradient))


def _rows_of(table: Any, rows: IntArray) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else np.asarray(table)[rows]


def _as_numbers(rows: Any, model: RatioModel) -> tuple[FloatArray | None, ColumnEncoder | None]:
    """Return rows as numbers and codes, as the model's own matrix has them; where it has none, the encoder too."""
    if not hasattr(rows, "iloc"):
        try:
            return np.asarray(rows, dtype=np.float64), None
        except (TypeError, ValueError):  # strings among numbers, which only the user's own estimator reads
            return None, None
    if model.encoder is not None:
        return model.encoder.encode(rows), None
    try:
        if all(getattr(kind, "kind", "O") in "biuf" for kind in rows.dtypes):
            return rows.to_numpy(dtype=np.float64, na_value=np.nan), None
        columns = ColumnEncoder.fit(rows)
        return columns.encode(rows), columns
    except (TypeError, ValueError):
        return None, None


def _candidate(
    place: int, values: FloatArray, labels: IntArray, weights: FloatArray, n_levels: int | None
) -> Candidate | None:
    """Return a feature as a number; None where it is the same in all rows."""
    known = np.isfinite(values)
    if not known.any():
        return None
    if n_levels is None or values[known].min() < 0.0 or values[known].max() >= MOST_CODES:
        centre, scale = float(np.median(values[known])), float(values[known].std())
        if not 0.0 < scale < np.inf:
            return None
        standardised = np.where(known, (values - centre) / scale, 0.0)
        return Candidate(place, np.clip(standardised, -FARTHEST, FARTHEST), centre, scale)
    codes = np.where(known, values, 0.0).astype(np.int64)
    n_levels = max(n_levels, int(codes.max(initial=0)) + 1)
    weight = np.where(known, weights / weights.mean(), 0.0)
    positive = np.bincount(codes, weights=weight * labels, minlength=n_levels)
    negative = np.bincount(codes, weights=weight * (1 - labels), minlength=n_levels)
    if (positive + negative > 0.0).sum() < 2:
        return None
    prior = float(positive.sum() / (positive.sum() + negative.sum()))
    prior = min(max(prior, 1e-6), 1.0 - 1e-6)
    odds = (positive + CENTRED_ROWS * prior) / (negative + CENTRED_ROWS * (1.0 - prior))
    effects = np.clip(np.log(odds) - np.log(prior / (1.0 - prior)), -FARTHEST, FARTHEST)
    return Candidate(place, np.where(known, effects[codes], 0.0), effects=tuple(effects.tolist()))


def _inputs(chosen: list[Candidate], columns: ColumnEncoder | None) -> RowInputs:
    effects = np.zeros((len(chosen), max((len(one.effects) for one in chosen), default=0)))
    for own, one in zip(effects, chosen, strict=True):
        own[: len(one.effects)] = one.effects
    return RowInputs(
        features=tuple(one.place for one in chosen),
        centres=np.array([one.centre for one in chosen]),
        scales=np.array([one.scale for one in chosen]),
        n_levels=tuple(len(one.effects) for one in chosen),
        effects=effects,
        columns=None if columns is None else ColumnEncoder(tuple(columns.columns[one.place] for one in chosen)),
    )
