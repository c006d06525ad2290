"""Score rows, by the model they were read for and by no other."""

import numpy as np

from obil.arrays import FloatArray
from obil.errors import ObilError
from obil.service.refusals import BadInputError, ModelChangedError
from obil.service.streams.operations import Rows
from obil.serving.ratio_model import RatioModel


def score(rows: Rows, model: RatioModel) -> tuple[FloatArray, FloatArray | None]:
    """Return the log ratios (n, K) of rows and their views, (n, V, K), or say what is wrong with the rows."""
    if rows.read_for is not None and not _read_alike(rows.read_for, model):
        raise ModelChangedError("another model has taken over while this request was on its way: send it again")
    try:
        scores = model.score(rows.table)
    except (ObilError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # of ours, or of the wrapped model, which may be any
        raise BadInputError(f"these rows cannot be scored: {error!s:.300}") from None
    scores.log_ratios[:, 0] = 0.0  # it may be -0.0, which the log does not hold
    if not model.view_members:
        return scores.log_ratios, None
    views = scores.views.astype(np.float32).astype(np.float64)  # single precision is enough for views: half of the log
    views[:, :, 0] = 0.0
    return scores.log_ratios, views


def _read_alike(one: RatioModel, two: RatioModel) -> bool:
    """Return whether a table means the same to both: the code of a word, or the place of a column, may have changed."""
    return one is two or (one.encoder, one.feature_names) == (two.encoder, two.feature_names)
