"""Widen the interval of a prior by the uncertainty of the calibration map."""

from functools import lru_cache

import numpy as np
from scipy.special import expit

from obil.arrays import FloatArray
from obil.serving.ratio_model import RatioModel
from obil.spark.shipped_model import ShippedModel
from obil.trackers.calibration_spread import calibration_variance, logits_of, widen
from obil.trackers.evidence import PriorEstimate


def with_calibration(model: RatioModel, found: PriorEstimate) -> PriorEstimate:
    """Return an estimate whose interval covers the uncertainty of the calibration map as well."""
    return _widened(found, calibration_variance(model.calibrator, model.holdout_, found.prior))


def with_cached_calibration(shipped: ShippedModel, found: PriorEstimate) -> PriorEstimate:
    """Do the same at the prior rounded to .1 in the logit, so that many groups need few computations."""
    near = np.round(10.0 * logits_of(found.prior)) / 10.0
    return _widened(found, _variance_at(shipped, tuple(near.tolist())))


def _widened(found: PriorEstimate, variance: FloatArray) -> PriorEstimate:
    wider = widen(found.prior, found.interval, variance, level=found.level)
    return PriorEstimate(found.prior, wider, found.level, found.n_rows)


@lru_cache(maxsize=4_096)
def _variance_at(shipped: ShippedModel, logits: tuple[float, ...]) -> FloatArray:
    prior, model = np.asarray(expit(logits)), shipped.load()
    return calibration_variance(model.calibrator, model.holdout_, prior / prior.sum())
