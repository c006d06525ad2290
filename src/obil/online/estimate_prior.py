"""Estimate the prevalence of a batch, with everything that makes it uncertain."""

from typing import Any

from obil.serving.ratio_model import as_ratio_model
from obil.trackers.calibration_spread import evidence_variance, widen
from obil.trackers.evidence import PriorEstimate
from obil.trackers.pass_search import estimate_from_rows


def estimate_prior(model: Any, X: Any, *, level: float = 0.9) -> PriorEstimate:
    """Return the most likely class prior of a batch of unlabelled rows, with a confidence interval for each class.

    The interval carries what the rows leave open and what the calibrator does not know about itself.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> found = estimate_prior(model, [[-1.0]] * 50 + [[1.0]] * 50)
    >>> found.prior.round(2)  # half the rows look like either class
    array([0.5, 0.5])
    >>> bool(found.interval[1, 0] < 0.5 < found.interval[1, 1])
    True
    """
    fitted = as_ratio_model(model)
    found = estimate_from_rows(fitted.evidence_rows(X), level=level)
    interval = widen(found.prior, found.interval, evidence_variance(fitted, found.prior), level=level)
    return PriorEstimate(found.prior, interval, level, found.n_rows, tuple(fitted.classes_.tolist()))
