"""Fit vector scaling on held-out rows: a slope and an offset for each class, in which no class is the reference."""

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.centred_fit import OFFSET_PRECISION, MapPosterior
from obil.calibration.centred_rows import CentredRows, principal_axes
from obil.calibration.linear import SLOPE_SD, SMALLEST_SLOPE
from obil.serving.centred_calibrators import VectorCalibrator


def fit_vector(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None = SLOPE_SD,
    shrink: bool = True,
) -> VectorCalibrator:
    """Fit K slopes, normal around 1, and K - 1 offsets to centred scores; `shrink` as in `fit_linear`."""
    rows = CentredRows.of(scores, labels, weights, slope_sd=slope_sd)
    n_classes = rows.n_classes
    features = np.stack([rows.scores, np.ones_like(rows.scores)], axis=2)  # (n, K, 2)
    mean = np.tile([1.0, 0.0], (n_classes, 1))
    precision = np.tile([1.0 / rows.slope_sd**2, OFFSET_PRECISION], (n_classes, 1))
    posterior = MapPosterior(features, rows.labels, rows.counts, rows.log_prior, mean, precision)
    free = np.ones((n_classes, 2), dtype=bool)
    parameters = posterior.maximise(mean, free)
    while (parameters[free[:, 0], 0] < SMALLEST_SLOPE).any():  # hold it there, and let the others answer to that
        free[:, 0] &= parameters[:, 0] >= SMALLEST_SLOPE
        parameters[~free[:, 0], 0] = SMALLEST_SLOPE
        parameters = posterior.maximise(parameters, free)
    moving = np.flatnonzero(free)
    covariance = np.zeros((free.size, free.size))
    covariance[np.ix_(moving, moving)] = np.linalg.inv(posterior.curvature(parameters)[np.ix_(moving, moving)])
    theta, covariance = rows.estimate(parameters, covariance, shrink=shrink)
    deviations = principal_axes(covariance)
    # back in the scores' own unit: slope * (score - zero) / unit + offset, less the same of class 0
    slopes = np.maximum(theta[:n_classes], SMALLEST_SLOPE) / rows.unit
    slope_axes = deviations[:, :n_classes] / rows.unit
    offsets = _offsets(theta[None, n_classes:], slopes[None] * rows.zero)[0]
    offset_axes = _offsets(deviations[:, n_classes:], slope_axes * rows.zero)
    return VectorCalibrator(slopes, offsets, np.stack([slope_axes, offset_axes], axis=1))


def _offsets(differences: FloatArray, at_zero: FloatArray) -> FloatArray:
    """Return offsets (n, K) from differences to class 0, (n, K - 1), less what the zero of scores adds, (n, K)."""
    offsets: FloatArray = np.zeros(at_zero.shape)
    offsets[:, 1:] = differences - (at_zero[:, 1:] - at_zero[:, :1])
    return offsets
