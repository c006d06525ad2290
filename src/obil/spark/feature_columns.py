"""Find the columns that a model reads in a Spark table, and convert them to the model's input."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType

from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel
from obil.spark.carried_columns import named

FEATURE = "obil_x"  # features are passed by number: their names may be anything


def feature_columns(df: DataFrame, model: RatioModel, features: Sequence[str] | None) -> list[str]:
    """Return the names of the columns that the model reads, in its order.

    A model fitted on a DataFrame knows them; for one fitted on arrays `features` names them, or one column of arrays.
    """
    if not isinstance(df, DataFrame):
        raise InvalidInputError(f"df must be a Spark DataFrame, got {type(df).__module__}.{type(df).__name__}")
    known = model.encoder.names if model.encoder is not None else model.feature_names
    if features is None and known is None:
        raise InvalidInputError("the model was fitted without column names: give features=[...]")
    chosen = known if features is None else features
    names = [chosen] if isinstance(chosen, str) else list(chosen or ())
    if known is not None and set(names) != set(known):
        raise InvalidInputError(f"the model reads the columns {', '.join(known)}, got features {', '.join(names)}")
    require_columns(df, names)
    twice = [name for name in names if df.columns.count(name) > 1]
    if twice:
        raise InvalidInputError(f"column names must be unique for the model, got {twice[0]!r} twice: rename one")
    width = model.scorer.n_features
    is_array = len(names) == 1 and isinstance(df.schema[names[0]].dataType, ArrayType)
    if width is not None and len(names) != width and not is_array:
        raise InvalidInputError(f"a row has {width} features, got {len(names)} columns")
    return list(known) if known is not None else names


def require_columns(df: DataFrame, names: Iterable[str]) -> None:
    """Raise if a column is missing."""
    missing = [name for name in names if name not in df.columns]
    if missing:
        raise InvalidInputError(f"columns are missing: {', '.join(missing)}; the table has {', '.join(df.columns)}")


def numbered_features(names: Sequence[str]) -> list[Column]:
    """Return the columns that a model reads under internal names, in its order."""
    return [named(name).alias(f"{FEATURE}{number}") for number, name in enumerate(names)]


def model_input(table: Any, names: Sequence[str], model: RatioModel) -> Any:
    """Return the model's input from a pandas table with numbered features: a table if it matches by names."""
    features = table[[f"{FEATURE}{number}" for number in range(len(names))]]
    if model.encoder is not None or model.feature_names is not None:
        return features.set_axis(list(names), axis=1)
    if len(names) == 1 and any(isinstance(value, np.ndarray | list) for value in features.iloc[:, 0]):
        return _stacked(features.iloc[:, 0], names[0])
    return features.to_numpy(dtype=np.float64)


def model_input_of_arrow(columns: Sequence[pa.Array], names: Sequence[str], model: RatioModel) -> Any:
    """Return the model's input from Arrow columns, if possible without a pandas table in between."""
    plain = all(pa.types.is_floating(one.type) or pa.types.is_integer(one.type) for one in columns)
    if model.encoder is not None or model.feature_names is not None or not plain:
        numbered = [f"{FEATURE}{number}" for number in range(len(names))]
        return model_input(pa.table(list(columns), names=numbered).to_pandas(), names, model)
    matrix = np.empty((len(columns[0]), len(columns)))
    for number, column in enumerate(columns):
        matrix[:, number] = column.to_numpy(zero_copy_only=False)  # a null becomes NaN
    return matrix


def _stacked(rows: Any, name: str) -> Any:
    """Return a column of arrays as a matrix."""
    try:
        return np.stack([np.asarray(row, dtype=np.float64) for row in rows])
    except (TypeError, ValueError):
        raise InvalidInputError(f"the arrays in {name!r} must hold numbers, the same count each, and no null") from None
