"""Fit slopes and offsets on held-out rows, by unweighted likelihood with the prior odds as a fixed offset."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import log_softmax, softmax

from obil.arrays import FloatArray, IntArray
from obil.errors import EstimationError, InvalidInputError
from obil.serving.calibrators import LinearCalibrator

# Scores that are already log odds rarely need more: on a few hundred rows this keeps the slope from being noise.
SLOPE_SD = 0.15
# sd of a class's bias, all equally likely before data: from one nobody would notice to that of forgotten class weights
SCALES = tuple(0.05 * 2.0**i for i in range(8))
SMALLEST_SLOPE = 1e-3  # a score that ranks backwards is for the gate to refuse, not for a map to turn round
# Scores that hardly differ within a class are measured by how far apart the classes lie: separable rows do
# not determine how steep the map is, and a unit of almost nothing would make it steep without cause.
LEAST_FRACTION = 0.1
SMALLEST = 1e-100  # scores below it are 0: their inverse would leave the range of numbers
ROUNDING = 1e-9  # a spread below this fraction of the scores themselves is what arithmetic leaves of a constant


def fit_linear(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    method: str = "affine",
    slope_sd: float | None = SLOPE_SD,
    shrink: bool = False,
) -> LinearCalibrator:
    """Fit one slope and K-1 offsets (affine), or one slope (temperature).

    `shrink` draws the offsets of more than two classes towards 0, as far as their own spread says. One offset alone
    has no spread, and scores without a scale (`slope_sd` None) have no zero either: those offsets stay free.
    """
    n_classes = scores.shape[1]
    weights = as_counts(weights)
    log_prior = np.log(class_prior(labels, weights, n_classes))
    if slope_sd is not None:
        own = ScoreUnit.plain(n_classes)
    else:  # without offsets a score of 0 means what it says
        own = ScoreUnit.of_spread(scores, labels, weights, keep_zero=method == "temperature")
    scores = own.measure(scores)
    free = n_classes - 1
    n_slopes = 1
    n_offsets = 0 if method == "temperature" else free
    # theta = (slope, offsets); to_slopes and to_offsets spread it over the classes
    to_slopes = np.zeros((n_classes, n_slopes + n_offsets))
    to_slopes[1:, :n_slopes] = 1.0
    to_offsets = np.zeros((n_classes, n_slopes + n_offsets))
    if n_offsets:
        to_offsets[1:, n_slopes:] = np.eye(free)
    likelihood = _Likelihood(scores, labels, weights, log_prior, to_slopes, to_offsets)
    mean = np.concatenate([np.ones(n_slopes), np.zeros(n_offsets)])
    # without a prior on the slope a trace of one remains, so that separable rows do not send it to infinity
    precision = np.concatenate([np.full(n_slopes, 1.0 / (slope_sd or 100.0) ** 2), np.full(n_offsets, 1e-6)])
    theta, hessian = likelihood.maximise(mean, precision)
    if (theta[:n_slopes] < SMALLEST_SLOPE).any():  # hold the slope there, and let the offset answer to that
        mean[:n_slopes] = np.maximum(theta[:n_slopes], SMALLEST_SLOPE)
        precision[:n_slopes] = 1e12
        theta, hessian = likelihood.maximise(mean, precision)
    covariance = np.linalg.inv(hessian).astype(np.float64, copy=False)
    if n_offsets:
        # the class counts are what they are: their sampling noise is no part of the ratio's
        per_class = np.bincount(labels, weights=weights, minlength=n_classes)
        covariance[n_slopes:, n_slopes:] -= np.diag(1.0 / per_class[1:]) + 1.0 / per_class[0]
    if shrink and n_offsets > 1 and slope_sd is not None:
        theta, covariance = shrink_offsets(theta, covariance, n_offsets)
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    deviations = (eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T  # (A, parameters)
    # back in the scores' own unit: slope * (score - zero) / unit + offset
    slopes = np.maximum(to_slopes @ theta, SMALLEST_SLOPE) / own.unit
    slopes[0] = 1.0
    slope_axes = deviations @ to_slopes.T / own.unit
    axes = np.stack([slope_axes, deviations @ to_offsets.T - slope_axes * own.zero], axis=1)
    return LinearCalibrator(slopes, to_offsets @ theta - slopes * own.zero, axes)


@dataclass(frozen=True, slots=True, eq=False)
class _Likelihood:
    """The likelihood of labels given scores, linear in its parameters (slopes, offsets)."""

    scores: FloatArray  # (n, K)
    labels: IntArray  # (n,)
    weights: FloatArray  # (n,) counts
    log_prior: FloatArray  # (K,)
    to_slopes: FloatArray  # (K, parameters)
    to_offsets: FloatArray  # (K, parameters)

    def maximise(self, mean: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters and the curvature at the maximum, under a normal prior, by Newton's method."""
        theta = mean.copy()
        rows = np.arange(len(self.labels))

        def objective(at: FloatArray) -> tuple[float, FloatArray]:
            logits = self.log_prior + self.scores * (self.to_slopes @ at) + self.to_offsets @ at
            log_posterior = log_softmax(logits, axis=1)
            value = self.weights @ log_posterior[rows, self.labels] - precision @ (at - mean) ** 2 / 2.0
            return float(value), np.exp(log_posterior)

        value, posterior = objective(theta)
        for _ in range(200):
            residual = -self.weights[:, None] * posterior  # (n, K)
            residual[rows, self.labels] += self.weights
            gradient = self.to_slopes.T @ (residual * self.scores).sum(axis=0) + self.to_offsets.T @ residual.sum(
                axis=0
            )
            gradient -= precision * (theta - mean)
            hessian = np.diag(precision) + self._curvature(posterior)
            step = np.linalg.solve(hessian, gradient)
            if float(gradient @ step) < 1e-10 * (1.0 + abs(value)):
                return theta, hessian
            fraction = 1.0
            candidate, new_posterior = objective(theta + step)
            while candidate < value and fraction > 1e-12:
                fraction /= 2.0
                candidate, new_posterior = objective(theta + fraction * step)
            if candidate < value:
                break
            theta, value, posterior = theta + fraction * step, candidate, new_posterior
        raise EstimationError("the calibrator did not converge: are these scores of the rows' own labels?")

    def _curvature(self, posterior: FloatArray) -> FloatArray:
        """Return the negative second derivative of the log-likelihood in the parameters."""
        # the derivative of class k's logit is score_k * to_slopes[k] + to_offsets[k]
        mean = (posterior * self.scores) @ self.to_slopes + posterior @ self.to_offsets  # (n, parameters)
        total = -mean.T @ (mean * self.weights[:, None])
        for k in range(1, self.scores.shape[1]):
            derivative = self.scores[:, k : k + 1] * self.to_slopes[k] + self.to_offsets[k]
            total += derivative.T @ (derivative * (self.weights * posterior[:, k])[:, None])
        return total


