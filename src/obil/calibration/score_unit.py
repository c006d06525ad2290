"""Give scores that have no zero and no unit of their own both, so that a fit of them is the same in any unit."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from obil.arrays import FloatArray, IntArray

# Scores that hardly differ within a class are measured by how far apart the classes lie: separable rows do
# not determine how steep the map is, and a unit of almost nothing would make it steep without cause.
LEAST_FRACTION = 0.1
SMALLEST = 1e-100  # scores below it are 0: their inverse would leave the range of numbers
ROUNDING = 1e-9  # a spread below this fraction of the scores themselves is what arithmetic leaves of a constant


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
    for k in range(scores.shape[1]):
        own = labels == k
        centred[own] -= counts[own] @ centred[own] / counts[own].sum()
    return float(np.sqrt((counts @ centred**2).mean() / counts.sum()))
