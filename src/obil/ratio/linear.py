"""Fit slopes and offsets on honest rows, by unweighted likelihood with the prior odds as a fixed offset."""

import numpy as np
from scipy.special import log_softmax

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.model.calibrators import LinearCalibrator

# Scores that are already log odds rarely need more: on a few hundred rows this keeps the slope from being noise.
SLOPE_SD = 0.15
SMALLEST_SLOPE = 1e-3  # a score that ranks backwards is for the gate to refuse, not for a map to turn round


def fit_linear(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    method: str = "affine",
    slope_sd: float | None = SLOPE_SD,
) -> LinearCalibrator:
    """Fit one slope and K-1 offsets (affine), one slope (temperature), or K-1 of each (vector)."""
    n_classes = scores.shape[1]
    weights = as_counts(weights)
    free = n_classes - 1
    n_slopes = free if method == "vector" else 1
    n_offsets = 0 if method == "temperature" else free
    # theta = (slopes, offsets); to_slopes and to_offsets spread it over the classes
    to_slopes = np.zeros((n_classes, n_slopes + n_offsets))
    to_slopes[1:, :n_slopes] = np.eye(free) if method == "vector" else 1.0
    to_offsets = np.zeros((n_classes, n_slopes + n_offsets))
    if n_offsets:
        to_offsets[1:, n_slopes:] = np.eye(free)
    log_shares = np.log(class_shares(labels, weights, n_classes))
    mean = np.concatenate([np.ones(n_slopes), np.zeros(n_offsets)])
    # without a prior on the slope a trace of one remains, so that separable rows do not send it to infinity
    precision = np.concatenate([np.full(n_slopes, 1.0 / (slope_sd or 100.0) ** 2), np.full(n_offsets, 1e-6)])

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        log_posterior = log_softmax(log_shares + scores * (to_slopes @ theta) + to_offsets @ theta, axis=1)
        value = weights @ log_posterior[np.arange(len(labels)), labels]
        return float(value - precision @ (theta - mean) ** 2 / 2.0), np.exp(log_posterior)

    theta = mean.copy()
    value, posterior = objective(theta)
    hessian = np.diag(precision)
    for _ in range(100):
        gradient = -precision * (theta - mean)
        hessian = np.diag(precision)
        residual = -weights[:, None] * posterior  # (n, K)
        residual[np.arange(len(labels)), labels] += weights
        gradient += to_slopes.T @ (residual * scores).sum(axis=0) + to_offsets.T @ residual.sum(axis=0)
        hessian += _curvature(scores, posterior, weights, to_slopes, to_offsets)
        step = np.linalg.solve(hessian, gradient)
        scale, gain = 1.0, -np.inf
        while scale > 1e-8:
            candidate, new_posterior = objective(theta + scale * step)
            gain = candidate - value
            if gain >= 0.0:
                break
            scale /= 2.0
        if gain < 0.0:
            break
        theta, value, posterior = theta + scale * step, candidate, new_posterior
        if float(np.abs(gradient @ step)) < 1e-10 * (1.0 + abs(value)):
            break
    slopes = to_slopes @ theta
    slopes[0] = 1.0
    covariance = np.linalg.inv(hessian)
    if n_offsets:
        # the class counts are what they are: their sampling noise is no part of the ratio's
        per_class = np.bincount(labels, weights=weights, minlength=n_classes)
        covariance[n_slopes:, n_slopes:] -= np.diag(1.0 / per_class[1:]) + 1.0 / per_class[0]
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    deviations = (eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T  # (A, parameters)
    axes = np.stack([deviations @ to_slopes.T, deviations @ to_offsets.T], axis=1)
    return LinearCalibrator(np.maximum(slopes, SMALLEST_SLOPE), to_offsets @ theta, axes)


def as_counts(weights: FloatArray) -> FloatArray:
    """Return weights that add up to the number of rows they are worth.

    Whole-number weights count rows, as in scikit-learn. Others describe a population: only their
    proportions matter, and they are worth (sum w)^2 / sum w^2 rows.

    >>> as_counts(np.array([1.0, 3.0])), as_counts(np.array([0.5, 0.5]))
    (array([1., 3.]), array([1., 1.]))
    """
    if np.array_equal(weights, np.round(weights)):
        return weights
    counts: FloatArray = weights * (weights.sum() / (weights**2).sum())
    return counts


def _curvature(
    scores: FloatArray, posterior: FloatArray, weights: FloatArray, to_slopes: FloatArray, to_offsets: FloatArray
) -> FloatArray:
    """Return the negative second derivative of the log-likelihood in the parameters."""
    n_parameters = to_slopes.shape[1]
    # the derivative of class k's logit is score_k * to_slopes[k] + to_offsets[k]
    mean = (posterior * scores) @ to_slopes + posterior @ to_offsets  # (n, parameters)
    total = np.zeros((n_parameters, n_parameters))
    for k in range(1, scores.shape[1]):
        derivative = scores[:, k : k + 1] * to_slopes[k] + to_offsets[k]
        total += derivative.T @ (derivative * (weights * posterior[:, k])[:, None])
    return total - mean.T @ (mean * weights[:, None])


def class_shares(labels: IntArray, weights: FloatArray, n_classes: int) -> FloatArray:
    """Return the weighted share of each class, (K,); every class needs rows."""
    totals = np.bincount(labels, weights=weights, minlength=n_classes)
    if (totals <= 0.0).any():
        raise InvalidInputError(f"calibration needs rows of every class, got weights {totals.tolist()}")
    shares: FloatArray = totals / totals.sum()
    return shares
