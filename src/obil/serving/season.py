"""Turn when rows came into where they stand in the day, the week and the year: sines and cosines."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError

DAY = 86_400.0  # seconds
PERIODS = ((DAY, 2), (7.0 * DAY, 1), (365.2425 * DAY, 1))  # the length in seconds, and how many harmonics
FARTHEST = 1e12  # seconds: some 30,000 years


def season_of(at: Any, n_rows: int) -> FloatArray:
    """Return sines and cosines of the day (two harmonics), the week and the year, (n, 8); 0 where no time is known.

    `at` is one time for each row, or one for all: datetimes, numpy's or pandas' ones, or seconds since 1970. A time
    without a zone is read as it stands, one with a zone in UTC.

    >>> season_of([datetime(1970, 1, 1, 6, 0)], 1)[0, :4].round(2).tolist()  # a quarter of a day
    [1.0, 0.0, 0.0, -1.0]
    """
    seconds = _seconds(at, n_rows)
    waves = []
    for length, harmonics in PERIODS:
        angle = 2.0 * np.pi * (np.mod(seconds, length) / length)
        waves += [wave(k * angle) for k in range(1, harmonics + 1) for wave in (np.sin, np.cos)]
    found: FloatArray = np.nan_to_num(np.column_stack(waves))
    return found


def _seconds(at: Any, n_rows: int) -> FloatArray:
    """Return seconds since 1970, (n,), NaN where no time is known."""
    values = np.asarray(at) if not isinstance(at, datetime) else np.asarray(_of_datetime(at))
    if values.dtype == object:
        values = np.array([_one(value) for value in values.ravel()]).reshape(values.shape)
    if values.dtype.kind == "M":
        missing = np.isnat(values)
        # as microseconds: those of a finer unit are no use, and a coarser one loses nothing
        values = np.where(missing, np.nan, values.astype("M8[us]").astype(np.int64) / 1e6)
    if values.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"at must hold times or seconds since 1970, got {at!r:.60}: datetimes, numpy's datetime64 or numbers"
        )
    if values.ndim > 1 or values.shape not in ((), (1,), (n_rows,)):
        raise InvalidInputError(f"at must be one time for each of the {n_rows} rows, got the shape {values.shape}")
    seconds: FloatArray = np.broadcast_to(values.astype(np.float64), n_rows)
    if (np.abs(seconds) > FARTHEST).any():
        raise InvalidInputError(f"at must be seconds since 1970, got {seconds[np.nanargmax(np.abs(seconds))]:g}")
    return seconds


def _one(value: Any) -> float:
    """Return a time among values of several kinds in seconds."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas', without importing it
        return np.nan
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, np.datetime64):
        return float(_seconds(value, 1)[0])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InvalidInputError(f"at must hold times or seconds since 1970, got {value!r:.60}")


def _of_datetime(value: datetime) -> float:
    return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
