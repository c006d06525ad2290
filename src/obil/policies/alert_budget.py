"""Threshold as low as a budget of alerts allows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.policies.curve_policy import CurvePolicy
from obil.policies.operating_curve import OperatingCurve
from obil.policies.settings import as_fraction

ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class AlertBudget(CurvePolicy):
    """Take the lowest threshold whose expected alert rate, P TPR + (1-P) FPR, is at most `rate`.

    A budget smaller than one held-out row can show is unreachable: nothing is alerted.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> AlertBudget(0.2).bind(rows).log_thresholds([0.1, 0.5])  # at .5 the positives alone exceed it
    array([ 0., inf])
    """

    rate: float
    name: ClassVar[str] = "budget"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", as_fraction("rate", self.rate))

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the lowest log threshold within the budget at each prior (n,), (n,)."""
        priors = positive_priors[:, None]
        alerts = priors * curve.true_positive_rates + (1.0 - priors) * curve.false_positive_rates  # (n, m)
        # alerts rise along the curve from 0: the last within the budget comes before the first beyond it
        within = np.sum(alerts <= self.rate + ROUNDING, axis=1) - 1
        found: FloatArray = curve.log_thresholds[within]
        return found
