"""Cut the space of log ratios into a few bins that held-out rows fill."""

from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled, inlined
from obil.serving.holdout import Holdout
from obil.trackers.calibration_spread import thinned_rows

FEWEST_BINS, MOST_BINS = 4, 64
FEWEST_IN_BIN = 10  # held-out rows: those with extreme scores would else have a bin of their own
ENDS = 0.005  # rows beyond these quantiles count as lying there: one wild score must not take a bin
FARTHEST = 1e100  # log ratios beyond it are equal, so that their sums cannot overflow
MOST_POINTS = 20_000  # of the held-out rows, to place the centres by
ROUNDS = 30


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBins:
    """Each bin holds the log ratios nearest to its centre; with two classes that is an interval.

    The centres are those of k-means over the log ratios less their mean, where all classes are alike. A
    held-out class counts by the square root of its rows: the rare one is resolved better than at its own
    prevalence, and the common one still decides most. Such bins have room for rows far out, in any direction:
    bins of equal weight find added noise later, and bins of the leading class and its margin find next
    to nothing among three classes.

    >>> rows = Holdout.of([[0.0, -3.0], [0.0, -1.0], [0.0, 2.0], [0.0, 4.0]], [0, 0, 1, 1])
    >>> bins = ScoreBins.of(rows)
    >>> bins.n_bins
    4
    >>> bins.numbers(np.array([[0.0, -99.0], [0.0, -1.5], [0.0, 3.5]]))
    array([0, 1, 3])
    """

    centres: FloatArray  # (B, K) log ratios less their mean
    low: FloatArray  # (K,) where they are cut off
    high: FloatArray  # (K,)

    @classmethod
    def of(cls, holdout: Holdout, *, n_bins: int | None = None) -> "ScoreBins":
        """Place the bins by held-out rows; the smallest class says how many, for it has to fill them.

        The rows that place the centres also fill the histograms. That costs nothing that could be measured:
        the sets of `NullHull` miss the truth as often as they may, bins chosen afresh each time.
        """
        counts = effective_counts(holdout)
        target = n_bins or target_bins(counts)
        chosen = np.flatnonzero(holdout.weights > 0.0)
        most = max(1, MOST_POINTS // holdout.n_classes)
        chosen = chosen[thinned_rows(holdout.labels[chosen], n_classes=holdout.n_classes, most=most)]
        rows, labels = holdout.log_ratios[chosen], holdout.labels[chosen]
        weights = holdout.weights[chosen]
        totals = np.bincount(labels, weights=weights, minlength=holdout.n_classes)
        weights = weights * (np.sqrt(counts) / totals)[labels]
        points = np.empty_like(rows)
        centre_rows(rows, points)
        low, high = (_weighted_quantiles(points, weights, end) for end in (ENDS, 1.0 - ENDS))
        points = np.clip(points, low, high)
        centres = np.array(_split(points, weights, target))
        mass = np.empty(len(centres))
        _settle(points, weights, centres, mass)
        centres = _with_enough_rows(centres[mass > 0.0], rows, low, high)  # equal scores leave some of them nothing
        # from the surest of class 0 on; with two classes this is the order of the log ratio
        order = np.lexsort([centres[:, 1] - centres[:, 0], centres.argmax(axis=1)])
        return cls(np.ascontiguousarray(centres[order]), low, high)

    @property
    def n_bins(self) -> int:
        """The number of bins, B."""
        return len(self.centres)

    def numbers(self, log_ratios: FloatArray) -> IntArray:
        """Return the bin of each row (n, K), as an array (n,)."""
        found = np.empty(len(log_ratios), dtype=np.int64)
        place_rows(np.ascontiguousarray(log_ratios), self.centres, self.low, self.high, found)
        return found

    def histograms(self, log_ratios: FloatArray, holdout: Holdout) -> FloatArray:
        """Return each class's weighted fraction in each bin, (K, B), with these log ratios for the held-out rows."""
        shape = (holdout.n_classes, self.n_bins)
        places = holdout.labels * self.n_bins + self.numbers(log_ratios)
        mass = np.bincount(places, weights=holdout.weights, minlength=shape[0] * shape[1]).reshape(shape)
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def effective_counts(holdout: Holdout) -> FloatArray:
    """Return how many equally weighted rows each class's held-out rows are worth, (K,): (sum w)^2 / sum w^2."""
    n_classes = holdout.n_classes
    tops = np.zeros(n_classes)
    np.maximum.at(tops, holdout.labels, holdout.weights)
    scaled = holdout.weights / tops[holdout.labels]  # squares of tiny weights would vanish
    summed = np.bincount(holdout.labels, weights=scaled, minlength=n_classes)
    squared = np.bincount(holdout.labels, weights=scaled**2, minlength=n_classes)
    return np.asarray(summed**2 / squared)


def target_bins(counts: FloatArray) -> int:
    """Return how many bins the held-out rows of each class (K,) can serve: 8 for two classes, 200 of the rarer."""
    fine = round(1.4 * float(np.cbrt(counts.min())))
    return min(min(max(fine, FEWEST_BINS), 16) + 3 * (counts.size - 2), MOST_BINS)


def _weighted_quantiles(points: FloatArray, weights: FloatArray, fraction: float) -> FloatArray:
    """Return the point below which this fraction of the weight lies, in every column."""
    order = np.argsort(points, axis=0, kind="stable")
    below = np.cumsum(weights[order], axis=0)
    at = (below < fraction * below[-1]).sum(axis=0)
    return np.asarray(
        np.take_along_axis(points, order, axis=0)[np.minimum(at, len(points) - 1), range(points.shape[1])]
    )


def _split(points: FloatArray, weights: FloatArray, n_parts: int) -> list[FloatArray]:
    """Return the means of parts of about equal weight, cut again and again across the widest column."""
    if n_parts == 1 or len(points) == 1:
        return [np.asarray(weights @ points / weights.sum())]
    widest = int(np.ptp(points, axis=0).argmax())
    order = np.argsort(points[:, widest], kind="stable")
    below = np.cumsum(weights[order])
    first = n_parts // 2
    lower_weight = below[-1] * first / n_parts * (1.0 + 1e-9)  # equal weights add up to it only to rounding
    at = min(max(int(np.searchsorted(below, lower_weight, side="right")), 1), len(order) - 1)
    lower, upper = order[:at], order[at:]
    return _split(points[lower], weights[lower], first) + _split(points[upper], weights[upper], n_parts - first)


def _with_enough_rows(centres: FloatArray, rows: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the centres without those that too few rows (n, K) are near to: a neighbour takes these in."""
    enough = min(FEWEST_IN_BIN, len(rows) / (2 * FEWEST_BINS))
    found = np.empty(len(rows), dtype=np.int64)
    while len(centres) > 2:
        place_rows(np.ascontiguousarray(rows), np.ascontiguousarray(centres), low, high, found)
        counts = np.bincount(found, minlength=len(centres))
        if counts.min() >= enough:
            break
        centres = np.delete(centres, counts.argmin(), axis=0)
    return centres


@compiled
def _settle(points: FloatArray, weights: FloatArray, centres: FloatArray, mass: FloatArray) -> None:
    """Move each centre to the mean of the points nearest to it, again and again; `mass` is their weight."""
    n_bins, n_classes = centres.shape
    sums = np.empty((n_bins, n_classes))
    for _ in range(ROUNDS):
        sums[:] = 0.0
        mass[:] = 0.0
        for i in range(points.shape[0]):
            nearest = _nearest(points[i], centres)
            mass[nearest] += weights[i]
            for k in range(n_classes):
                sums[nearest, k] += weights[i] * points[i, k]
        for b in range(n_bins):
            if mass[b] > 0.0:
                for k in range(n_classes):
                    centres[b, k] = sums[b, k] / mass[b]


@compiled
def centre_rows(rows: FloatArray, centred: FloatArray) -> None:
    """Write each row (n, K) less its mean into `centred` (n, K)."""
    n_classes = rows.shape[1]
    for t in range(rows.shape[0]):
        mean = 0.0
        for k in range(n_classes):
            centred[t, k] = min(max(rows[t, k], -FARTHEST), FARTHEST)
            mean += centred[t, k]
        mean /= n_classes
        for k in range(n_classes):
            centred[t, k] -= mean


@compiled
def place_rows(rows: FloatArray, centres: FloatArray, low: FloatArray, high: FloatArray, found: IntArray) -> None:
    """Write the bin of each row (n, K) into `found` (n,); -1 of a row of NaN."""
    n_classes = rows.shape[1]
    point = np.empty(n_classes)
    for t in range(rows.shape[0]):
        if np.isnan(rows[t, n_classes - 1]):
            found[t] = -1
            continue
        mean = 0.0
        for k in range(n_classes):
            point[k] = min(max(rows[t, k], -FARTHEST), FARTHEST)
            mean += point[k]
        mean /= n_classes
        for k in range(n_classes):
            point[k] = min(max(point[k] - mean, low[k]), high[k])
        found[t] = _nearest(point, centres)


@inlined
def _nearest(point: FloatArray, centres: FloatArray) -> int:
    nearest, least = 0, np.inf
    for b in range(centres.shape[0]):
        distance = 0.0
        for k in range(point.size):
            distance += (point[k] - centres[b, k]) ** 2
        if distance < least:
            nearest, least = b, distance
    return nearest
