"""Estimate the prior of one class in many segments together, so that those with few rows learn from the others."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import chdtri, expit, logit, ndtri

from obil.arrays import FloatArray
from obil.online.common_level import GRID, MOST_SEGMENTS, NARROWEST, REACH, CommonLevel, common_level
from obil.trackers.evidence import LARGEST_LOGIT, BinaryEvidence, PriorEstimate

FEWEST_POINTS = 8  # of the grid, on which a log-likelihood is within 2 of its largest
LARGEST_CENTRE = 7.0  # of a logit at which a curvature is more than rounding
LOCAL_GRID = np.linspace(-8.0, 8.0, 321)  # in standard errors, for segments of many rows


class OneClass(NamedTuple):
    """The prior of one class in each segment, and what the segments have in common."""

    means: FloatArray  # (S,)
    intervals: FloatArray  # (S, 2) of credible intervals
    alone: list[PriorEstimate | None]  # (S,) from the likelihood of each segment alone; None without rows
    mean: float
    size: float


def learn_one_class(parts: Sequence[BinaryEvidence], *, level: float) -> OneClass:
    """Return the prior of a class, by empirical Bayes.

    The segments' priors are taken for draws of one Beta distribution. How its mean and its spread are distributed,
    given all segments, is found on a grid; each segment's prior follows from its own rows and from that.
    """
    coefficients = _coefficients(parts)
    logs = _log_likelihoods(coefficients, GRID)
    own = [_own(part, row, level) if part.n_rows else None for part, row in zip(parts, logs, strict=True)]
    typical_rows = _typical_rows(sum(parts[1:], parts[0]), [part.n_rows for part in parts])
    narrow = _smooth(logs, own, GRID)
    common, likely = common_level(logs, typical_rows), _likely(own)
    while (points := common.finer_grid(typical_rows, likely)) is not None:
        logs = _log_likelihoods(coefficients, points)
        narrow = _smooth(logs, own, points)
        common = common_level(logs, typical_rows, points, least_size=common.least_size / np.e)
    ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    chunks = [slice(first, first + MOST_SEGMENTS) for first in range(0, len(parts), MOST_SEGMENTS)]
    found = [_on_grid(logs[chunk], common, ends) for chunk in chunks]
    means, intervals = (np.concatenate(columns) for columns in zip(*found, strict=True))
    for i, estimate in narrow.items():
        means[i], intervals[i] = _on_local_grid(parts[i], estimate, common, ends)
    intervals[:, 0], intervals[:, 1] = np.minimum(intervals[:, 0], means), np.maximum(intervals[:, 1], means)
    return OneClass(means, intervals, own, common.mean, common.size)


def binary_estimate(mean: float, low: float, high: float, level: float, n_rows: int) -> PriorEstimate:
    """Return the estimate of both classes, given that of the second."""
    interval = np.array([[1.0 - high, 1.0 - low], [low, high]])
    return PriorEstimate(np.array([1.0 - mean, mean]), interval, level, n_rows)


def logit_of(prior: FloatArray) -> float:
    """Return the logit of the second of two classes, within what evidence tells."""
    return float(np.clip(logit(prior[1]), -LARGEST_LOGIT, LARGEST_LOGIT))


def _typical_rows(total: BinaryEvidence, n_rows: Sequence[int]) -> float:
    """Return what the rows of a segment of median size tell of its prior, as a number of labelled rows."""
    log_likelihood = total.log_likelihood()
    centre = float(np.clip(GRID[np.argmax(log_likelihood(GRID))], -LARGEST_CENTRE, LARGEST_CENTRE))
    spread = float(expit(centre) * expit(-centre))
    per_row = -float(log_likelihood.deriv(2)(centre)) / spread / total.n_rows
    return float(np.clip(per_row, 0.0, 1.0) * np.median(n_rows) + 1.0)


def _coefficients(parts: Sequence[BinaryEvidence]) -> FloatArray:
    """Return the Chebyshev coefficients of each segment's log-likelihood, (S, 161)."""
    return np.asarray(np.stack([part.log_likelihoods for part in parts]) @ BinaryEvidence.coefficients().T)


def _log_likelihoods(coefficients: FloatArray, points: FloatArray) -> FloatArray:
    """Return the log-likelihood of each segment on a grid, (S, G), the largest of each 0."""
    to_grid = chebvander(points / LARGEST_LOGIT, coefficients.shape[1] - 1).T  # (nodes, G)
    chunks = range(0, len(coefficients), MOST_SEGMENTS)
    logs = np.concatenate([coefficients[first : first + MOST_SEGMENTS] @ to_grid for first in chunks])
    logs -= logs.max(axis=1, keepdims=True)
    return logs


