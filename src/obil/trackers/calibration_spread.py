"""Measure how the calibrator's uncertainty spreads to an estimated prior."""

from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit, logit, ndtri

from obil.arrays import FloatArray, IntArray
from obil.serving.binned_calibrator import BinnedCalibrator
from obil.serving.calibrators import AppliesMap, ScoreMap
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers.pass_search import estimate_by_passes
from obil.trackers.passes import PassEvidence

MOST_ROWS = 200_000  # held-out rows of one class: at rare priors the tail of the common class decides
SMALLEST, LARGEST = 1e-9, 1.0 - 1e-9
LARGEST_MOVE = 3.0  # of the logit of a prior: a factor of 20
STEPS_OF_LOGIT = 10.0
MOST_KNOWN = 4_096  # priors of one model

_VARIANCES: WeakKeyDictionary[RatioModel, dict[tuple[int, ...], FloatArray]] = WeakKeyDictionary()


def map_variance(
    score_map: ScoreMap, scores: FloatArray, labels: IntArray, weights: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return the variance that a map's own uncertainty gives to the logit of each class's prior, (K,).

    Held-out rows with raw `scores` (n, K), weighted to `prior`, stand for the stream: on them the prior is estimated
    again with the map moved within its uncertainty.
    """
    rows = thinned_rows(labels, n_classes=prior.size)  # weights_at restores the class prior
    part, centre = scores[rows], logits_of(prior)
    at_prior = Holdout(score_map.apply(part), labels[rows], weights[rows]).weights_at(prior) * len(rows)
    if isinstance(score_map, BinnedCalibrator):  # rows of one bin count together
        _, first, which = np.unique(score_map.numbers(part), return_index=True, return_inverse=True)
        part, at_prior = part[first], np.bincount(which, weights=at_prior).astype(np.float64)

    def estimated(moved: AppliesMap) -> FloatArray:
        ratios = moved.apply(part)
        found = estimate_by_passes(lambda at: PassEvidence.of(ratios, at, weights=at_prior), prior)
        # a map that finds none of a class at all is far off: how far on the logit scale is a matter of rounding
        return np.clip(logits_of(found.prior), centre - LARGEST_MOVE, centre + LARGEST_MOVE)

    return score_map.variance_of(estimated)


def evidence_variance(model: RatioModel, prior: FloatArray) -> FloatArray:
    """Return the variance that the uncertainty of a model's evidence gives to the logit of each class's prior, (K,).

    It is found at the prior rounded to .1 in the logit, once: a stream asks for it again and again at about the same.
    """
    near = tuple(np.round(STEPS_OF_LOGIT * logits_of(prior)).astype(np.int64).tolist())
    known = _VARIANCES.setdefault(model, {})
    found = known.get(near)
    if found is None:
        if len(known) >= MOST_KNOWN:
            known.clear()
        at = np.asarray(expit(np.array(near) / STEPS_OF_LOGIT))
        score_map, scores = model.evidence_maps[0]
        found = map_variance(score_map, scores, model.holdout_.labels, model.holdout_.weights, at / at.sum())
        found.setflags(write=False)  # every caller gets this array
        known[near] = found
    return found


def with_calibration_spread(
    interval: FloatArray | None, model: RatioModel, prior: FloatArray, level: float
) -> FloatArray | None:
    """Return a tracker's interval, (K, 2), with the uncertainty of the map that evidence is read by in it."""
    if interval is None:
        return None
    return widen(prior, interval, evidence_variance(model, prior), level=level)


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
