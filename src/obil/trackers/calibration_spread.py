"""Measure how the calibrator's uncertainty spreads to an estimated prior."""

import numpy as np
from scipy.special import logit, ndtri

from obil.arrays import FloatArray, IntArray
from obil.serving.calibrators import Calibrator
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers.pass_search import estimate_by_passes
from obil.trackers.passes import PassEvidence

MOST_ROWS = 200_000  # held-out rows of one class: at rare priors the tail of the common class decides
SMALLEST, LARGEST = 1e-9, 1.0 - 1e-9


def calibration_variance(calibrator: Calibrator, holdout: Holdout, prior: FloatArray) -> FloatArray:
    """Return the variance that the calibrator's uncertainty gives to the logit of each class's prior, (K,).

    The held-out rows, weighted to `prior`, stand for the stream: on them the prior is estimated again with
    the calibrator moved within its own uncertainty.
    """
    rows = thinned_rows(holdout.labels, n_classes=holdout.n_classes)  # weights_at restores the class prior
    part = Holdout(holdout.log_ratios[rows], holdout.labels[rows], holdout.weights[rows])
    weights = part.weights_at(prior) * len(rows)
    scores = calibrator.invert(part.log_ratios)

    def estimated(moved: Calibrator) -> FloatArray:
        ratios = moved.apply(scores)
        found = estimate_by_passes(lambda at: PassEvidence.of(ratios, at, weights=weights), prior)
        return logits_of(found.prior)

    return calibrator.variance_of(estimated)


def with_calibration_spread(
    interval: FloatArray | None, model: RatioModel, prior: FloatArray, level: float
) -> FloatArray | None:
    """Return a tracker's interval, (K, 2), with the calibrator's own uncertainty in it."""
    if interval is None:
        return None
    return widen(prior, interval, calibration_variance(model.calibrator, model.holdout_, prior), level=level)


def thinned_rows(labels: IntArray, *, n_classes: int, most: int | None = None) -> IntArray:
    """Return which rows to keep: each class is thinned by itself, so that a rare one is kept whole."""
    members = (np.flatnonzero(labels == k) for k in range(n_classes))
    return np.concatenate([rows[:: max(1, rows.size // (most or MOST_ROWS))] for rows in members])


def widen(prior: FloatArray, interval: FloatArray, variance: FloatArray, *, level: float) -> FloatArray:
    """Return an interval (K, 2), of either kind, widened on both sides by a further variance of the logit."""
    centre, ends = logits_of(prior), logits_of(interval)
    extra = (ndtri((1.0 + level) / 2.0) ** 2) * variance
    low = centre - np.sqrt(np.maximum(centre - ends[:, 0], 0.0) ** 2 + extra)
    high = centre + np.sqrt(np.maximum(ends[:, 1] - centre, 0.0) ** 2 + extra)
    return 1.0 / (1.0 + np.exp(-np.stack([low, high], axis=1)))


def logits_of(probabilities: FloatArray) -> FloatArray:
    """Return logits of probabilities, those of 0 and 1 kept finite."""
    return np.asarray(logit(np.clip(probabilities, SMALLEST, LARGEST)))
