"""Map raw scores to log ratios by how often held-out rows of each class fell into the same bin."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray, as_prior
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.calibrators import Calibrator, LinearCalibrator, Quantity
from obil.serving.records import JsonFloats

PSEUDO_ROWS = 1.0  # of each class, spread over the bins: no held-out row in a bin does not mean never
DRAWS = 24  # of the frequencies, where their uncertainty is asked for
MOST_CELLS = 20_000_000  # classes times bins
SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class BinnedCalibrator:
    """The log ratio of a bin's class-conditional frequencies, which no score outside it can bend.

    A row's bin is its most probable class at equal priors, and how much more probable that is than the next. The ratio
    is calibrated by construction, and bounded by what the held-out rows support.

    >>> edges, counts = np.array([[], []]), np.array([[90.0, 10.0], [20.0, 80.0]])  # class 0 or 1 is more probable
    >>> bins = BinnedCalibrator(LinearCalibrator.identity(2), edges, counts)
    >>> bins.apply(np.array([[0.0, 0.3], [0.0, 5.0], [0.0, -2.0]])).round(1)
    array([[ 0. ,  2. ],
           [ 0. ,  2. ],
           [ 0. , -1.5]])
    """

    base: LinearCalibrator  # before the bins
    edges: FloatArray  # (K, B - 1) of the lead of each most probable class, increasing
    counts: FloatArray  # (K, K * B) held-out rows of each class in each bin: bins that class 0 leads come first
    table: FloatArray = field(init=False)  # (K * B, K) the log ratios of each bin

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):  # damaged counts are for `require_sound` to refuse
            object.__setattr__(self, "table", log_ratios_of_bins(smoothed(self.counts)))

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.counts)

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the log ratios of raw scores, (n, K)."""
        return self.table[self.numbers(scores)]

    def numbers(self, scores: FloatArray) -> IntArray:
        """Return the bin of each row, (n,)."""
        numbers = np.empty(len(scores), dtype=np.int64)
        _place(scores, self.base.slopes, self.base.offsets, self.edges, numbers)
        return numbers

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Return the variance of a quantity over draws of the frequencies that the held-out rows leave possible."""
        rng = np.random.default_rng(0)  # the same draws each time
        weights = with_pseudo_rows(self.counts)
        drawn = [quantity(_Drawn(self, rng.standard_gamma(weights) + 1e-12 * weights)) for _ in range(DRAWS)]
        variance: FloatArray = np.var(drawn, axis=0, ddof=1)
        return variance

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        self.base.require_sound()
        n_classes, n_bins = self.n_classes, self.counts.shape[-1] if self.counts.ndim == 2 else 0
        per_class = self.edges.shape[-1] + 1
        shapes = self.edges.shape == (n_classes, per_class - 1) and n_bins == n_classes * per_class
        if not shapes or self.base.n_classes != n_classes:
            raise InvalidInputError("the bins of a model are damaged: edges and counts do not fit")
        if n_classes * n_bins > MOST_CELLS:
            raise InvalidInputError(f"a model has at most {MOST_CELLS:,} counts of bins, got {n_classes * n_bins:,}")
        if not all(np.isfinite(values).all() for values in (self.edges, self.counts)):
            raise InvalidInputError("the bins of a model are damaged: their numbers must be finite")
        if (self.counts < 0.0).any() or (self.counts.sum(axis=1) <= 0.0).any() or (np.diff(self.edges) < 0.0).any():
            raise InvalidInputError("the bins of a model are damaged: counts are not negative, edges increase")


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """Bins with other frequencies: one draw of what they may be."""

    bins: BinnedCalibrator
    gammas: FloatArray  # (K, K * B) proportional to the frequencies

    def apply(self, scores: FloatArray) -> FloatArray:
        table = log_ratios_of_bins(self.gammas / self.gammas.sum(axis=1, keepdims=True))
        return table[self.bins.numbers(scores)]


@dataclass(frozen=True, slots=True, eq=False)
class MixedCalibrator:
    """The posteriors of two maps at one prior, averaged: neither a bad bin nor a bad tail decides alone."""

    first: Calibrator
    second: BinnedCalibrator
    prior: JsonFloats  # (K,)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.prior.size

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the log ratios of raw scores, (n, K)."""
        return mixed(self.first.apply(scores), self.second.apply(scores), self.prior)

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Return the variance of a quantity; both maps rest on the same rows, so their deviations add up."""
        moved = (
            self.first.variance_of(lambda other: quantity(_Pair(other, self.second, self.prior))),
            self.second.variance_of(lambda other: quantity(_Pair(self.first, other, self.prior))),
        )
        variance: FloatArray = (np.sqrt(moved[0]) + np.sqrt(moved[1])) ** 2
        return variance

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        as_prior(self.prior)
        if not self.first.n_classes == self.second.n_classes == self.n_classes:
            raise InvalidInputError("the two maps of a mixture must be of the same classes")


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """A mixture one part of which was moved within its uncertainty."""

    first: Any
    second: Any
    prior: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        return mixed(self.first.apply(scores), self.second.apply(scores), self.prior)


@compiled
def mixed(first: FloatArray, second: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the log ratios whose posterior at a prior is the mean of those of two others, (n, K)."""
    n_rows, n_classes = first.shape
    relative = np.empty((n_rows, n_classes))
    for r in range(n_rows):
        largest, other_largest = first[r].max(), second[r].max()
        total, other_total = 0.0, 0.0
        for k in range(n_classes):
            total += prior[k] * np.exp(first[r, k] - largest)
            other_total += prior[k] * np.exp(second[r, k] - other_largest)
        for k in range(n_classes):
            ratio = np.exp(first[r, k] - largest) / total + np.exp(second[r, k] - other_largest) / other_total
            relative[r, k] = np.log(ratio + SMALLEST / prior[k])  # of the posterior to the prior
        base = relative[r, 0]
        for k in range(n_classes):
            relative[r, k] -= base
    return relative


