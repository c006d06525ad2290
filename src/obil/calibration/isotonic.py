"""Fit an increasing curve of any shape, joined so that ranking never changes."""

import numpy as np
from sklearn.isotonic import IsotonicRegression

from obil.arrays import FloatArray, IntArray
from obil.calibration.linear import class_prior, fit_linear
from obil.calibration.score_unit import ScoreUnit
from obil.serving.calibrators import MonotoneCalibrator

N_COPIES = 20  # of the bootstrap


def fit_isotonic(
    scores: FloatArray, labels: IntArray, weights: FloatArray, rng: np.random.Generator
) -> MonotoneCalibrator:
    """Return the isotonic calibrator of binary scores (n, 2), with bootstrap copies for its uncertainty."""
    own = ScoreUnit.of_spread(scores, labels, weights)
    measured = own.measure(scores)
    raw = measured[:, 1]
    tail_slope = float(fit_linear(measured, labels, weights, slope_sd=None).slopes[1])
    knots, values = _isotonic_knots(raw, labels, weights)
    copies = []
    for _ in range(N_COPIES):
        chosen = np.concatenate(
            [rng.choice(members, members.size) for members in (np.flatnonzero(labels == k) for k in (0, 1))]
        )
        copy_knots, copy_values = _isotonic_knots(raw[chosen], labels[chosen], weights[chosen])
        copy = MonotoneCalibrator(copy_knots, copy_values, tail_slope, np.empty((0, copy_knots.size)))
        copies.append(copy.apply(np.stack([np.zeros_like(knots), knots], axis=1))[:, 1])
    return MonotoneCalibrator(own.zero[1] + own.unit * knots, values, tail_slope / own.unit, np.array(copies))


def _isotonic_knots(raw: FloatArray, labels: IntArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the centres of the blocks that pooling adjacent violators leaves, and their log ratios.

    Joining the centres by lines makes the steps strictly increasing; half a row of each class is added to
    a block, so that a block of one class has a finite ratio.
    """
    pooled = IsotonicRegression(out_of_bounds="clip").fit_transform(raw, labels == 1, sample_weight=weights)
    prior = class_prior(labels, weights, 2)
    scale = len(raw) / weights.sum()
    _, block = np.unique(pooled, return_inverse=True)
    total = np.bincount(block, weights=weights) * scale
    positive = np.bincount(block, weights=weights * (labels == 1)) * scale
    centres = np.bincount(block, weights=weights * scale * raw) / total
    values = np.log((positive + 0.5) / (total - positive + 0.5)) - np.log(prior[1] / prior[0])
    # the added halves can turn two neighbours round: pool once more, by the size of the block
    values = IsotonicRegression().fit_transform(centres, values, sample_weight=total)
    kept = np.concatenate([[True], np.diff(values) > 1e-9]) & np.concatenate([[True], np.diff(centres) > 0.0])
    return centres[kept], values[kept]
