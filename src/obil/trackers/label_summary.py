"""Summarise what labels have shown about a stream: their weight, and the credible interval of the prior with them."""

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from obil.arrays import FloatArray
from obil.trackers.label_experts import FAST, LABEL_MEMORIES, N_EXPERTS, N_PRIORS, START_LABELS

LEAST_BANK_WEIGHT = 0.05  # that banks which are contradicted need to be included
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


def weight_of_labels(weights: FloatArray, counts: FloatArray) -> float:
    """Return the weight of labels in a mixture of experts, from 0 to 1.

    An expert that learns from labels starts as the guarded prior: of its weight (M,) only the part counts that it has
    learned, n / (n + 20) where its memory holds n labels; counts (n, K).

    >>> round(weight_of_labels(np.full(9, 1 / 9), np.array([[1.0, 0.0]] * 3)), 3)  # 6/9 of 1/21
    0.032
    """
    numbers = counts.sum(axis=1)
    learned = numbers / (numbers + START_LABELS)
    by_memory = weights[FAST + 1 : N_PRIORS] + weights[N_PRIORS:N_EXPERTS]
    with_inputs = weights[N_EXPERTS:].sum() * learned[LABEL_MEMORIES.index(RECENT_LABELS)]
    return float(np.clip(by_memory @ learned + with_inputs, 0.0, 1.0))


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


def counted_interval(counts: FloatArray, guarded: FloatArray, level: float) -> FloatArray:
    """Return the credible interval of each class's prior, (K, 2), by label counts that start from the guarded prior.

    Labels weighted by 1 / propensity, the heaviest as 1, are at least as informative as so many plain ones.

    >>> counted_interval(np.array([72.0, 8.0]), np.array([0.9, 0.1]), level=0.9)[1].round(3)
    array([0.056, 0.153])
    """
    own = counts + START_LABELS * guarded
    rest = np.maximum(own.sum() - own, 1e-9)
    tail = (1.0 - level) / 2.0
    return np.stack([betaincinv(own, rest, tail), betaincinv(own, rest, 1.0 - tail)], axis=1)


def labelled_interval(banks: FloatArray, fast: FloatArray, counted: FloatArray, *, bank_weight: float) -> FloatArray:
    """Return the credible interval of each class, (K, 2), from those of all banks, the fast bank and label counts.

    Labels that agree with the fast bank confirm it, and the slow bank is no longer included. Labels that contradict the
    banks are included as well, as nothing here shows which is wrong.

    `counted` is (n, K, 2), the shortest memory first: a longer one counts only while all before it agree.
    `bank_weight` is the weight that labels have left to the banks.

    >>> banks, fast = np.array([[0.1, 0.4]]), np.array([[0.3, 0.4]])
    >>> labelled_interval(banks, fast, np.array([[[0.25, 0.35]]]), bank_weight=0.5)  # they agree with the fast bank
    array([[0.25, 0.4 ]])
    >>> labelled_interval(banks, fast, np.array([[[0.5, 0.7]]]), bank_weight=0.5)  # with none
    array([[0.1, 0.7]])
    """
    recent = counted[0]
    apart = _reach(banks, recent) if bank_weight >= LEAST_BANK_WEIGHT else recent
    known = np.where(_overlap(banks, recent)[:, None], banks, apart)
    agrees = np.ones(len(known), dtype=bool)
    for one in counted:
        agrees &= _overlap(fast, one)
        both = _reach(fast, one)
        narrower = both[:, 1] - both[:, 0] < known[:, 1] - known[:, 0]
        known = np.where((agrees & narrower)[:, None], both, known)
    return known


def _overlap(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(left[:, 0], right[:, 0]) <= np.minimum(left[:, 1], right[:, 1]))


def _reach(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.stack([np.minimum(left[:, 0], right[:, 0]), np.maximum(left[:, 1], right[:, 1])], axis=1)