def _likely(own: Sequence[PriorEstimate | None]) -> tuple[float, float]:
    """Return the logits that the likelihoods of all segments lie between."""
    if any(found is None for found in own):
        return -np.inf, np.inf
    ranges = [(logit_of(found.prior), REACH * _width(found)) for found in own if found is not None]
    return min(centre - reach for centre, reach in ranges), max(centre + reach for centre, reach in ranges)


def _smooth(logs: FloatArray, own: Sequence[PriorEstimate | None], points: FloatArray) -> dict[int, PriorEstimate]:
    """Widen likelihoods that are too narrow for a grid, as far as the common level is concerned, and return whose."""
    narrow = {i: found for i, found in enumerate(own) if found is not None and _is_narrow(logs[i])}
    least = NARROWEST * (points[1] - points[0])
    for i, found in narrow.items():
        logs[i] = -0.5 * ((points - logit_of(found.prior)) / max(_width(found), least)) ** 2
    return narrow


def _on_grid(logs: FloatArray, common: CommonLevel, ends: list[float]) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of each segment, (S,), and the ends of its interval, (S, 2)."""
    masses, likelihoods = common.masses(), np.exp(logs - logs.max(axis=1, keepdims=True))
    inverse = 1.0 / np.maximum(likelihoods @ masses.T, 1e-300)  # (S, C)
    means = _normalised((common.weights * inverse) @ masses * likelihoods) @ expit(common.points)
    cautious = _normalised((common.cautious_weights * inverse) @ masses * likelihoods)
    return means, np.array([_quantiles(mass, common.points, ends) for mass in cautious])


def _on_local_grid(
    part: BinaryEvidence, own: PriorEstimate, common: CommonLevel, ends: list[float]
) -> tuple[float, FloatArray]:
    """Return what `_on_grid` does for one segment whose likelihood is too narrow for the grid."""
    points = np.clip(logit_of(own.prior) + LOCAL_GRID * _width(own), -LARGEST_LOGIT, LARGEST_LOGIT)
    logs = part.log_likelihood()(points)
    joint = common.log_densities(points) + (logs - logs.max())  # (C, L)
    joint -= joint.max()
    likely = np.exp(joint)
    masses = likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300)
    mean = float(_normalised((common.weights @ masses)[None])[0] @ expit(points))
    return mean, _quantiles(_normalised((common.cautious_weights @ masses)[None])[0], points, ends)


def _quantiles(mass: FloatArray, points: FloatArray, ends: list[float]) -> FloatArray:
    """Return the priors below which these parts of a mass on points lie; half of a point's mass is below it."""
    return np.asarray(expit(np.interp(ends, mass.cumsum() - mass / 2.0, points)))


def _normalised(masses: FloatArray) -> FloatArray:
    normalised: FloatArray = masses / masses.sum(axis=1, keepdims=True)
    return normalised


def _is_narrow(logs: FloatArray) -> bool:
    """Return whether a log-likelihood is too narrow for the grid."""
    return int((logs > -2.0).sum()) < FEWEST_POINTS


def _own(part: BinaryEvidence, logs: FloatArray, level: float) -> PriorEstimate:
    """Return what a segment's own rows say: what `BinaryEvidence.estimate` does, from the grid where that is exact."""
    if _is_narrow(logs) or np.ptp(logs) < 1e-9:
        return part.estimate(level=level)
    peak = int(np.argmax(logs))
    least = -float(chdtri(1.0, 1.0 - level)) / 2.0  # half the chi-square quantile, from its upper tail
    low = np.interp(least, logs[: peak + 1], GRID[: peak + 1])
    high = np.interp(-least, -logs[peak:], GRID[peak:])
    best, lower, upper = expit(np.array([_peak(logs, peak), low, high])).tolist()
    return binary_estimate(best, lower, upper, level, part.n_rows)


def _width(estimate: PriorEstimate) -> float:
    """Return the standard error of the logit that an interval shows."""
    low, high = logit(np.clip(estimate.interval[1], 1e-9, 1.0 - 1e-9)).tolist()
    return float((high - low) / (2.0 * ndtri((1.0 + estimate.level) / 2.0)))


def _peak(logs: FloatArray, place: int) -> float:
    """Return where the parabola through the largest point and its neighbours is largest."""
    if not 0 < place < len(logs) - 1:
        return float(GRID[place])
    before, at, after = logs[place - 1 : place + 2].tolist()
    return float(GRID[place] + (GRID[1] - GRID[0]) * (before - after) / (2.0 * (before - 2.0 * at + after)))
