"""Compute the figures of a history's points once: the widened interval of the prior, expected precision and recall."""

import math
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from obil.arrays import FloatArray
from obil.errors import EstimationError
from obil.online.reports.decided_holdout import DecidedHoldout
from obil.service.storage.writing import Point
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import evidence_variance, logits_of

LEVEL = 0.9  # of all intervals
LOGIT_STEP = 0.5  # between the priors at which the spread of the calibration map is computed
MOST_KEPT = 50_000  # points


class PointFigures(NamedTuple):
    """What is computed of one point."""

    threshold: float | None  # on the probability, at its prior
    low: float | None
    high: float | None
    precision: float | None
    recall: float | None


class HistoryFigures:
    """The figures of points under one model; points never change, so each is computed once."""

    def __init__(self, model: RatioModel) -> None:
        self._model = model
        self._known: OrderedDict[tuple[Point, int | None], PointFigures] = OrderedDict()
        self._spreads: dict[int, float] = {}
        self._rates: tuple[float, int, FloatArray] | None = None  # the threshold is often the same

    def of(self, point: Point, positive: int | None) -> PointFigures:
        """Return the figures of a point."""
        found = self._known.get((point, positive))
        if found is None:
            threshold = probability_threshold(point.log_threshold, point.prior)
            found = PointFigures(threshold, *self._interval(point), *self._expected(point, positive))
            self._known[point, positive] = found
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return found

    def _interval(self, point: Point) -> tuple[float | None, float | None]:
        """Return the credible interval of the prior, widened by the uncertainty of the calibration map."""
        if point.prior is None or point.low is None or point.high is None:
            return None, None
        if self._model.n_classes != 2:
            return point.low, point.high
        centre, lower, upper = logits_of(np.array([point.prior, point.low, point.high])).tolist()
        extra = (float(ndtri(0.5 + LEVEL / 2)) * self._spread(centre)) ** 2
        low = float(expit(centre - math.sqrt((centre - lower) ** 2 + extra)))
        return low, float(expit(centre + math.sqrt((upper - centre) ** 2 + extra)))

    def _spread(self, logit: float) -> float:
        """Return the standard deviation in the logit that the calibration map adds at a prior, interpolated."""
        below = math.floor(logit / LOGIT_STEP)
        part = logit / LOGIT_STEP - below
        return (1.0 - part) * self._spread_at(below) + part * self._spread_at(below + 1)

    def _spread_at(self, step: int) -> float:
        if step not in self._spreads:
            prior = float(expit(step * LOGIT_STEP))
            try:
                variance = evidence_variance(self._model, np.array([1.0 - prior, prior]))
                self._spreads[step] = math.sqrt(float(np.asarray(variance)[-1]))
            except EstimationError:
                self._spreads[step] = 0.0
        return self._spreads[step]

    def _expected(self, point: Point, positive: int | None) -> tuple[float | None, float | None]:
        """Return the precision and recall of held-out rows at a point's prior and threshold, for two classes."""
        if positive is None or self._model.n_classes != 2 or point.prior is None or point.log_threshold is None:
            return None, None
        if self._rates is None or self._rates[:2] != (point.log_threshold, positive):
            held_out = DecidedHoldout.of(self._model, self._model.prior_, point.log_threshold, positive)
            self._rates = point.log_threshold, positive, held_out.rates(held_out.ratios)
        rates = self._rates[2]
        true_alerts, false_alerts = point.prior * rates[positive], (1.0 - point.prior) * rates[1 - positive]
        alerts = true_alerts + false_alerts
        return float(true_alerts / alerts) if alerts > 0.0 else None, float(rates[positive])


def probability_threshold(log_threshold: float | None, prior: float | None) -> float | None:
    """Return the threshold on the probability at a prior.

    >>> probability_threshold(0.0, 0.2)
    0.2
    """
    if log_threshold is None or prior is None:
        return None
    return float(expit(log_threshold + logits_of(np.array([prior]))[0]))
