"""Choose how one fold's scores become evidence: a calibrated ratio, frequencies of bins, or a mixture of both."""

from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.linear import SLOPE_SD, as_counts, class_prior, fit_linear
from obil.serving.binned_calibrator import BinnedCalibrator, MixedCalibrator, mixed
from obil.serving.calibrators import Calibrator, ScoreMap
from obil.serving.holdout import Holdout
from obil.trackers.passes import PassEvidence

MOST_BINS = 6  # for each most probable class
ROWS_PER_BIN = 25  # of the rarest class
FEWEST_ROWS = 50  # of the rarest class, below which frequencies are noise
N_FOLDS = 5
STREAM_ROWS = 20_000  # of a stream whose prior is to be found: a bias stays, and noise is averaged out
SHIFTS = (1.0 / 16.0, 0.25, 1.0, 4.0)  # of the odds of every other class
DIGITS = 6  # scores that agree in them are the same score
CALIBRATED, BINS, MIXED = "calibrated", "bins", "mixed"


def fit_evidence_map(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    calibrator: Calibrator | None = None,
    method: str = "affine",
    slope_sd: float | None = SLOPE_SD,
    random_state: int | None = None,
    blocks: IntArray | None = None,
) -> tuple[ScoreMap, str]:
    """Return the map of raw scores (n, K) that finds held-out priors best, and the figures it was chosen by.

    The candidates are a calibrator of the kind named (`calibrator`, where it is fitted already), bins, and the mean of
    their posteriors; the one with the least cross-validated `prior_error` is fitted on all rows. Blocks of time or
    groups (n,) are kept whole in that.
    """
    n_classes = scores.shape[1]
    settings: dict[str, Any] = {"method": method, "slope_sd": slope_sd, "random_state": random_state}
    whole = calibrator or fit_calibrator(scores, labels, weights, **settings)
    counts = as_counts(np.where(weights > 0.0, weights, 0.0))
    rarest = _rows_of_rarest(labels, counts, n_classes)
    if rarest < FEWEST_ROWS or n_classes**2 * _n_bins(rarest, n_classes) > 4_000_000:
        return whole, f"{CALIBRATED}: {rarest:.0f} rows of the rarest class are too few for bins"
    folds = _spread_over_folds(np.where(counts > 0.0, labels, n_classes), n_classes + 1)
    if blocks is not None and _every_class_outside(labels[counts > 0.0], blocks[counts > 0.0], n_classes):
        folds = blocks
    ratios = {name: np.empty_like(scores) for name in (CALIBRATED, BINS, MIXED)}
    for fold in np.unique(folds):
        seen, new = folds != fold, folds == fold
        prior = class_prior(labels[seen], counts[seen], n_classes)
        first = fit_calibrator(scores[seen], labels[seen], counts[seen], **settings).apply(scores[new])
        second = fit_bins(scores[seen], labels[seen], counts[seen], slope_sd=slope_sd).apply(scores[new])
        ratios[CALIBRATED][new], ratios[BINS][new] = first, second
        ratios[MIXED][new] = mixed(first, second, prior)
    errors = {name: prior_error(Holdout(values, labels, counts)) for name, values in ratios.items()}
    chosen = min(errors, key=lambda name: errors[name] if np.isfinite(errors[name]) else np.inf)
    figures = ", ".join(f"{name} {error:.3f}" for name, error in errors.items())
    figures = f"{chosen}: relative error of the prior of {STREAM_ROWS:,} rows {figures}"
    if chosen == CALIBRATED:
        return whole, figures
    bins = fit_bins(scores, labels, counts, slope_sd=slope_sd)
    if chosen == BINS:
        return bins, figures
    return MixedCalibrator(whole, bins, class_prior(labels, counts, n_classes)), figures


