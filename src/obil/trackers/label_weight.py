"""Say how much of a mixture of experts is owed to labels."""

import numpy as np

from obil.arrays import FloatArray
from obil.trackers.label_experts import COUNT_MEMORIES, FAST, START_LABELS


def weight_of_labels(
    weights: FloatArray, counts: FloatArray, precisions: FloatArray, start_precision: FloatArray
) -> float:
    """Return the share of the say that labels have, from 0 to 1.

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
    say = weights[FAST + 1 : n_priors] @ counted + weights[n_priors:] @ recalibrated
    return float(np.clip(say, 0.0, 1.0))


def label_weight_text(say: float) -> str:
    """Return in words how far labels decide.

    >>> label_weight_text(0.62)
    'labels decide, with 62 % of the say'
    >>> label_weight_text(0.02)
    'labels have 2 % of the say, the start prior and the banks the rest'
    """
    share = f"{100.0 * say:.0f} %" if say >= 0.01 else "less than 1 %"
    if say > 0.5:
        return f"labels decide, with {share} of the say"
    return f"labels have {share} of the say, the start prior and the banks the rest"
