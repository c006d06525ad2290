"""Score rows so that a row's bits do not depend on which rows arrived together with it."""

from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.serving.ratio_model import RatioModel

BLOCK_ROWS = 64  # one call on 64 rows costs about what one on a single row does


def batch_invariant_log_ratios(model: RatioModel, X: Any, *, first_row: int) -> FloatArray:
    """Return log ratios of rows numbered from `first_row`, (n, K), the same bits however the rows are cut.

    Linear algebra libraries pick another kernel, and so another order of adding, for one row than for many.
    Here every call has one shape, and a row always stands at the same place in it; the places of rows that
    are not there are filled with one that is.
    """
    matrix = model.prepare(X)
    n_rows = len(matrix)
    parts = []
    start = 0
    while start < n_rows:
        place = (first_row + start) % BLOCK_ROWS
        size = min(BLOCK_ROWS - place, n_rows - start)
        rows = np.full(BLOCK_ROWS, start)
        rows[place : place + size] = np.arange(start, start + size)
        block = matrix.iloc[rows] if hasattr(matrix, "iloc") else np.asarray(matrix)[rows]
        parts.append(model.calibrated(model.scorer.scores(block))[place : place + size])
        start += size
    return np.concatenate(parts) if parts else np.empty((0, model.n_classes))
