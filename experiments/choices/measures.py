"""Measure log ratios on rows that no part of a model has seen."""

import numpy as np
from sklearn.metrics import average_precision_score

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.diagnose import calibration_figures
from obil.calibration.recalibration import recalibration
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.serving.calibrators import LinearCalibrator
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel

FRESH_SEED = 5_000_011  # far from those of training rows
EVEN = np.array([0.5, 0.5])
CALIBRATIONS = ("none", "temperature", "affine")

Measures = dict[str, float]


def measured(log_ratios: FloatArray, labels: IntArray, prior: FloatArray) -> Measures:
    """Return what the page reports of log ratios (n, 2): AUPRC and log loss at `prior`, and how calibrated they are."""
    rows = Holdout.of(log_ratios, labels)
    again = recalibration(rows)
    weights = rows.weights_at(prior)
    return {
        "auprc": float(average_precision_score(labels, log_ratios[:, 1], sample_weight=weights)),
        "log_loss": calibration_figures(rows, prior).log_loss,
        "ece": calibration_figures(rows, EVEN).ece_equal_width,
        "offset": again.shifts[0].value,
        "slope": again.slope.value,
    }


def calibrated_variants(
    model: RatioModel, scores: FloatArray, *, scale: float = 1.0, shift: float = 0.0
) -> dict[str, FloatArray]:
    """Return raw scores (n, 2) of fresh rows, raw and calibrated by two methods on the model's held-out rows.

    `scale` and `shift` transform the scores, held-out and fresh alike: scale * score + shift.
    """
    read = LinearCalibrator(np.array([1.0, scale]), np.array([0.0, shift]), np.empty((0, 2, 2)))
    held_out, fresh = read.apply(model.calibrator.invert(model.holdout_.log_ratios)), read.apply(scores)
    methods = {"none": fresh}
    for method in CALIBRATIONS[1:]:
        calibrator = fit_calibrator(held_out, model.holdout_.labels, model.holdout_.weights, method=method)
        methods[method] = calibrator.apply(fresh)
    return methods


def draw_training(classes: GaussianClasses, n_rows: int, ratio: float, seed: int) -> Stream:
    """Draw rows to train on, `ratio` negatives a positive."""
    return classes.draw(np.full(n_rows, 1.0 / (1.0 + ratio)), random_state=seed)


def draw_fresh(classes: GaussianClasses, n_rows: int, seed: int) -> Stream:
    """Draw rows to measure by, as many of each class: other priors are made of them by weights."""
    return classes.draw(np.full(n_rows, 0.5), random_state=np.random.default_rng([FRESH_SEED, seed]))


def prior_at(ratio: float) -> FloatArray:
    """Return the prior (2,) of `ratio` negatives a positive."""
    return np.array([ratio, 1.0]) / (1.0 + ratio)