def as_counts(weights: FloatArray) -> FloatArray:
    """Return weights that add up to the number of rows they are worth; only their ratios count.

    Multiples of the smallest weight are repeated rows, as in scikit-learn. Others describe a population, and are
    worth (sum w)^2 / sum w^2 rows.

    >>> as_counts(np.array([2.5, 7.5])), as_counts(np.array([1.0, 1.5]))
    (array([1., 3.]), array([0.76923077, 1.15384615]))
    """
    multiples = weights / weights[weights > 0.0].min()
    whole: FloatArray = np.round(multiples)
    if np.allclose(multiples, whole, rtol=1e-9, atol=0.0):
        return whole
    counts: FloatArray = weights * (weights.sum() / (weights**2).sum())
    return counts


def class_prior(labels: IntArray, weights: FloatArray, n_classes: int) -> FloatArray:
    """Return the weighted prior of the classes, (K,); every class needs rows."""
    totals = np.bincount(labels, weights=weights, minlength=n_classes)
    if (totals <= 0.0).any():
        raise InvalidInputError(
            f"every class needs rows of positive weight, got total weights {totals.tolist()}: "
            "less than two classes, only one class, is left"
        )
    prior: FloatArray = totals / totals.sum()
    return prior


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


@dataclass(frozen=True, slots=True, eq=False)
class ScoreUnit:
    """A zero and a unit: scores are `zero + unit * measured`."""

    zero: FloatArray  # (K,)
    unit: float

    @classmethod
    def plain(cls, n_classes: int) -> Self:
        """Return the unit of scores that are log odds already."""
        return cls(np.zeros(n_classes), 1.0)

    @classmethod
    def of_spread(cls, scores: FloatArray, labels: IntArray, counts: FloatArray, *, keep_zero: bool = False) -> Self:
        """Return the mean of scores (n, K), and their standard deviation within a class; `keep_zero` leaves 0 as is.

        >>> scores, labels = np.array([[0.0, 2.0], [0.0, 4.0], [0.0, 6.0], [0.0, 8.0]]), np.array([0, 0, 1, 1])
        >>> own = ScoreUnit.of_spread(scores, labels, np.ones(4))
        >>> own.zero.tolist(), own.unit
        ([0.0, 5.0], 1.0)
        """
        counted = counts > 0.0  # a row of weight 0 is ignored
        scores, labels, counts = scores[counted], labels[counted], counts[counted]
        largest = float(np.abs(scores).max())
        if largest < SMALLEST:
            largest = 1.0
        small = scores / largest  # squares of very large or small scores leave the range of numbers
        zero = np.zeros(scores.shape[1]) if keep_zero else counts @ small / counts.sum()
        apart = float(np.abs(small - zero).max())
        unit = max(_within_classes(small, labels, counts), LEAST_FRACTION * apart) if apart > ROUNDING else 1.0
        return cls(largest * zero, largest * unit)

    def measure(self, scores: FloatArray) -> FloatArray:
        """Return scores in this unit."""
        measured: FloatArray = (scores - self.zero) / self.unit
        return measured


def _within_classes(scores: FloatArray, labels: IntArray, counts: FloatArray) -> float:
    """Return the standard deviation of scores within a class, over all classes."""
    centred = scores[:, 1:].copy()
    for k in np.unique(labels):
        own = labels == k
        centred[own] -= counts[own] @ centred[own] / counts[own].sum()
    return float(np.sqrt((counts @ centred**2).mean() / counts.sum()))
