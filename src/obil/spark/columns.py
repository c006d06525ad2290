"""Read and write columns of Spark tables: a model's features, keys and times carried unchanged, and decisions."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql import types as T  # noqa: N812  # the usual name

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel

FEATURE = "obil_x"  # features are passed by number: their names may be anything
_AS_TEXT = (T.BooleanType, T.DateType, T.NumericType, T.StringType, T.TimestampNTZType)  # whose string form is unique
_KINDS: dict[str, T.DataType] = {"b": T.BooleanType(), "i": T.LongType(), "u": T.LongType(), "f": T.DoubleType()}


def feature_columns(df: DataFrame, model: RatioModel, features: Sequence[str] | None) -> list[str]:
    """Return the names of the columns that the model reads, in its order.

    A model fitted on a DataFrame knows them; for one fitted on arrays `features` names them, or one column of arrays.
    """
    if not isinstance(df, DataFrame):
        raise InvalidInputError(f"df must be a Spark DataFrame, got {type(df).__module__}.{type(df).__name__}")
    known = model.feature_names
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
    width = model.n_features
    is_array = len(names) == 1 and isinstance(df.schema[names[0]].dataType, T.ArrayType)
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
    if model.feature_names is not None:
        return features.set_axis(list(names), axis=1)
    if len(names) == 1 and any(isinstance(value, np.ndarray | list) for value in features.iloc[:, 0]):
        return _stacked(features.iloc[:, 0], names[0])
    return features.to_numpy(dtype=np.float64)


def model_input_of_arrow(columns: Sequence[pa.Array], names: Sequence[str], model: RatioModel) -> Any:
    """Return the model's input from Arrow columns, if possible without a pandas table in between."""
    plain = all(pa.types.is_floating(one.type) or pa.types.is_integer(one.type) for one in columns)
    if model.feature_names is not None or not plain:
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


def named(name: str) -> Column:
    """Return a column by name, whatever characters the name has."""
    return F.col("`" + name.replace("`", "``") + "`")


def as_text(df: DataFrame, name: str, *, role: str) -> Column:
    """Return a column as strings that are equal exactly where Spark's own grouping finds values equal."""
    kind, column = df.schema[name].dataType, named(name)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column).cast(T.StringType())  # its string form repeats when clocks are set back
    if isinstance(kind, T.BinaryType):
        return F.hex(column)
    if isinstance(kind, T.FloatType | T.DoubleType):
        return (column + F.lit(0.0).cast(kind)).cast(T.StringType())  # minus zero is zero
    if isinstance(kind, _AS_TEXT):
        return column.cast(T.StringType())
    raise InvalidInputError(f"{role} must be a string, number, time or bytes: {name!r} is {kind.simpleString():.80}")


def from_text(column: Column, kind: T.DataType) -> Column:
    """Return what `as_text` carried, in its original type."""
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(column.cast("long"))
    return F.unhex(column) if isinstance(kind, T.BinaryType) else column.cast(kind)


def as_ordered(df: DataFrame, name: str) -> Column:
    """Return a time as a number or string with the same order."""
    kind, column = df.schema[name].dataType, named(name)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType | T.DateType):
        return column.cast(T.StringType())
    if isinstance(kind, T.NumericType | T.StringType):
        return column
    raise InvalidInputError(
        f"time must be a timestamp, date, number or sortable string: {name!r} is {kind.simpleString():.80}"
    )


def from_ordered(column: Column, kind: T.DataType) -> Column:
    """Return what `as_ordered` carried, in its original type."""
    return F.timestamp_micros(column) if isinstance(kind, T.TimestampType) else column.cast(kind)


def class_type(model: RatioModel) -> T.DataType:
    """Return the Spark type of the model's classes."""
    return _KINDS.get(model.classes_.dtype.kind, T.StringType())


def vector_type(model: RatioModel) -> T.DataType:
    """Return the Spark type of log ratios, posteriors or a prior: one number for two classes, (K,) for more."""
    return T.DoubleType() if model.n_classes == 2 else T.ArrayType(T.DoubleType())


def vector_values(values: FloatArray) -> Any:
    """Return (n, K) as a column: of two classes the second's number, of more the whole row."""
    return values[:, 1] if values.shape[1] == 2 else list(values)


def class_values(labels: npt.NDArray[Any]) -> Any:
    """Return classes as a column that Arrow accepts."""
    return labels if labels.dtype.kind in "biuf" else labels.astype(object)


def scored_fields(model: RatioModel) -> list[T.StructField]:
    """Return the columns that scoring adds."""
    return [
        T.StructField("log_ratio", vector_type(model)),
        T.StructField("posterior", vector_type(model)),
        T.StructField("decision", class_type(model)),
    ]


def as_binary(values: FloatArray) -> list[bytes]:
    """Return each row of numbers as its bytes: nothing is rounded, and many rows are read back at once."""
    rows = np.ascontiguousarray(values, dtype="<f8").reshape(len(values), -1)
    data, width = rows.tobytes(), 8 * rows.shape[1]
    return [data[i * width : (i + 1) * width] for i in range(len(rows))]


def from_binary(values: Any, *shape: int) -> FloatArray:
    """Return rows whose bytes were kept, (n, *shape)."""
    return np.frombuffer(b"".join(values), dtype="<f8").reshape(-1, *shape).astype(np.float64)


def require_free(names: Sequence[str], taken: Sequence[str]) -> None:
    """Refuse to add a column whose name a table has already."""
    ours = {name.lower() for name in names}  # Spark's names are case-insensitive
    clash = sorted(name for name in taken if name.lower() in ours)
    if clash:
        raise InvalidInputError(f"the table has a column {clash[0]!r} already: rename it, the result uses this name")
