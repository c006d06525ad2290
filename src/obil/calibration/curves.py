"""Fit a strictly increasing curve as calibrator: a smooth one, or one of any shape (isotonic)."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from obil.arrays import FloatArray, IntArray
from obil.calibration.linear import ScoreUnit, as_counts, class_prior, fit_linear
from obil.errors import EstimationError
from obil.serving.calibrators import MonotoneCalibrator

POSITIVE_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)  # where the prior is decided: among the positives' scores
SMOOTHNESS_SD = 0.5  # how much the log slope may change from one piece to the next, before data
N_COPIES = 24  # drawn from the curve's uncertainty
N_BOOTSTRAPS = 20  # of the isotonic curve


def fit_spline(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None,
    random_state: int | np.random.Generator | None = None,
) -> MonotoneCalibrator:
    """Return a piecewise linear map of binary scores (n, 2) with positive slopes, by penalised likelihood.

    Its slopes are exp(log slopes), whose mean is near 0 (`slope_sd`, None leaves it free) and whose changes
    are small, so with few rows it is the affine map. Copies drawn from its own uncertainty come with it.
    """
    counts = as_counts(weights)
    own = ScoreUnit.plain(2) if slope_sd is not None else ScoreUnit.of_spread(scores, labels, counts)
    raw, positive = own.measure(scores)[:, 1], labels == 1
    knots = _knots(raw, positive)
    pieces = _pieces(raw, knots)  # (n, m+1): how much of each piece lies below a score
    log_odds = float(np.log(counts[positive].sum() / counts[~positive].sum()))
    affine = fit_linear(scores, labels, weights, slope_sd=slope_sd)
    slope = float(affine.slopes[1]) * own.unit
    at_zero = float(affine.slopes[1] * own.zero[1] + affine.offsets[1])
    start = np.concatenate([[slope * knots[0] + at_zero], np.full(pieces.shape[1], np.log(slope))])
    penalty = _penalty(pieces.shape[1], slope_sd)

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        slopes = np.exp(theta[1:])
        logits = log_odds + theta[0] + pieces @ slopes
        residual = counts * (expit(logits) - positive)
        value = counts @ (np.logaddexp(0.0, logits) - positive * logits) + theta @ penalty @ theta / 2.0
        gradient = np.concatenate([[residual.sum()], (residual @ pieces) * slopes]) + penalty @ theta
        return float(value), gradient

    # rounding may end the search a hair early; what matters is that the likelihood has hardly any slope left
    theta = np.clip(minimize(loss, start, jac=True, method="BFGS", options={"maxiter": 300}).x, -50.0, 50.0)
    if float(np.abs(loss(theta)[1]).max()) > 1e-3 * counts.sum():
        raise EstimationError("the spline calibrator did not converge: use calibration='affine'")
    slopes = np.exp(theta[1:])
    probability = expit(log_odds + theta[0] + pieces @ slopes)
    derivative = np.concatenate([np.ones((len(raw), 1)), pieces * slopes], axis=1)
    information = (derivative * (counts * probability * (1.0 - probability))[:, None]).T @ derivative + penalty
    covariance = np.linalg.inv(information + 1e-9 * np.eye(len(theta)))
    covariance[0, 0] -= 1.0 / counts[positive].sum() + 1.0 / counts[~positive].sum()  # class counts are given
    values, vectors = np.linalg.eigh(covariance)
    spread = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(0 if random_state is None else random_state)
    draws = rng.standard_normal((N_COPIES // 2, len(theta)))
    outer = np.array([min(raw.min(), knots[0] - 1.0), *knots, max(raw.max(), knots[-1] + 1.0)])
    at_outer = _pieces(outer, knots)

    def curve(parameters: FloatArray) -> FloatArray:
        mapped: FloatArray = parameters[0] + at_outer @ np.exp(np.clip(parameters[1:], -10.0, 10.0))
        return mapped

    moved = np.concatenate([draws, -draws]) @ spread.T
    return MonotoneCalibrator(
        knots=own.zero[1] + own.unit * outer,
        values=curve(theta),
        tail_slope=float(np.exp(theta[1:].mean())) / own.unit,
        copies=np.array([curve(theta + move) for move in moved]),
    )


def _knots(raw: FloatArray, positive: npt.NDArray[np.bool_]) -> FloatArray:
    candidates = [np.median(raw[~positive]), *np.quantile(raw[positive], POSITIVE_QUANTILES)]
    knots = np.unique(np.array(candidates))
    apart = 0.02 * max(float(knots[-1] - knots[0]), 1e-6)
    kept = [float(knots[0])]
    for knot in knots[1:]:
        if knot - kept[-1] > apart:
            kept.append(float(knot))
    return np.array(kept)


def _pieces(raw: FloatArray, knots: FloatArray) -> FloatArray:
    """Return how far each score reaches into each piece, (n, m+1); below the first knot it is negative."""
    ends = np.append(knots[1:], np.inf)
    reach = np.clip(raw[:, None] - knots, 0.0, ends - knots)
    return np.concatenate([np.minimum(raw - knots[0], 0.0)[:, None], reach], axis=1)


def _penalty(n_pieces: int, slope_sd: float | None) -> FloatArray:
    """Return the precision of (value at the first knot, log slopes) before data."""
    penalty = np.zeros((n_pieces + 1, n_pieces + 1))
    changes = np.diff(np.eye(n_pieces), axis=0)
    penalty[1:, 1:] = changes.T @ changes / SMOOTHNESS_SD**2
    penalty[1:, 1:] += 1.0 / (n_pieces * (slope_sd or 10.0)) ** 2
    return penalty


def fit_isotonic(
    scores: FloatArray, labels: IntArray, weights: FloatArray, rng: np.random.Generator
) -> MonotoneCalibrator:
    """Return the isotonic calibrator of binary scores (n, 2), with bootstrap copies for its uncertainty."""
    own = ScoreUnit.of_spread(scores, labels, weights)
    measured = own.measure(scores)
    raw = measured[:, 1]
    tail_slope = float(fit_linear(measured, labels, weights, slope_sd=None).slopes[1])
    knots, values = _isotonic_knots(raw, labels, weights)
    copies = []
    for _ in range(N_BOOTSTRAPS):
        chosen = np.concatenate(
            [rng.choice(members, members.size) for members in (np.flatnonzero(labels == k) for k in (0, 1))]
        )
        copy_knots, copy_values = _isotonic_knots(raw[chosen], labels[chosen], weights[chosen])
        copy = MonotoneCalibrator(copy_knots, copy_values, tail_slope, np.empty((0, copy_knots.size)))
        copies.append(copy.apply(np.stack([np.zeros_like(knots), knots], axis=1))[:, 1])
    return MonotoneCalibrator(own.zero[1] + own.unit * knots, values, tail_slope / own.unit, np.array(copies))


def _isotonic_knots(raw: FloatArray, labels: IntArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the centres of the blocks that pooling adjacent violators leaves, and their log ratios.

    Joining the centres by lines makes the steps strictly increasing; half a row of each class is added to
    a block, so that a block of one class has a finite ratio.
    """
    pooled = IsotonicRegression(out_of_bounds="clip").fit_transform(raw, labels == 1, sample_weight=weights)
    prior = class_prior(labels, weights, 2)
    scale = len(raw) / weights.sum()
    _, block = np.unique(pooled, return_inverse=True)
    total = np.bincount(block, weights=weights) * scale
    positive = np.bincount(block, weights=weights * (labels == 1)) * scale
    centres = np.bincount(block, weights=weights * scale * raw) / total
    values = np.log((positive + 0.5) / (total - positive + 0.5)) - np.log(prior[1] / prior[0])
    # the added halves can turn two neighbours round: pool once more, by the size of the block
    values = IsotonicRegression().fit_transform(centres, values, sample_weight=total)
    kept = np.concatenate([[True], np.diff(values) > 1e-9]) & np.concatenate([[True], np.diff(centres) > 0.0])
    return centres[kept], values[kept]
