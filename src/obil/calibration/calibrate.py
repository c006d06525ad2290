"""Fit the calibrator that a name stands for."""

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.curves import fit_isotonic, fit_spline
from obil.calibration.linear import SLOPE_SD, class_prior, fit_linear
from obil.calibration.matrix import fit_matrix
from obil.calibration.vector import fit_vector
from obil.errors import InvalidInputError
from obil.serving.calibrators import Calibrator

CALIBRATIONS = ("affine", "temperature", "vector", "matrix", "spline", "isotonic")


def fit_calibrator(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    method: str = "affine",
    slope_sd: float | None = SLOPE_SD,
    random_state: int | np.random.Generator | None = None,
) -> Calibrator:
    """Return the calibrator of raw scores (n, K) with labels (n,) and weights (n,).

    The posterior of a row is softmax(log prior + slope * score + offset), where the prior is that of
    the rows themselves: the likelihood is not re-weighted by class, which at rare priors would throw most
    of the information away. `slope_sd` is the sd of the slope around 1 before data; None leaves it free,
    for scores on no particular scale (margins). Where it is given and there are more than two classes, offsets are
    shrunk towards 0 as well, as far as they are noise.
    """
    if method not in CALIBRATIONS:
        raise InvalidInputError(f"calibration must be one of {', '.join(CALIBRATIONS)}, got {method!r}")
    if method in ("spline", "isotonic") and scores.shape[1] != 2:
        raise InvalidInputError(f"{method} calibration is for two classes, got {scores.shape[1]}")
    class_prior(labels, weights, scores.shape[1])  # refuses a class without rows, whatever the method
    counted = weights > 0.0  # a row of weight 0 is ignored, also in where scores end
    scores, labels, weights = scores[counted], labels[counted], weights[counted]
    if method == "spline":
        return fit_spline(scores, labels, weights, slope_sd=slope_sd, random_state=random_state)
    if method == "isotonic":
        return fit_isotonic(scores, labels, weights, np.random.default_rng(0 if random_state is None else random_state))
    if method in ("vector", "matrix") and scores.shape[1] > 2:
        fit = fit_vector if method == "vector" else fit_matrix
        return fit(scores, labels, weights, slope_sd=slope_sd)
    line = "temperature" if method == "temperature" else "affine"  # of two classes one ratio is all there is to scale
    return fit_linear(scores, labels, weights, method=line, slope_sd=slope_sd, shrink=True)
