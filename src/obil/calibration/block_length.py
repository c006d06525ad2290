"""Measure over how many neighbouring rows scores depend on each other."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from obil.arrays import FloatArray, IntArray
from obil.calibration.block_tolerance import lead_of_class

MOST_LAGS = 64
FEWEST_PAIRS = 100  # of rows of one class, so many rows apart
WEAK = 0.1  # correlation of neighbours below which rows count as independent


def block_length(
    log_ratios: FloatArray, labels: IntArray, times: npt.NDArray[Any], folds: IntArray | None = None
) -> int:
    """Return how many rows in the order of time make a block that depends little on the next one: a power of 2.

    The prior may move with time, and then scores are alike because their classes are; and scores of one fold are alike
    because one model gave them, or its block of time differs. So rows are compared with those of the same class and
    fold: the sum of the autocorrelations over lags, up to the first that chance explains, is the length
    of the dependence. Ranks are used, because one extreme score must not decide.

    >>> rng = np.random.default_rng(0)
    >>> scores, labels = rng.normal(size=4_000), rng.integers(0, 2, 4_000)
    >>> block_length(np.stack([0.0 * scores, scores], axis=1), labels, np.arange(4_000))
    1
    >>> rows = np.repeat(np.arange(1_000), 4)  # each comes four times
    >>> block_length(np.stack([0.0 * scores, scores], axis=1)[rows], labels[rows], np.arange(4_000))
    8
    """
    order = np.argsort(times, kind="stable")
    classes, fold = labels[order], np.zeros(len(order), dtype=np.int64) if folds is None else folds[order]
    ranks = np.zeros(len(order))
    for k in range(log_ratios.shape[1]):
        for one in np.unique(fold):
            own = (classes == k) & (fold == one)
            ranks[own] = _ranks(lead_of_class(log_ratios[order[own]], k)) if own.any() else 0.0
    total = 0.0
    for lag in range(1, min(MOST_LAGS, len(order))):
        same = (classes[lag:] == classes[:-lag]) & (fold[lag:] == fold[:-lag])
        n_pairs = int(same.sum())
        if n_pairs < FEWEST_PAIRS:
            break
        correlation = float((ranks[lag:] * ranks[:-lag])[same].mean())
        if correlation < max(3.0 / np.sqrt(n_pairs), WEAK if lag == 1 else 0.0):
            break
        total += correlation
    return int(2 ** min(np.ceil(np.log2(1.0 + 2.0 * total)), np.log2(MOST_LAGS)))


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks with mean 0 and variance 1; 0 where all values are equal."""
    ranks = rankdata(values) - (len(values) + 1) / 2.0
    spread = float(ranks.std())
    return np.asarray(ranks / spread if spread > 0.0 else ranks)
