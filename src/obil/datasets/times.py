"""Read when each row was: numbers, or dates as people write them."""

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from obil.arrays import FloatArray
from obil.errors import InvalidInputError

_CLOCKS = ("", " %H:%M", " %H:%M:%S")
_FORMATS = (
    "ISO8601",
    *(f"%d.%m.%Y{clock}" for clock in _CLOCKS),
    *("%B %Y", "%b %Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%B %d, %Y", "%b %d, %Y"),
)
_DAY_FIRST = tuple(f"{date}{clock}" for date in ("%d/%m/%Y", "%d/%m/%y", "%d-%m-%Y") for clock in _CLOCKS)
_MONTH_FIRST = tuple(f"{date}{clock}" for date in ("%m/%d/%Y", "%m/%d/%y", "%m-%d-%Y") for clock in _CLOCKS)


def as_times(values: "pd.Series[Any]") -> FloatArray:
    """Return times as numbers that sort, (n,): numbers as they are, dates in seconds.

    Dates are written 2024-12-31, 31.12.2024, 31/12/2024 or 12/31/2024, with a clock or without, or May 2024. With
    slashes it must be clear which is the day: some day of the column past the twelfth tells.

    >>> as_times(pd.Series(["31.12.2023", "01.01.2024"])).tolist()
    [1703980800.0, 1704067200.0]
    >>> as_times(pd.Series(["12/31/2023", "1/1/2024"])).tolist()
    [1703980800.0, 1704067200.0]
    """
    missing = np.flatnonzero(values.isna())
    if missing.size:
        raise InvalidInputError(
            f"every row must have a time, got none in {missing.size} of {len(values)}, the first of them "
            f"{_row(values, int(missing[0]))}"
        )
    if values.dtype.kind in "fiu":
        return values.to_numpy(dtype=np.float64)
    codes, cells = pd.factorize(values)  # many rows share a date
    different = pd.Series(cells)
    for form in _FORMATS:
        times = _seconds(different, form)
        if times is not None:
            return times[codes]
    for day_first, month_first in zip(_DAY_FIRST, _MONTH_FIRST, strict=True):
        readings = [
            times for times in (_seconds(different, day_first), _seconds(different, month_first)) if times is not None
        ]
        unclear = readings[0] != readings[1] if len(readings) == 2 else np.zeros(len(different), dtype=bool)
        if unclear.any():
            place = int(np.argmax(unclear[codes]))
            raise InvalidInputError(
                f"times must say which number is the day, got {values.iloc[place]!r:.40} in {_row(values, place)}: no "
                "row tells whether the day or the month comes first; write them as 2024-12-31"
            )
        if readings:
            return readings[0][codes]
    place = int(np.flatnonzero(codes == _first_unlike_the_others(different.astype(str), np.bincount(codes)))[0])
    raise InvalidInputError(
        "times must be numbers or dates as 2024-12-31 or 31.12.2024, "
        f"got {values.iloc[place]!r:.40} in {_row(values, place)}"
    )


def are_dates(values: "pd.Series[Any]") -> bool:
    """Return whether text holds dates, even where the day could be the month.

    >>> are_dates(pd.Series(["03/04/2024", "05/06/2024"])), are_dates(pd.Series(["3/4", "ward 5"]))
    (True, False)
    """
    different = pd.Series(pd.unique(values))
    return any(_seconds(different, form) is not None for form in (*_FORMATS, *_DAY_FIRST, *_MONTH_FIRST))


def _seconds(cells: "pd.Series[Any]", form: str) -> FloatArray | None:
    """Return the seconds since 1970 of dates in one format, or None where a cell is none."""
    if any(isinstance(cell, Real) for cell in cells):  # numbers among text
        return None
    try:
        times = pd.to_datetime(cells, format=form, utc=True)
    except (ValueError, TypeError, OverflowError):
        return None
    return np.asarray((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64)


def _first_unlike_the_others(cells: "pd.Series[Any]", counts: "np.typing.NDArray[np.intp]") -> int:
    """Return the first cell that is not what most rows hold: a number, or a date in one of the formats."""
    readings = [pd.to_numeric(cells, errors="coerce").notna().to_numpy()]
    for form in (*_FORMATS, *_DAY_FIRST, *_MONTH_FIRST):
        readings.append(pd.to_datetime(cells, format=form, utc=True, errors="coerce").notna().to_numpy())
    best = max(readings, key=lambda read: float(counts[read].sum()))
    return int(np.argmin(best))


def _row(values: "pd.Series[Any]", place: int) -> str:
    """Return what to call a row: by its number in the table, also where rows without a label were left out."""
    label = values.index[place]
    return f"row {(int(label) if isinstance(label, int | np.integer) else place) + 1}"
