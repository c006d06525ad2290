"""Map raw scores to calibrated log ratios, each map with its own uncertainty."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError


class AppliesMap(Protocol):
    """Anything that maps raw scores to log ratios."""

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return log ratios, (n, K), of raw scores (n, K) whose column 0 is 0."""


Quantity: TypeAlias = Callable[[AppliesMap], FloatArray]


@runtime_checkable
class ScoreMap(AppliesMap, Protocol):
    """A map from raw scores to log ratios that knows how uncertain it is."""

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Return the variance that this map's own uncertainty gives to a quantity computed with it."""

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""


@runtime_checkable
class Calibrator(ScoreMap, Protocol):
    """A monotone map, which can be inverted: what decisions are calibrated by."""

    def invert(self, log_ratios: FloatArray) -> FloatArray:
        """Return the raw scores that `apply` maps to these log ratios, (n, K)."""


@dataclass(frozen=True, slots=True, eq=False)
class SlopesAndOffsets(ABC):
    """A slope and an offset for each class, with how uncertain they are."""

    slopes: FloatArray  # (K,)
    offsets: FloatArray  # (K,), the first is 0
    axes: FloatArray  # (A, 2, K): one standard deviation of (slopes, offsets) along each principal axis

    @abstractmethod
    def apply(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log ratios, (n, K)."""

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Add up the squared change of the quantity along each principal axis of the parameters."""
        total = np.zeros_like(quantity(self))
        for slopes, offsets in self.axes:
            up, down = (
                quantity(type(self)(self.slopes + sign * slopes, self.offsets + sign * offsets, self.axes[:0]))
                for sign in (1.0, -1.0)
            )
            total = total + ((up - down) / 2.0) ** 2
        return total

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.slopes.size

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        shape = (self.n_classes,)
        fits = self.slopes.shape == self.offsets.shape == shape and self.axes.shape[1:] == (2, *shape)
        if not fits or not all(np.isfinite(values).all() for values in (self.slopes, self.offsets, self.axes)):
            raise InvalidInputError("a calibrator is damaged: its numbers must be finite, and of every class")
        if (self.slopes <= 0.0).any():
            raise InvalidInputError(f"a calibrator's slopes must be positive, got {self.slopes.tolist()}")


@dataclass(frozen=True, slots=True, eq=False)
class LinearCalibrator(SlopesAndOffsets):
    """`slopes * score + offsets`: affine and temperature scaling.

    >>> LinearCalibrator.identity(2).apply(np.array([[0.0, 3.0]]))
    array([[0., 3.]])
    """

    @classmethod
    def identity(cls, n_classes: int) -> "LinearCalibrator":
        """Return the map that changes nothing and is sure of it."""
        return cls(np.ones(n_classes), np.zeros(n_classes), np.empty((0, 2, n_classes)))

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log ratios, (n, K)."""
        if scores.shape == (1, 2):  # one row: the same sum without the cost of array operations
            row = np.zeros((1, 2))
            row[0, 1] = scores.item(1) * self.slopes.item(1) + self.offsets.item(1)
            return row
        mapped: FloatArray = scores * self.slopes
        mapped += self.offsets
        mapped[:, 0] = 0.0
        return mapped

    def invert(self, log_ratios: FloatArray) -> FloatArray:
        """Return the raw scores that `apply` maps to these log ratios, (n, K)."""
        scores: FloatArray = (log_ratios - self.offsets) / self.slopes
        scores[:, 0] = 0.0
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class MonotoneCalibrator:
    """A strictly increasing, piecewise linear map of the binary log ratio: ranking never changes."""

    knots: FloatArray  # (m,) raw scores, increasing
    values: FloatArray  # (m,) log ratios there, increasing
    tail_slope: float  # beyond the outer knots
    copies: FloatArray  # (B, m) values of bootstrap copies

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log ratios, (n, 2)."""
        raw = scores[:, 1]
        mapped = np.interp(raw, self.knots, self.values)
        mapped += self.tail_slope * (np.minimum(raw - self.knots[0], 0.0) + np.maximum(raw - self.knots[-1], 0.0))
        return np.stack([np.zeros_like(mapped), mapped], axis=1)

    def invert(self, log_ratios: FloatArray) -> FloatArray:
        """Return the raw scores that `apply` maps to these log ratios, (n, 2)."""
        inverse = MonotoneCalibrator(self.values, self.knots, 1.0 / self.tail_slope, self.copies[:0])
        return inverse.apply(log_ratios)

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Return the mean squared change of the quantity over the bootstrap copies."""
        centre = quantity(self)
        total = np.zeros_like(centre)
        for values in self.copies:
            copy = MonotoneCalibrator(self.knots, values, self.tail_slope, self.copies[:0])
            total = total + (quantity(copy) - centre) ** 2
        return total / max(len(self.copies), 1)

    @property
    def n_classes(self) -> int:
        """Two."""
        return 2

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        knots, values = self.knots, self.values
        fits = knots.ndim == 1 and knots.size >= 1 and knots.shape == values.shape == self.copies.shape[1:]
        if not fits or not all(np.isfinite(array).all() for array in (knots, values, self.copies)):
            raise InvalidInputError("a calibrator is damaged: its numbers must be finite, one per knot")
        if (np.diff(knots) <= 0.0).any() or (np.diff(values) <= 0.0).any() or not 0.0 < self.tail_slope < np.inf:
            raise InvalidInputError("a calibrator's knots and values must increase, and its tail slope be positive")
