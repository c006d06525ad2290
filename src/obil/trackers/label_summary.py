"""Summarise what labels have shown about a stream, for reports."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray
from obil.trackers.label_experts import COUNT_MEMORIES, FAST, START_LABELS

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


def weight_of_labels(
    weights: FloatArray, counts: FloatArray, precisions: FloatArray, start_precision: FloatArray
) -> float:
    """Return the weight of labels in a mixture of experts, from 0 to 1.

    An expert that learns from labels starts as the guarded prior: of its weight (M,) only the part counts that it has
    learned, n / (n + 20) of a count (n, K) of n labels, and of a recalibration the part of its offsets' variance that
    labels have taken away; precisions (n, K, K).

    >>> one, none = np.array([[1.0, 0.0]] * 3), np.tile(np.eye(2), (2, 1, 1))
    >>> round(weight_of_labels(np.full(8, 1 / 8), one, none, np.eye(2)), 3)  # 3/8 of 1/21
    0.018
    """
    numbers = counts.sum(axis=1)
    counted = numbers / (numbers + START_LABELS)
    at_first = np.diag(np.linalg.inv(start_precision))[1:]
    left = np.array([np.diag(np.linalg.inv(precision))[1:] for precision in precisions])
    recalibrated = 1.0 - (left / at_first).mean(axis=1)
    n_priors = FAST + 1 + len(COUNT_MEMORIES)
    found = weights[FAST + 1 : n_priors] @ counted + weights[n_priors:] @ recalibrated
    return float(np.clip(found, 0.0, 1.0))


def label_weight_text(label_weight: float) -> str:
    """Return a sentence on how far labels decide.

    >>> label_weight_text(0.62)
    'labels decide: their weight is 62 %'
    >>> label_weight_text(0.02)
    'the start prior and the banks decide: the weight of labels is 2 %'
    """
    percent = f"{100.0 * label_weight:.0f} %" if label_weight >= 0.01 else "less than 1 %"
    if label_weight > 0.5:
        return f"labels decide: their weight is {percent}"
    return f"the start prior and the banks decide: the weight of labels is {percent}"
