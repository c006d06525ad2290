"""Start the search for a prior where the mean soft vote says, so that a few passes are enough."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel
from obil.trackers.confusion import confusion_of_predictions, inverse_of_confusion

LEAST_START = 1e-3  # soft votes may say that a class is absent; the likelihood is to find that out


def start_from_posteriors(model: RatioModel, mean_posteriors: npt.ArrayLike) -> FloatArray:
    """Return where to start: the mean soft vote at the training prior, unmixed by the held-out rows' (soft BBSE)."""
    votes = np.asarray(mean_posteriors, dtype=np.float64)
    holdout = model.holdout_
    try:
        confusion = confusion_of_predictions(holdout.log_ratios, holdout.labels, prior=model.prior_, soft=True)
        votes = inverse_of_confusion(confusion, n_classes=votes.size) @ votes
    except InvalidInputError:  # votes that do not tell the classes apart: the passes start from them as they are
        pass
    inside = np.maximum(votes, LEAST_START)
    return np.asarray(inside / inside.sum())
