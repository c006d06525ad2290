"""Lay out decisions as columns of a table: numbers for two classes, arrays for more."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, StringType, StructField

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel

_KINDS: dict[str, DataType] = {"b": BooleanType(), "i": LongType(), "u": LongType(), "f": DoubleType()}


def class_type(model: RatioModel) -> DataType:
    """Return the Spark type of the model's classes."""
    return _KINDS.get(model.classes_.dtype.kind, StringType())


def vector_type(model: RatioModel) -> DataType:
    """Return the Spark type of log ratios, posteriors or a prior: one number for two classes, (K,) for more."""
    return DoubleType() if model.n_classes == 2 else ArrayType(DoubleType())


def vector_values(values: FloatArray) -> Any:
    """Return (n, K) as a column: of two classes the second's number, of more the whole row."""
    return values[:, 1] if values.shape[1] == 2 else list(values)


def class_values(labels: npt.NDArray[Any]) -> Any:
    """Return classes as a column that Arrow accepts."""
    return labels if labels.dtype.kind in "biuf" else labels.astype(object)


def scored_fields(model: RatioModel) -> list[StructField]:
    """Return the columns that scoring adds."""
    return [
        StructField("log_ratio", vector_type(model)),
        StructField("posterior", vector_type(model)),
        StructField("decision", class_type(model)),
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
