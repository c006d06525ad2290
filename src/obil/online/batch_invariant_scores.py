"""Score rows so that a row's bits do not depend on which rows arrived together with it."""

from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.serving.ratio_model import RatioModel, Scores

BLOCK_ROWS = 64  # one call on 64 rows costs about what one on a single row does


def batch_invariant_scores(model: RatioModel, X: Any, *, first_row: int, at: FloatArray | None = None) -> Scores:
    """Return the scores of rows numbered from `first_row`, the same bits however the rows are cut into calls.

    Linear algebra libraries pick another kernel, and so another order of adding, for one row than for many.
    Unless the model is batch invariant by itself, every call here has one shape, and a row always stands at the
    same place in it; the places of rows that are not there are filled with one that is.
    """
    matrix = model.prepare(X)
    if model.batch_invariant:
        return model.score(matrix, at=at)
    nothing = np.empty((0, model.n_folds, 1 + model.n_views + model.n_inputs, model.n_classes))
    parts = [[np.empty((0, model.n_classes)), nothing]]
    for start in range(-(first_row % BLOCK_ROWS), len(matrix), BLOCK_ROWS):
        rows = np.arange(start, start + BLOCK_ROWS)
        is_there = (rows >= 0) & (rows < len(matrix))
        rows = np.where(is_there, rows, max(start, 0))
        block = matrix.iloc[rows] if hasattr(matrix, "iloc") else np.asarray(matrix)[rows]
        then = None if at is None else at[rows]
        parts.append([values[is_there] for values in model.score(block, at=then)])
    return Scores(*map(np.concatenate, zip(*parts, strict=True)))
