"""Shrink the offsets of many classes towards none, as far as their own spread says."""

import numpy as np
from scipy.special import softmax

from obil.arrays import FloatArray

# sd of a class's bias, all equally likely before data: from one nobody would notice to that of forgotten class weights
SCALES = tuple(0.05 * 2.0**i for i in range(8))


def shrink_offsets(theta: FloatArray, covariance: FloatArray, n_offsets: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean and covariance of parameters whose last `n_offsets` belong to classes biased alike.

    `theta` is an estimate without a prior on them, and `covariance` its uncertainty. Class k's bias is normal around
    0 with one unknown scale, and its offset is the difference from class 0's, so that it does not matter which class
    comes first. The scale is averaged over by its evidence: offsets no larger than their errors go to 0, and so does
    part of their variance; offsets that are larger stay.

    >>> errors = 0.3**2 * np.eye(3)
    >>> shrink_offsets(np.array([0.2, -0.1, 0.1]), errors, 3)[0].round(1) + 0.0  # no larger than their errors
    array([0., 0., 0.])
    >>> shrink_offsets(np.array([20.0, -10.0, 30.0]), errors, 3)[0].round(1)  # far larger
    array([ 20., -10.,  30.])
    """
    offsets, of_offsets = theta[-n_offsets:], covariance[-n_offsets:]  # (n_offsets,), (n_offsets, parameters)
    means, covariances, log_evidences = [], [], []
    for scale in SCALES:
        total = of_offsets[:, -n_offsets:] + scale**2 * (np.eye(n_offsets) + 1.0)
        gain = np.linalg.solve(total, of_offsets).T  # (parameters, n_offsets)
        means.append(theta - gain @ offsets)
        covariances.append(covariance - gain @ of_offsets)
        log_evidences.append(-0.5 * (offsets @ np.linalg.solve(total, offsets) + np.linalg.slogdet(total)[1]))
    weights = softmax(log_evidences)
    mean: FloatArray = weights @ np.array(means)
    away = np.array(means) - mean
    shrunk: FloatArray = np.tensordot(weights, covariances, axes=1) + away.T @ (weights[:, None] * away)
    return mean, shrunk
