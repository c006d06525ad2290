"""Score rows so that a row's bits do not depend on which rows arrived together with it."""

from typing import Any

import numpy as np

from obil.serving.ratio_model import RatioModel, Scores

BLOCK_ROWS = 64  # one call on 64 rows costs about what one on a single row does


def batch_invariant_scores(model: RatioModel, X: Any, *, first_row: int) -> Scores:
    """Return the scores of rows numbered from `first_row`, the same bits however the rows are cut into calls.

    Linear algebra libraries pick another kernel, and so another order of adding, for one row than for many.
    Unless the model is batch invariant by itself, every call here has one shape, and a row always stands at the
    same place in it; the places of rows that are not there are filled with one that is.
    """
    matrix = model.prepare(X)
    if model.batch_invariant:
        return model.score(matrix)
    n_rows, n_classes = len(matrix), model.n_classes
    parts = [Scores(np.empty((0, n_classes)), np.empty((0, len(model.view_members), n_classes)))]
    start = 0
    while start < n_rows:
        place = (first_row + start) % BLOCK_ROWS
        size = min(BLOCK_ROWS - place, n_rows - start)
        rows = np.full(BLOCK_ROWS, start)
        rows[place : place + size] = np.arange(start, start + size)
        block = matrix.iloc[rows] if hasattr(matrix, "iloc") else np.asarray(matrix)[rows]
        log_ratios, views = model.score(block)
        parts.append(Scores(log_ratios[place : place + size], views[place : place + size]))
        start += size
    return Scores(*map(np.concatenate, zip(*parts, strict=True)))
