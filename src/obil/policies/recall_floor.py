"""Threshold as high as a recall allows: the same at every prior."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.policies.curve_policy import CurvePolicy
from obil.policies.operating_curve import OperatingCurve
from obil.policies.settings import as_fraction

ROUNDING = 1e-12  # ten equal weights of 1.3: the first nine sum to less than .9 of all


@dataclass(frozen=True, slots=True)
class RecallFloor(CurvePolicy):
    """Take the highest threshold whose recall is at least `recall`: the fewest alerts that find so many.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> RecallFloor(0.9).bind(rows).log_thresholds([0.01, 0.5])
    array([0., 0.])
    """

    recall: float
    name: ClassVar[str] = "recall"

    def __post_init__(self) -> None:
        object.__setattr__(self, "recall", as_fraction("recall", self.recall))

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the highest log threshold that reaches the recall, once for each prior (n,), (n,)."""
        # always reached: the last threshold alerts everything
        first = int(np.argmax(curve.true_positive_rates >= self.recall - ROUNDING))
        return np.full(len(positive_priors), curve.log_thresholds[first])
