"""Find where the priors of segments lie: how probable each Beta distribution of them is, given all their rows."""

from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaln, expit, log_expit

from obil.arrays import FloatArray
from obil.trackers.evidence import LARGEST_LOGIT

GRID = np.linspace(-LARGEST_LOGIT, LARGEST_LOGIT, 1_121)  # logits of a segment's prior
FIRST_MEANS, STEPS = 57, 13  # of the mean, in the first round and in later ones
SIZE_STEPS = 25
ROUNDS = 6  # of a grid over both: each has a finer mean, the last a finer size, as a coarse mean looks like a spread
LARGEST_SIZE = 1e6  # labelled rows that the mean counts for, on the first grid
NARROWEST = 0.8  # standard deviation of the logit in steps of the grid: a narrower distribution falls between points
REACH = 9.0  # standard deviations to either side of a distribution that a finer grid has to hold
LEAST_WEIGHT = 1e-5  # of a point of the grid, relative to the best
MOST_SEGMENTS = 5_000  # at a time
SMALLEST = 1e-300


class CommonLevel(NamedTuple):
    """Beta distributions of the segments' priors, and how probable each is."""

    points: FloatArray  # (G,) the grid they were found on
    a: FloatArray  # (C,)
    b: FloatArray  # (C,)
    weights: FloatArray  # (C,) for estimates
    cautious_weights: FloatArray  # (C,) for intervals: they allow for segments that differ more

    @property
    def mean(self) -> float:
        """The mean of the segments' priors."""
        return float(self.weights @ (self.a / (self.a + self.b)))

    @property
    def size(self) -> float:
        """How many labelled rows of its own a segment needs to count as much as all the others."""
        return float(np.exp(self.weights @ np.log(self.a + self.b)))

    @property
    def least_size(self) -> float:
        """The smallest of the sizes."""
        return float((self.a + self.b).min())

    def finer_grid(self, typical_rows: float, likely: tuple[float, float]) -> FloatArray | None:
        """Return a grid for segments that are as near to each other as steps of this one, (G,); None where none are.

        It holds all distributions, or all likelihoods: `likely` are the logits that they lie between.
        """
        size, means = self.a + self.b, np.log(self.a / self.b)
        information, finest = self.a * self.b / size, largest_information(self.points)
        if information.max() < finest / 10.0 or typical_rows * np.median(information / size) < finest / 25.0:
            return None
        reach = REACH / np.sqrt(information.min())
        low, high = min((float(means.min() - reach), float(means.max() + reach)), likely, key=np.ptp)
        low, high = max(low, -LARGEST_LOGIT), min(high, LARGEST_LOGIT)
        return np.linspace(low, high, len(self.points)) if high - low < np.ptp(self.points) / 2.0 else None

    def masses(self) -> FloatArray:
        """Return the mass of each distribution on the points of the grid, (C, G)."""
        return _masses(self.a, self.b, self.points)

    def log_densities(self, logits: FloatArray) -> FloatArray:
        """Return the log density of each distribution at these logits of a prior, (C, L)."""
        return _log_densities(self.a, self.b, logits)


def common_level(
    logs: FloatArray, typical_rows: float, points: FloatArray = GRID, *, least_size: float = 1.0
) -> CommonLevel:
    """Return how the priors of segments with these log-likelihoods on a grid, (S, G), are distributed.

    `typical_rows` is what a typical segment's rows tell of its prior, as a number of labelled rows.
    """
    most = largest_information(points)
    smallest, largest = np.log(least_size), np.log(LARGEST_SIZE * most / largest_information(GRID))
    means, sizes = np.linspace(points[0], points[-1], FIRST_MEANS), np.linspace(smallest, largest, SIZE_STEPS)
    for left in reversed(range(ROUNDS)):
        mean, size = (axis.ravel() for axis in np.meshgrid(means, np.exp(sizes), indexing="ij"))
        spread = expit(mean) * expit(-mean)
        size = np.minimum(size, np.maximum(most / spread, 1.0))
        a, b = expit(mean) * size, expit(-mean) * size
        evidence = _log_evidence(logs, a, b, points) + np.log(spread)  # flat in the mean
        weights = [_normalised(evidence + prior) for prior in _size_priors(size, typical_rows)]
        both = np.maximum(*weights).reshape(len(means), len(sizes))
        if left:
            means = _around(means, both.max(axis=1), STEPS)
        if left == 1:
            sizes = np.clip(_around(sizes, both.max(axis=0), SIZE_STEPS), smallest, largest)
    heaviest = np.maximum(*weights)
    used = heaviest > LEAST_WEIGHT * heaviest.max()
    plain, cautious = (own[used] / own[used].sum() for own in weights)
    return CommonLevel(points, a[used], b[used], plain, cautious)


def largest_information(points: FloatArray) -> float:
    """Return the largest information about the logit of distributions that a grid shows."""
    return float((NARROWEST * (points[1] - points[0])) ** -2)


def _log_densities(a: FloatArray, b: FloatArray, logits: FloatArray) -> FloatArray:
    """Return the log densities of the logit of Beta variables, (C, L)."""
    logs: FloatArray = a[:, None] * log_expit(logits) + b[:, None] * log_expit(-logits) - betaln(a, b)[:, None]
    return logs


def _masses(a: FloatArray, b: FloatArray, points: FloatArray) -> FloatArray:
    """Return the masses of Beta distributions on a grid, (C, G): its ends have what lies beyond."""
    masses: FloatArray = np.exp(_log_densities(a, b, points)) * (points[1] - points[0])
    masses[:, 0] += betainc(a, b, expit(points[0]))
    masses[:, -1] += betainc(b, a, expit(-points[-1]))
    return masses


def _log_evidence(logs: FloatArray, a: FloatArray, b: FloatArray, points: FloatArray) -> FloatArray:
    """Return how probable all rows are under each distribution, as a logarithm up to a constant, (C,)."""
    masses = _masses(a, b, points)
    evidence = np.zeros(len(a))
    for first in range(0, len(logs), MOST_SEGMENTS):
        evidence += np.log(np.exp(logs[first : first + MOST_SEGMENTS]) @ masses.T + SMALLEST).sum(axis=0)
    return evidence


def _size_priors(size: FloatArray, typical_rows: float) -> tuple[FloatArray, FloatArray]:
    """Return the logs of two densities of log size: half-Cauchy for the spread, and uniform for the shrinkage.

    With few rows in each segment the likelihood can hardly distinguish a small spread from none. The first follows it
    to none; intervals by it would then be too narrow, and those by the second are not.
    """
    log_size, log_sum = np.log(size), np.log(size + typical_rows)
    return log_size / 2.0 - log_sum, log_size - 2.0 * log_sum


def _around(axis: FloatArray, weights: FloatArray, steps: int) -> FloatArray:
    """Return another axis around the points that have weight."""
    kept, step = axis[weights > LEAST_WEIGHT * weights.max()], axis[1] - axis[0]
    return np.linspace(kept[0] - step, kept[-1] + step, steps)


def _normalised(logs: FloatArray) -> FloatArray:
    weights = np.exp(logs - logs.max())
    normalised: FloatArray = weights / weights.sum()
    return normalised
