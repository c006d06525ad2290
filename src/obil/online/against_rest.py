"""Integrate the composition of the other classes out of a likelihood, so that one class is left against the rest."""

import numpy as np
from numpy.polynomial.chebyshev import chebpts1
from scipy.special import expit

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.trackers.evidence import LARGEST_LOGIT, N_NODES, BinaryEvidence

PRIORS = expit(LARGEST_LOGIT * chebpts1(N_NODES))  # of the class, where `BinaryEvidence` has its nodes
MOST_STEPS = 60  # of Newton's method; neighbouring points of the grid need one or two
SMALL_GAIN = 1e-6  # of the log-likelihood, in one step
LEAST_KEPT = 0.1  # of a part of the composition, in one step
SMALLEST = 1e-300


def against_rest(
    likelihoods: FloatArray, weights: FloatArray, n_rows: int, positive: int, pseudo_counts: FloatArray
) -> BinaryEvidence:
    """Return what weighted rows of likelihoods by class, (m, K), tell of the prior of one class, up to a constant.

    The composition of the other classes is distributed by a Dirichlet distribution with `pseudo_counts`, (K,). If all
    the classes' priors are so distributed, it is independent of the prior of the one class. The integral over it is
    Laplace's, in the logarithms of the parts; with two classes there is nothing to integrate.
    """
    rest = np.delete(np.arange(likelihoods.shape[1]), positive)
    others, alpha = np.ascontiguousarray(likelihoods[:, rest]), pseudo_counts[rest]
    found = np.empty(N_NODES)
    _fill(np.ascontiguousarray(likelihoods[:, positive]), others, weights, alpha, PRIORS, found)
    return BinaryEvidence(n_rows, found)


@compiled
def _fill(
    positive: FloatArray,
    others: FloatArray,
    weights: FloatArray,
    alpha: FloatArray,
    priors: FloatArray,
    found: FloatArray,
) -> None:
    """Walk from the middle of the grid to both ends: the best composition is near that of the point before."""
    middle = priors.size // 2
    start = alpha / alpha.sum()
    found[middle] = _integrated(positive, others, weights, alpha, priors[middle], start)
    parts = start.copy()
    for g in range(middle + 1, priors.size):
        found[g] = _integrated(positive, others, weights, alpha, priors[g], parts)
    parts[:] = start
    for g in range(middle - 1, -1, -1):
        found[g] = _integrated(positive, others, weights, alpha, priors[g], parts)


@compiled
def _integrated(
    positive: FloatArray, others: FloatArray, weights: FloatArray, alpha: FloatArray, prior: float, parts: FloatArray
) -> float:
    """Return the integrated log-likelihood at one prior; `parts` becomes the best composition, (K - 1,)."""
    n_parts = parts.size
    slope, upward, across = np.empty(n_parts), np.empty(n_parts), np.empty(n_parts)
    bend = np.empty((n_parts, n_parts))
    value = 0.0
    for number in range(MOST_STEPS):
        value = 0.0
        for j in range(n_parts):
            value += alpha[j] * np.log(parts[j])
            slope[j] = alpha[j] / parts[j]
            for i in range(j + 1):
                bend[j, i] = slope[j] / parts[j] if i == j else 0.0
        for b in range(weights.size):
            rest = 0.0
            for j in range(n_parts):
                rest += parts[j] * others[b, j]
            likelihood = prior * positive[b] + (1.0 - prior) * rest + SMALLEST
            value += weights[b] * np.log(likelihood)
            if n_parts > 1:
                scale = (1.0 - prior) / likelihood
                for j in range(n_parts):
                    gain = scale * others[b, j]
                    slope[j] += weights[b] * gain
                    for i in range(j + 1):
                        bend[j, i] += weights[b] * gain * scale * others[b, i]
        if n_parts == 1:
            return value
        log_determinant = _solve(bend, slope, upward, across)
        level = upward.sum() / across.sum()
        upward -= level * across  # the parts sum to 1
        gain = slope @ upward
        # what Laplace's integral adds: the curvature along the simplex, in the logarithms of the parts
        volume = -0.5 * (log_determinant + np.log(across.sum())) - np.log(parts).sum()
        if gain < SMALL_GAIN or number == MOST_STEPS - 1:
            return float(value + gain / 2.0 + volume)  # the last step need not be gone
        step = 1.0 if gain < 0.5 else 1.0 / (1.0 + np.sqrt(gain))
        for j in range(n_parts):
            if upward[j] < 0.0:
                step = min(step, (LEAST_KEPT - 1.0) * parts[j] / upward[j])
        parts += step * upward
    return value


@compiled
def _solve(matrix: FloatArray, slope: FloatArray, first: FloatArray, second: FloatArray) -> float:
    """Solve for the slope and for ones by Cholesky, in place, and return the logarithm of the determinant."""
    size = slope.size
    log_determinant = 0.0
    for j in range(size):
        for i in range(j + 1):
            total = matrix[j, i]
            for h in range(i):
                total -= matrix[j, h] * matrix[i, h]
            if i == j:
                matrix[j, j] = np.sqrt(max(total, SMALLEST))
                log_determinant += 2.0 * np.log(matrix[j, j])
            else:
                matrix[j, i] = total / matrix[i, i]
    for j in range(size):
        left, right = slope[j], 1.0
        for i in range(j):
            left -= matrix[j, i] * first[i]
            right -= matrix[j, i] * second[i]
        first[j], second[j] = left / matrix[j, j], right / matrix[j, j]
    for j in range(size - 1, -1, -1):
        for i in range(j + 1, size):
            first[j] -= matrix[i, j] * first[i]
            second[j] -= matrix[i, j] * second[i]
        first[j] /= matrix[j, j]
        second[j] /= matrix[j, j]
    return log_determinant
