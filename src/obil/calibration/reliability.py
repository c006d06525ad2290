"""Compare what was promised with what happened, bin by bin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.readable import JsonRecord

Binning: TypeAlias = Literal["width", "mass"]
N_BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin(JsonRecord):
    """Rows whose posterior of one class is about the same: what it said, and how often the class was true."""

    class_number: int
    mean_posterior: float
    observed_rate: float
    weight: float  # of all rows
    n_rows: int

    @property
    def gap(self) -> float:
        """How far the promise is from what happened."""
        return abs(self.mean_posterior - self.observed_rate)

    @property
    def ratio_error(self) -> float:
        """The relative error of the ratio that the gap allows; infinite where the gap is as large as a posterior.

        >>> round(ReliabilityBin(1, 0.55, 0.5, 1.0, 100).ratio_error, 2)
        0.22
        """
        true = self.observed_rate
        if not self.gap < min(true, 1.0 - true):
            return float("inf")
        return self.gap / (true * (1.0 - true - self.gap))

    def to_json(self) -> dict[str, Any]:
        """Return the bin as plain numbers."""
        error = self.ratio_error if np.isfinite(self.ratio_error) else None
        return JsonRecord.to_json(self) | {"gap": self.gap, "ratio_error": error}


def reliability(
    posteriors: FloatArray,
    happened: FloatArray,
    weights: FloatArray,
    *,
    binning: Binning = "width",
    n_bins: int = N_BINS,
    class_number: int = 1,
) -> tuple[ReliabilityBin, ...]:
    """Return the bins that hold rows, from the lowest posterior to the highest; all three arrays are (n,).

    >>> table = reliability(np.array([0.2, 0.2, 0.8]), np.array([0.0, 0.0, 1.0]), np.ones(3))
    >>> [(row.mean_posterior, row.observed_rate, row.n_rows) for row in table]
    [(0.2, 0.0, 2), (0.8, 1.0, 1)]
    """
    number = bin_numbers(posteriors, weights, binning=binning, n_bins=n_bins)
    mass = np.bincount(number, weights=weights, minlength=n_bins)
    promised = np.bincount(number, weights=weights * posteriors, minlength=n_bins)
    seen = np.bincount(number, weights=weights * happened, minlength=n_bins)
    counts = np.bincount(number, minlength=n_bins)
    return tuple(
        ReliabilityBin(
            class_number=class_number,
            mean_posterior=float(promised[b] / mass[b]),
            observed_rate=float(seen[b] / mass[b]),
            weight=float(mass[b] / mass.sum()),
            n_rows=int(counts[b]),
        )
        for b in np.flatnonzero(mass > 0.0)
    )


def calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """Return the expected calibration error (ECE): the weighted mean gap.

    >>> calibration_error([ReliabilityBin(1, 0.5, 0.25, 1.0, 4)])
    0.25
    """
    return float(sum(row.weight * row.gap for row in bins))


def bin_numbers(
    posteriors: FloatArray, weights: FloatArray, *, binning: Binning = "width", n_bins: int = N_BINS
) -> IntArray:
    """Return the bin of each row, (n,): equally wide, or of equal weight with equal posteriors kept together."""
    if n_bins < 1:
        raise InvalidInputError(f"n_bins must be at least 1, got {n_bins!r}")
    if binning == "width":
        position = posteriors
    elif binning == "mass":
        _, tied = np.unique(posteriors, return_inverse=True)
        mass = np.bincount(tied, weights=weights)
        middle = np.cumsum(mass) - mass / 2.0
        position = (middle / mass.sum())[tied]
    else:
        raise InvalidInputError(f"binning must be 'width' or 'mass', got {binning!r}")
    return np.clip(np.floor(position * n_bins), 0, n_bins - 1).astype(np.int64)
