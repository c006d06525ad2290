"""Say how sure the prior is when banks and labels both speak of it.

Labels that agree with the fast bank vouch for it: the slow one need not be reached for any more. Labels that contradict
the banks are reached for as well, as nothing here tells who is wrong. A label that says nothing new changes nothing.
"""

import numpy as np
from scipy.special import betaincinv

from obil.arrays import FloatArray
from obil.trackers.label_experts import START_LABELS

HEARD = 0.05  # least share of the say that banks which are contradicted need


def counted_interval(counts: FloatArray, guarded: FloatArray, level: float) -> FloatArray:
    """Return the interval of each class's share, (K, 2), by counts of labels that start from the guarded prior.

    Labels weighted by 1 / propensity, the heaviest as 1, know at least what so many plain ones do.

    >>> counted_interval(np.array([72.0, 8.0]), np.array([0.9, 0.1]), level=0.9)[1].round(3)
    array([0.056, 0.153])
    """
    own = counts + START_LABELS * guarded
    rest = np.maximum(own.sum() - own, 1e-9)
    tail = (1.0 - level) / 2.0
    return np.stack([betaincinv(own, rest, tail), betaincinv(own, rest, 1.0 - tail)], axis=1)


def labelled_interval(banks: FloatArray, fast: FloatArray, counted: FloatArray, *, bank_weight: float) -> FloatArray:
    """Return the interval of each class, (K, 2), by that of all banks, of the fast one and of counts of labels.

    `counted` is (n, K, 2), the shortest memory first: a longer one speaks only while none before it objected.
    `bank_weight` is the weight that labels have left to the banks.

    >>> banks, fast = np.array([[0.1, 0.4]]), np.array([[0.3, 0.4]])
    >>> labelled_interval(banks, fast, np.array([[[0.25, 0.35]]]), bank_weight=0.5)  # they agree with the fast bank
    array([[0.25, 0.4 ]])
    >>> labelled_interval(banks, fast, np.array([[[0.5, 0.7]]]), bank_weight=0.5)  # with none
    array([[0.1, 0.7]])
    """
    recent = counted[0]
    apart = _reach(banks, recent) if bank_weight >= HEARD else recent
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
