"""Find the columns of a table that only tell the time: a model that learns the date mistakes it for a prior."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

FEWEST_VALUES = 20  # that a column takes: a flag or a version that rises may well be worth learning


def rising_columns(table: "pd.DataFrame", names: Iterable[str], time: FloatArray | None = None) -> list[str]:
    """Return the number columns that never fall, or never rise, with the rows as they stand or with their times (n,).

    >>> import pandas as pd
    >>> table = pd.DataFrame({"day": np.arange(100) // 4, "amount": np.arange(100) % 30})
    >>> rising_columns(table, ["day", "amount"])
    ['day']
    """
    orders = [np.arange(len(table))] + ([] if time is None else [np.argsort(time, kind="stable")])
    return [name for name in names if name in table and _only_rises(table[name], orders)]


def _only_rises(column: "pd.Series[Any]", orders: Iterable[npt.NDArray[np.intp]]) -> bool:
    if column.dtype.kind not in "fiu":
        return False
    values: FloatArray = column.to_numpy(dtype=np.float64)
    if len(np.unique(values[~np.isnan(values)])) < FEWEST_VALUES:
        return False
    inside = [values[order][~np.isnan(values[order])] for order in orders]
    return any((np.diff(kept) >= 0.0).all() or (np.diff(kept) <= 0.0).all() for kept in inside)
