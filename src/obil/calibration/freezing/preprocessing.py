"""Follow every column through a fitted pipeline of scikit-learn's usual preprocessing."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils import check_array

from obil.calibration.freezing.columns import FrozenColumn, NotFrozenError

Columns = list[FrozenColumn]
INDICATOR = "missingindicator_"  # how SimpleImputer names the indicator of a column
UNKNOWN = "an unknown category"
MOST_CATEGORIES = 1_000


def follow(transformer: Any, columns: Columns) -> Columns:
    """Return the columns after a fitted transformer, or raise NotFrozenError where it has no frozen form.

    >>> scaler = StandardScaler().fit([[1.0], [3.0]])
    >>> [(column.shift, column.divisor) for column in follow(scaler, [FrozenColumn(0)])]
    [(2.0, 1.0)]
    """
    if transformer is None or isinstance(transformer, str):
        if transformer in (None, "passthrough"):
            return columns
        return []  # "drop"
    if hasattr(transformer, "fit_resample"):  # imbalanced-learn's samplers do nothing after fit
        return columns
    for kind, how in _STEPS:
        if isinstance(transformer, kind):
            return how(transformer, columns)
    raise NotFrozenError(f"{type(transformer).__name__} has no frozen form")


def _pipeline(pipeline: Pipeline, columns: Columns) -> Columns:
    return functools.reduce(lambda reached, step: follow(step[1], reached), pipeline.steps, columns)


def _column_transformer(transformer: ColumnTransformer, columns: Columns) -> Columns:
    parts = [(part, _chosen(which, columns)) for _, part, which in transformer.transformers_]
    return [column for part, chosen in parts for column in follow(part, chosen)]


def _union(union: FeatureUnion, columns: Columns) -> Columns:
    if union.transformer_weights:
        raise NotFrozenError("a FeatureUnion with weights has no frozen form")
    return [column for _, part in union.transformer_list for column in follow(part, columns)]


def _chosen(which: Any, columns: Columns) -> Columns:
    """Return the columns that a ColumnTransformer names by number, mask, slice or name."""
    names = [column.name for column in columns]
    listed = [which] if isinstance(which, str) else which
    if not isinstance(listed, slice) and len(listed) and all(isinstance(name, str) for name in listed):
        if any(name not in names for name in listed):
            raise NotFrozenError(f"the columns {list(listed)!r:.80} are not known by name")
        return [columns[names.index(name)] for name in listed]
    if isinstance(listed, slice) and isinstance(listed.start or listed.stop, str):
        raise NotFrozenError("a slice of column names has no frozen form")
    if not isinstance(listed, slice):
        listed = np.asarray(listed, dtype=bool if len(listed) and isinstance(listed[0], bool | np.bool_) else int)
    return [columns[place] for place in np.arange(len(columns))[listed]]


def _selector(selector: SelectorMixin, columns: Columns) -> Columns:
    return [columns[place] for place in selector.get_support(indices=True)]


def _function(transformer: FunctionTransformer, columns: Columns) -> Columns:
    # the booster's own preprocessing passes numbers on by a function that only checks them
    checks = isinstance(transformer.func, functools.partial) and transformer.func.func is check_array
    if transformer.func is not None and not checks:
        raise NotFrozenError("a FunctionTransformer has no frozen form")
    return columns


def _imputer(imputer: SimpleImputer, columns: Columns) -> Columns:
    missing = imputer.missing_values
    if not (missing is None or missing != missing):  # noqa: PLR0124  # NaN
        raise NotFrozenError(f"SimpleImputer(missing_values={missing!r}) has no frozen form")
    made = []
    for name in _nameless(imputer).get_feature_names_out(_numbered(columns)):
        column = columns[int(name.removeprefix(INDICATOR))]
        if name.startswith(INDICATOR):
            made.append(column.indicator())
            continue
        fill = imputer.statistics_[int(name)]
        if column.codes is not None and isinstance(fill, str) and fill not in column.codes:
            # a code that no encoder of rows gives: only what is missing has it
            column = FrozenColumn(column.source, column.name, {**column.codes, fill: len(column.codes) + 1.0})
        code = column.code(fill)
        made.append(column.filled(0.0 if np.isnan(code) else code))  # an empty feature that is kept becomes 0
    return made


def _standard(scaler: StandardScaler, columns: Columns) -> Columns:
    return _scaled(columns, shift=scaler.mean_ if scaler.with_mean else None, divisor=scaler.scale_)


def _robust(scaler: RobustScaler, columns: Columns) -> Columns:
    return _scaled(columns, shift=scaler.center_, divisor=scaler.scale_)


def _max_abs(scaler: MaxAbsScaler, columns: Columns) -> Columns:
    return _scaled(columns, divisor=scaler.scale_)


def _min_max(scaler: MinMaxScaler, columns: Columns) -> Columns:
    if scaler.clip:
        raise NotFrozenError("MinMaxScaler(clip=True) has no frozen form")
    return _scaled(columns, scale=scaler.scale_, offset=scaler.min_)


def _scaled(columns: Columns, **parts: Any) -> Columns:
    given = {name: values for name, values in parts.items() if values is not None}
    return [
        column.scaled(**{name: float(values[place]) for name, values in given.items()})
        for place, column in enumerate(columns)
    ]


def _encoder(encoder: OneHotEncoder | OrdinalEncoder, columns: Columns) -> Columns:
    """Read off what the encoder makes of every category, an unknown one and a missing value."""
    encoder = _nameless(encoder)
    sources = [int(name.split("_")[0]) for name in encoder.get_feature_names_out(_numbered(columns))]
    dtypes = [object if categories.dtype.kind in "OUS" else np.float64 for categories in encoder.categories_]

    def encoded(place: int, values: Any) -> Any:
        """Return what becomes of values of one column, (n, its outputs); infinity where they are refused."""
        rows = pd.DataFrame(
            {
                other: np.array(values if other == place else [categories[0]] * len(values), dtype=dtypes[other])
                for other, categories in enumerate(encoder.categories_)
            }
        )
        own = np.array(sources) == place
        try:
            output = encoder.transform(rows)
        except ValueError:
            return np.full((len(values), own.sum()), np.inf)
        return np.asarray(output.toarray() if hasattr(output, "toarray") else output)[:, own]

    made: Columns = []
    for place, (column, categories) in enumerate(zip(columns, encoder.categories_, strict=True)):
        if len(categories) > MOST_CATEGORIES:
            raise NotFrozenError(f"column {column.source} has {len(categories):,} categories: too many to freeze")
        codes = np.array([column.code(category) for category in categories])
        known, absent = categories[~np.isnan(codes)], categories[np.isnan(codes)]
        codes = codes[~np.isnan(codes)]
        if len(absent) > 1:
            raise NotFrozenError(f"column {column.source} tells None from NaN, which has no frozen form")
        unknown = UNKNOWN if dtypes[place] is object else float(max(known, default=0.0)) + 1.0
        table = encoded(place, known)
        other, missing = encoded(place, [unknown])[0], encoded(place, [absent[0] if len(absent) else np.nan])[0]
        made += [
            column.mapped(
                dict(zip(codes[~np.isnan(codes)].tolist(), values, strict=True)), other=other[k], missing=missing[k]
            )
            for k, values in enumerate(table.T.tolist())
        ]
    return made


def _nameless(transformer: Any) -> Any:
    """Return the transformer as if fitted on an array: it then names its outputs by the numbers of its columns."""
    fitted = copy.copy(transformer)
    fitted.__dict__.pop("feature_names_in_", None)
    return fitted


def _numbered(columns: Columns) -> list[str]:
    return [str(place) for place in range(len(columns))]


_STEPS: tuple[tuple[Any, Callable[[Any, Columns], Columns]], ...] = (
    (Pipeline, _pipeline),
    (ColumnTransformer, _column_transformer),
    (FeatureUnion, _union),
    (SimpleImputer, _imputer),
    (StandardScaler, _standard),
    (RobustScaler, _robust),
    (MaxAbsScaler, _max_abs),
    (MinMaxScaler, _min_max),
    (OneHotEncoder, _encoder),
    (OrdinalEncoder, _encoder),
    (SelectorMixin, _selector),
    (FunctionTransformer, _function),
)
