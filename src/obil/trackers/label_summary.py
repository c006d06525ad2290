"""Summarise what labels have shown about a stream, for reports."""

from typing import NamedTuple

from obil.arrays import FloatArray

RECENT_LABELS = 1_000.0  # labels that the recent count and the recent recalibration remember


class LabelSummary(NamedTuple):
    """What the labels of a stream have shown; "recent" means about the last 1,000 labels."""

    n_labels: int
    label_weight: float  # the weight of labels in a decision, from 0 to 1
    recalibration_weight: float  # of the experts that recalibrate
    slope: float  # of the recent recalibration: 1 where the scores are calibrated
    slope_sd: float
    counts: FloatArray  # (K,) of recent labels, weighted by 1 / propensity up to a factor
    unlabelled_prior: FloatArray  # (K,) the prior by unlabelled scores alone
