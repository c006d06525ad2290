"""Estimate how the mean of the folds scores new rows, from scores that single folds gave to rows they had not seen.

No row of the training set is new to every fold. But a few rows are left out by two folds, and how far their two scores
differ tells how much a fold's score varies around the mean of many such models.
"""

import numpy as np

from obil.arrays import FloatArray, IntArray

FEWEST_PAIRS = 8
PAIRS_PER_LEVEL = 25
MOST_LEVELS = 12
LEAST_WIDTH = 0.25  # of the kernel, in standard deviations of a class
MOST_POINTS = 400  # of a class that its density is estimated by
LARGEST_MOVE = 0.5  # in standard deviations of a class


def scores_of_mean(
    scores: FloatArray, labels: IntArray, weights: FloatArray, pairs: FloatArray, n_folds: int
) -> FloatArray:
    """Return what the mean of the folds would have scored, (n, 2), where single folds gave out-of-fold `scores`.

    `pairs` (m, 2) are two folds' scores of the same unseen rows. A fold's score is the mean's plus noise of a variance
    v that depends on the score; averaging F folds leaves v / F of it. Taking noise out of a distribution moves every
    point up the slope of its log density f, here of the row's class: by half of (1 - 1/F) (v f'/f + v'), to first
    order. (Without noise left in, it is the reverse of diffusion: the heat equation's probability flow.)

    More than two classes, and fewer than 8 pairs, are left as they are.
    """
    if scores.shape[1] != 2 or len(pairs) < FEWEST_PAIRS or n_folds == 1:
        return scores
    levels, variances = _variance_by_level(pairs)
    moved = scores.copy()
    for k in range(2):
        own = np.flatnonzero((labels == k) & (weights > 0.0))
        points = scores[own, 1]
        spread = float(points.std())
        if len(own) < 2 or spread < 1e-9:
            continue
        variance = np.interp(points, levels, variances)
        step = 0.25 * spread
        steepness = (np.interp(points + step, levels, variances) - np.interp(points - step, levels, variances)) / (
            2.0 * step
        )
        move = 0.5 * (1.0 - 1.0 / n_folds) * (variance * _log_density_slope(points, spread) + steepness)
        moved[own, 1] += np.clip(move, -LARGEST_MOVE * spread, LARGEST_MOVE * spread)
    return moved


def _variance_by_level(pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return levels of the score, increasing, and the variance of a fold's score at each."""
    middle, squares = pairs.mean(axis=1), (pairs[:, 0] - pairs[:, 1]) ** 2 / 2.0
    order = np.argsort(middle, kind="stable")
    n_levels = int(np.clip(len(pairs) // PAIRS_PER_LEVEL, 1, MOST_LEVELS))
    parts = np.array_split(order, n_levels)
    return np.array([middle[part].mean() for part in parts]), np.array([squares[part].mean() for part in parts])


def _log_density_slope(points: FloatArray, spread: float) -> FloatArray:
    """Return the derivative of the log density of these points at each of them, by a Gaussian kernel, (n,)."""
    width = spread * max(LEAST_WIDTH, 1.06 * len(points) ** -0.2)
    centres = points
    if len(points) > MOST_POINTS:
        centres = np.quantile(points, (np.arange(MOST_POINTS) + 0.5) / MOST_POINTS)
    slopes = np.empty(len(points))
    for start in range(0, len(points), 10_000):
        apart = (points[start : start + 10_000, None] - centres) / width
        # a point far from all centres has at least the nearest of them
        kernel = np.exp((np.min(apart**2, axis=1, keepdims=True) - apart**2) / 2.0)
        slopes[start : start + 10_000] = -(kernel * apart).sum(axis=1) / (kernel.sum(axis=1) * width)
    # the kernel widens the density by its own variance, which makes it flatter
    slopes *= 1.0 + (width / spread) ** 2
    return slopes