def prior_error(held_out: Holdout) -> float:
    """Return the error to be expected of a prior found with these log ratios, relative to each class's prior.

    Held-out rows weighted to other priors stand for streams. There the likelihood's Newton step from the truth is the
    bias of the estimate, and its curvature the variance that a stream of `STREAM_ROWS` rows adds. A log loss at one
    prior hardly differs between maps: a ratio that is wrong in its tail, where a rare class is found, costs it little.
    """
    logs = []
    for factor in SHIFTS:
        moved = held_out.prior.copy()
        moved[1::2] *= factor  # every other class: of two, the second
        prior = moved / moved.sum()
        evidence = PassEvidence.of(held_out.log_ratios, prior, weights=held_out.weights_at(prior))
        bias = evidence.next_prior() - prior
        noise = np.minimum(evidence.standard_errors() / np.sqrt(STREAM_ROWS), 1.0)
        logs.append(np.log(((bias**2 + noise**2) / prior**2).mean()) / 2.0)
    return float(np.exp(np.mean(logs)))


def fit_bins(
    scores: FloatArray, labels: IntArray, counts: FloatArray, *, slope_sd: float | None = SLOPE_SD
) -> BinnedCalibrator:
    """Return bins of raw scores (n, K): the most probable class, times quantiles of its lead over the next.

    Quantiles are of rows weighted so that the classes are equally common: a rare class gets as many bins as another.
    """
    n_classes = scores.shape[1]
    base = fit_linear(scores, labels, counts, slope_sd=slope_sd, shrink=True)
    totals = np.bincount(labels, weights=counts, minlength=n_classes)
    n_bins = _n_bins(_rows_of_rarest(labels, counts, n_classes), n_classes)
    ratios = base.apply(scores)
    top = ratios.argmax(axis=1)
    ordered = np.partition(ratios, n_classes - 2, axis=1)
    lead = ordered[:, -1] - ordered[:, -2]
    balanced = counts / totals[labels]
    edges = np.zeros((n_classes, n_bins - 1))
    for k in range(n_classes):
        own = top == k
        if own.any():
            edges[k] = _quantiles(lead[own], balanced[own], np.arange(1, n_bins) / n_bins)
    empty = BinnedCalibrator(base, edges, np.ones((n_classes, n_classes * n_bins)))
    numbers = empty.numbers(scores)
    held = np.zeros((n_classes, n_classes * n_bins))
    np.add.at(held, (labels, numbers), counts)
    return BinnedCalibrator(base, edges, held)


def _n_bins(rarest: float, n_classes: int) -> int:
    """Return how many bins each most probable class has."""
    return int(np.clip(rarest // (ROWS_PER_BIN * max(1, n_classes // 2)), 1, MOST_BINS))


def _quantiles(values: FloatArray, weights: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of weighted values, each halfway between two values that differ.

    Rows that repeat would otherwise lie on an edge, and rounding decide on which side of it.
    """
    rounded = np.round(values, DIGITS)
    distinct, which = np.unique(rounded, return_inverse=True)
    reached = np.cumsum(np.bincount(which, weights=weights))
    at = np.searchsorted(reached, levels * reached[-1])
    padded = np.concatenate([[distinct[0] - 1.0], distinct])
    quantiles: FloatArray = (padded[at] + padded[at + 1]) / 2.0
    return quantiles


def _rows_of_rarest(labels: IntArray, counts: FloatArray, n_classes: int) -> float:
    """Return how many rows the rarest class is worth: one heavy row is still one row."""
    rows = np.bincount(labels[counts > 0.0], minlength=n_classes)
    return float(np.minimum(np.bincount(labels, weights=counts, minlength=n_classes), rows).min())


def _every_class_outside(labels: IntArray, blocks: IntArray, n_classes: int) -> bool:
    """Return whether every class has rows enough for bins outside of every block of rows (n,)."""
    outside = [np.bincount(labels[blocks != block], minlength=n_classes) for block in np.unique(blocks)]
    return bool((np.array(outside) >= FEWEST_ROWS // 2).all())


def _spread_over_folds(labels: IntArray, n_classes: int) -> IntArray:
    """Return a fold for each row, (n,), each class spread evenly, the same each time."""
    rng = np.random.default_rng(0)
    folds = np.empty(len(labels), dtype=np.int64)
    for k in range(n_classes):
        own = np.flatnonzero(labels == k)
        folds[rng.permutation(own)] = np.arange(len(own)) % N_FOLDS
    return folds
