"""Estimate the class prior around each row of a labelled past.

It is counted in the rows around, and noisy. In too few of them a constant prior seems to move; in too many a change is
smoothed away. So the rows are as many as predict the labels best, each row's own left out.
"""

import numpy as np

from obil.arrays import FloatArray, IntArray

LONGEST_FIRST, SHORTEST = 2_000, 100  # rows of the narrowest window; 1/20 of all in between
LEAST_GAIN = 3.0  # in log likelihood, for which a narrower window is preferred to a wider one


def local_priors(labels: IntArray, *, n_classes: int, window: int) -> FloatArray:
    """Return the class prior in a window of rows around each row, the row itself left out, (n, K).

    A window as long as the past holds all of it, wherever the row. Leaving the row out keeps its label from
    telling on itself; one more row at the prior of all rows keeps it above 0.

    >>> local_priors(np.array([0, 0, 1, 1]), n_classes=2, window=3)[:, 1]
    array([0.25, 0.5 , 0.5 , 0.75])
    """
    rows = np.arange(len(labels))
    own = np.eye(n_classes)[labels]
    summed = np.concatenate([np.zeros((1, n_classes)), np.cumsum(own, axis=0)])
    half = len(labels) if window >= len(labels) else window // 2
    first, last = np.maximum(rows - half, 0), np.minimum(rows + half + 1, len(labels))
    counts = summed[last] - summed[first] - own + own.mean(axis=0)
    priors: FloatArray = counts / (last - first)[:, None]
    return priors


def best_window(labels: IntArray, *, n_classes: int) -> int:
    """Return how many rows around one predict its label best: 1/20 of all, or two, four, ... times that, or all.

    >>> still, moving = np.tile([0, 0, 0, 1], 500), np.repeat([0, 1, 0, 1], 500)
    >>> best_window(still, n_classes=2), best_window(moving, n_classes=2)
    (2000, 100)
    """
    n_rows = len(labels)
    window = min(LONGEST_FIRST, max(n_rows // 20, SHORTEST))
    windows = []
    while window < n_rows:
        windows.append(window)
        window *= 2
    windows.append(n_rows)
    told = np.array([_log_likelihood(labels, n_classes, window) for window in windows])
    return windows[int(np.flatnonzero(told >= told.max() - LEAST_GAIN)[-1])]


def local_prior_error(priors: FloatArray, *, window: int) -> float:
    """Return the error by chance of priors (n, K) counted in so many rows, as a mean distance.

    >>> round(local_prior_error(np.full((10, 2), 0.5), window=100), 3)  # sqrt(2 / pi) standard errors of .05
    0.04
    """
    spreads = np.sqrt(priors * (1.0 - priors) / window)
    return float(np.sqrt(2.0 / np.pi) * spreads.sum(axis=1).mean() / 2.0)


def _log_likelihood(labels: IntArray, n_classes: int, window: int) -> float:
    priors = local_priors(labels, n_classes=n_classes, window=window)
    return float(np.log(priors[np.arange(len(labels)), labels]).sum())
