"""Read when the rows of a stream came, each cell alone: what it means must not depend on what came with it."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError


def times_of(cells: npt.NDArray[Any], column: str) -> FloatArray:
    """Return seconds since 1970, (n,), of numbers or of dates as 2024-12-31 18:30; NaN where a cell is missing.

    >>> times_of(np.array(["1970-01-02", "60", np.nan, "1970-01-01T01:00+01:00"], dtype=object), "at").tolist()
    [86400.0, 60.0, nan, 0.0]
    """
    if cells.dtype != object:  # a column that the model reads as numbers
        return np.asarray(cells, dtype=np.float64)
    return np.array([_seconds(cell, column) for cell in cells.tolist()], dtype=np.float64)


def _seconds(cell: Any, column: str) -> float:
    if not isinstance(cell, str):
        return float(cell)
    try:
        return float(cell)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(cell)
    except ValueError:
        raise InvalidInputError(
            f"column {column!r} must hold times as 2024-12-31 18:30 or seconds since 1970, got {cell[:40]!r}"
        ) from None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