def smoothed(counts: FloatArray) -> FloatArray:
    """Return the class-conditional frequencies of bins, (K, bins), from counts of held-out rows.

    >>> smoothed(np.array([[1.0, 1.0], [0.0, 3.0]])).round(3)
    array([[0.417, 0.583],
           [0.062, 0.938]])
    """
    counted = with_pseudo_rows(counts)
    frequencies: FloatArray = counted / counted.sum(axis=1, keepdims=True)
    return frequencies


def with_pseudo_rows(counts: FloatArray) -> FloatArray:
    """Return counts, (K, bins), with a pseudo-row of each class, spread as the rows of all classes are."""
    pooled = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0) + SMALLEST
    filled: FloatArray = counts + PSEUDO_ROWS * pooled / pooled.sum()
    return filled


def log_ratios_of_bins(frequencies: FloatArray) -> FloatArray:
    """Return the log ratios of bins, (bins, K), from class-conditional frequencies, (K, bins)."""
    logs = np.log(frequencies.T + SMALLEST)
    relative: FloatArray = logs - logs[:, :1]
    return relative


@compiled
def _place(scores: FloatArray, slopes: FloatArray, offsets: FloatArray, edges: FloatArray, numbers: IntArray) -> None:
    """Write the bin of each row, (n,)."""
    n_rows, n_classes = scores.shape
    n_edges = edges.shape[1]
    for r in range(n_rows):
        top, first, second = 0, -np.inf, -np.inf
        for k in range(n_classes):
            value = scores[r, k] * slopes[k] + offsets[k] if k > 0 else 0.0
            if value > first:
                top, first, second = k, value, first
            elif value > second:
                second = value
        lead = first - second
        number = top * (n_edges + 1)
        for e in range(n_edges):
            if lead >= edges[top, e]:
                number += 1
        numbers[r] = number
