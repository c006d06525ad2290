"""Widen the interval of a prior by what the calibrator does not know about itself."""

from functools import lru_cache

import numpy as np

from obil.arrays import FloatArray
from obil.serving.ratio_model import RatioModel
from obil.spark.shipped_model import ShippedModel
from obil.trackers.calibration_spread import calibration_variance, logits_of, widen
from obil.trackers.estimate import PriorEstimate


def with_calibrator(model: RatioModel, found: PriorEstimate) -> PriorEstimate:
    """Return an estimate whose interval also carries the calibrator's own uncertainty."""
    variance = calibration_variance(model.calibrator, model.holdout_, found.prior)
    wider = widen(found.prior, found.interval, variance, level=found.level)
    return PriorEstimate(found.prior, wider, found.level, found.n_rows)


def with_shared_calibrator(shipped: ShippedModel, found: PriorEstimate) -> PriorEstimate:
    """Do what `with_calibrator` does at a prior near by: many groups then share one calculation."""
    near = tuple((np.round(10.0 * logits_of(found.prior)) / 10.0).tolist())
    wider = widen(found.prior, found.interval, _variance_near(shipped, near), level=found.level)
    return PriorEstimate(found.prior, wider, found.level, found.n_rows)


@lru_cache(maxsize=4_096)
def _variance_near(shipped: ShippedModel, logits: tuple[float, ...]) -> FloatArray:
    prior = 1.0 / (1.0 + np.exp(-np.array(logits)))
    model = shipped.load()
    return calibration_variance(model.calibrator, model.holdout_, prior / prior.sum())
