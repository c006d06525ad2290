"""Find the rows of which no feature is known."""

from typing import Any

import numpy as np

from obil.arrays import BoolArray


def rows_without_features(matrix: Any) -> BoolArray | None:
    """Return which rows of what a scorer takes have only missing values, (n,); None if there is no such row.

    >>> rows_without_features(np.array([[1.0, np.nan], [np.nan, np.nan]]))
    array([False,  True])
    >>> rows_without_features(np.array([[1.0, np.nan]])) is None
    True
    """
    if hasattr(matrix, "iloc"):
        empty = matrix.iloc[:, 0].isna().to_numpy() if matrix.shape[1] else np.zeros(len(matrix), dtype=bool)
        if empty.any():  # most rows have the first feature
            empty = matrix.isna().to_numpy().all(axis=1)
    elif type(matrix) is np.ndarray and matrix.ndim == 2 and matrix.dtype.kind == "f" and matrix.size:
        first = matrix[:, 0]
        if len(first) == 1 and first.item(0) == first.item(0):  # one row is looked at in a tenth of the time
            return None
        empty = np.isnan(first)
        if empty.any():
            empty[empty] = np.isnan(matrix[empty]).all(axis=1)
    else:  # images, sparse rows, strings
        return None
    return empty if empty.any() else None
