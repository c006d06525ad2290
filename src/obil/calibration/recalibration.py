"""Ask the held-out rows how their log ratios would have to be moved to be calibrated."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from obil.arrays import FloatArray
from obil.calibration.linear import fit_linear
from obil.readable import JsonRecord
from obil.serving.calibrators import LinearCalibrator
from obil.serving.holdout import Holdout

HELD_SLOPE_SD = 1e-4  # a slope this sure of 1 is held there
FREE_SLOPE_SD = 100.0  # and one this unsure is free, on the scale that log ratios have


@dataclass(frozen=True, slots=True)
class Estimate(JsonRecord):
    """A figure with its standard error and interval."""

    value: float
    standard_error: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Recalibration(JsonRecord):
    """Calibrated = slope * log ratio + offset, were it to be fitted anew; ideal is slope 1 and offset 0.

    `shifts` are the offsets with the slope held at 1 (calibration in the large). A free slope and offset
    trade against each other, so a bias shows in the shift with a third of the free offset's error.
    """

    slope: Estimate
    offsets: tuple[Estimate, ...]  # K-1, with the slope free
    shifts: tuple[Estimate, ...]  # K-1, with the slope held at 1
    level: float


def recalibration(holdout: Holdout, *, level: float = 0.9) -> Recalibration:
    """Return slope, offsets and shifts of the held-out rows, with intervals.

    >>> rows = Holdout.of([[0.0, -1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 1.0]], [0, 1, 0, 1])
    >>> round(recalibration(rows).shifts[0].value, 6)  # symmetric rows have no bias, whatever their slope
    0.0
    """
    weights = holdout.weights * len(holdout.weights) / holdout.weights.sum()
    free = fit_linear(holdout.log_ratios, holdout.labels, weights, slope_sd=FREE_SLOPE_SD)
    held = fit_linear(holdout.log_ratios, holdout.labels, weights, slope_sd=HELD_SLOPE_SD)
    free_errors, held_errors = (_standard_errors(fit) for fit in (free, held))
    width = float(ndtri((1.0 + level) / 2.0))

    def estimate(value: float, error: float) -> Estimate:
        return Estimate(float(value), float(error), (float(value - width * error), float(value + width * error)))

    return Recalibration(
        slope=estimate(free.slopes[1], free_errors[0]),
        offsets=tuple(map(estimate, free.offsets[1:], free_errors[1:])),
        shifts=tuple(map(estimate, held.offsets[1:], held_errors[1:])),
        level=level,
    )


def _standard_errors(fit: LinearCalibrator) -> FloatArray:
    """Return the standard errors of (slope, offsets), (K,), given how many rows of each class there are."""
    slopes, offsets = np.sqrt((fit.axes**2).sum(axis=0))  # (K,) each
    return np.concatenate([slopes[1:2], offsets[1:]])
