"""Measure how far held-out log ratios are from calibrated, at equal priors and at the rows' own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from obil.arrays import FloatArray, PriorLike, as_floats, as_prior, require_in
from obil.bayes.costs import log_threshold
from obil.bayes.posterior import log_posterior
from obil.calibration.recalibration import Recalibration, recalibration
from obil.calibration.reliability import N_BINS, ReliabilityBin, calibration_error, reliability
from obil.calibration.separation import Separation, worst_separation
from obil.errors import InvalidInputError
from obil.readable import JsonRecord
from obil.serving.holdout import Holdout

NEAR_THRESHOLD = (0.3, 0.7)  # posteriors at the prior at which the threshold is a posterior of 1/2


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationFigures(JsonRecord):
    """What the posteriors at one prior promise against what happened, the classes weighted to that prior."""

    prior: FloatArray  # (K,)
    ece_equal_width: float  # of class 1's posterior; with more classes, of the most likely class's
    ece_equal_mass: float
    classwise_ece: FloatArray  # (K,) equal width, of each class's posterior
    brier: float  # half the squared distance to the truth, so that two classes have the customary figure
    log_loss: float
    table: tuple[ReliabilityBin, ...]  # class 1; with more classes, every class


@dataclass(frozen=True, slots=True)
class ThresholdFigures(JsonRecord):
    """How far the ratio can be off for the rows near one decision threshold."""

    log_threshold: float
    rows: ReliabilityBin | None  # at the prior where the threshold is a posterior of 1/2; None where no row is near


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis(JsonRecord):
    """The calibration of held-out rows, measured; what to make of it is the gate's business."""

    holdout: Holdout
    balanced: CalibrationFigures  # at prior 1/K: what tells
    own: CalibrationFigures  # at the rows' own prior, or the one given: reported, never judged
    recalibration: Recalibration
    separation: Separation
    mean_posterior: FloatArray  # (K,) at prior 1/K, ideally 1/K; of two classes (E0[s] + E1[s])/2
    mean_posterior_error: FloatArray  # (K,) its standard error
    thresholds: tuple[ThresholdFigures, ...]  # two classes only
    n_bins: int

    @property
    def balanced_ece(self) -> float:
        """The mean over classes of the calibration error at equal priors."""
        return float(self.balanced.classwise_ece.mean())

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain numbers; the rows themselves stay out."""
        figures = JsonRecord.to_json(self) | {"balanced_ece": self.balanced_ece}
        del figures["holdout"], figures["n_bins"]
        return {"n_rows": len(self.holdout.labels), "counts": self.holdout.counts.tolist()} | figures


def diagnose(
    holdout: Holdout,
    *,
    prior: PriorLike | None = None,
    thresholds: Sequence[float] | None = None,
    level: float = 0.9,
    n_bins: int = N_BINS,
) -> Diagnosis:
    """Measure calibration at prior 1/K and at `prior` (default: the rows' own).

    Parameters
    ----------
    thresholds
        Log thresholds in play (two classes): those of equal costs at both priors unless given.
    level
        Of every interval.

    >>> rows = Holdout.of([[0.0, -1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 1.0]], [0, 0, 1, 1])
    >>> diagnosis = diagnose(rows)
    >>> diagnosis.separation.auc, float(diagnosis.mean_posterior[1])
    (1.0, 0.5)
    """
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    n_classes = holdout.n_classes
    even = np.full(n_classes, 1.0 / n_classes)
    own = holdout.prior if prior is None else as_prior(prior, n_classes=n_classes)
    mean, error = _mean_posterior(holdout, even)
    return Diagnosis(
        holdout=holdout,
        balanced=calibration_figures(holdout, even, n_bins=n_bins),
        own=calibration_figures(holdout, own, n_bins=n_bins),
        recalibration=recalibration(holdout, level=level),
        separation=worst_separation(holdout, level=level),
        mean_posterior=mean,
        mean_posterior_error=error,
        thresholds=_threshold_figures(holdout, own, thresholds),
        n_bins=n_bins,
    )


def calibration_figures(holdout: Holdout, prior: FloatArray, *, n_bins: int = N_BINS) -> CalibrationFigures:
    """Return calibration error, Brier score, log loss and reliability table at a prior, (K,)."""
    weights = holdout.weights_at(prior)
    logs = log_posterior(holdout.log_ratios, prior)
    posteriors = np.exp(logs)
    n_classes = holdout.n_classes
    truth = np.zeros_like(posteriors)
    truth[np.arange(len(truth)), holdout.labels] = 1.0
    tables = [
        reliability(posteriors[:, k], truth[:, k], weights, n_bins=n_bins, class_number=k) for k in range(n_classes)
    ]
    if n_classes == 2:
        shown, happened = posteriors[:, 1], truth[:, 1]
    else:
        chosen = posteriors.argmax(axis=1)
        shown, happened = posteriors.max(axis=1), (chosen == holdout.labels).astype(np.float64)
    by_width = reliability(shown, happened, weights, n_bins=n_bins)
    by_mass = reliability(shown, happened, weights, n_bins=n_bins, binning="mass")
    return CalibrationFigures(
        prior=prior,
        ece_equal_width=calibration_error(by_width),
        ece_equal_mass=calibration_error(by_mass),
        classwise_ece=np.array([calibration_error(table) for table in tables]),
        brier=float(weights @ ((posteriors - truth) ** 2).sum(axis=1)) / 2.0,
        log_loss=-float(weights @ logs[np.arange(len(logs)), holdout.labels]),
        table=tables[1] if n_classes == 2 else tuple(row for table in tables for row in table),
    )


def _mean_posterior(holdout: Holdout, even: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the posteriors at equal priors over classes of equal weight, and its standard error."""
    weights = holdout.weights_at(even)
    posteriors = np.exp(log_posterior(holdout.log_ratios, even))
    variance = np.zeros(holdout.n_classes)
    for k in range(holdout.n_classes):
        rows = holdout.labels == k
        within, values = weights[rows] * holdout.n_classes, posteriors[rows]
        spread = within**2 @ (values - within @ values) ** 2
        variance += spread / max(1.0 - float(within @ within), 1e-12) / holdout.n_classes**2
    return np.asarray(weights @ posteriors), np.asarray(np.sqrt(variance))


def _threshold_figures(
    holdout: Holdout, own: FloatArray, thresholds: Sequence[float] | None
) -> tuple[ThresholdFigures, ...]:
    if holdout.n_classes != 2:
        if thresholds is not None:
            raise InvalidInputError(f"thresholds are for two classes, got {holdout.n_classes}")
        return ()
    points = as_floats([0.0, log_threshold(own)] if thresholds is None else thresholds, "thresholds")
    if points.ndim != 1 or not np.isfinite(points).all():
        raise InvalidInputError(f"thresholds must be finite numbers, got {thresholds!r}")
    return tuple(ThresholdFigures(float(point), _rows_near(holdout, float(point))) for point in points)


def _rows_near(holdout: Holdout, point: float) -> ReliabilityBin | None:
    """Return the rows near a threshold as one bin, at the prior that makes the threshold a posterior of 1/2."""
    positive = float(np.clip(expit(-point), 1e-12, 1.0 - 1e-12))
    weights = holdout.weights_at([1.0 - positive, positive])
    posteriors = expit(holdout.log_ratios[:, 1] - point)
    near = (posteriors >= NEAR_THRESHOLD[0]) & (posteriors <= NEAR_THRESHOLD[1]) & (weights > 0.0)
    if not near.any():
        return None
    weight = float(weights[near].sum())
    return ReliabilityBin(
        class_number=1,
        mean_posterior=float(weights[near] @ posteriors[near]) / weight,
        observed_rate=float(weights[near] @ (holdout.labels[near] == 1)) / weight,
        weight=weight,
        n_rows=int(near.sum()),
    )
