"""Threshold at the best F-beta: precision against recall, at the prior of the moment."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.policies.curve_policy import CurvePolicy
from obil.policies.operating_curve import OperatingCurve
from obil.policies.settings import as_number

LARGEST_BETA = 1e6


@dataclass(frozen=True, slots=True)
class FBetaPolicy(CurvePolicy):
    """Maximise F = (1 + b^2) P TPR / (b^2 P + P TPR + (1-P) FPR); beta above 1 favours recall.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> FBetaPolicy().bind(rows).log_thresholds([0.5])  # between the classes
    array([0.])
    """

    beta: float = 1.0
    name: ClassVar[str] = "fbeta"

    def __post_init__(self) -> None:
        beta = as_number("beta", self.beta)
        if not 0.0 < beta <= LARGEST_BETA:
            raise InvalidInputError(f"beta must be positive and at most {LARGEST_BETA:g}, got {self.beta!r:.40}")
        object.__setattr__(self, "beta", beta)

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the log threshold of the best F-beta on the curve at each prior (n,), (n,)."""
        odds_against = (1.0 - positive_priors[:, None]) / positive_priors[:, None]  # (n, 1)
        hits = curve.true_positive_rates  # (m,)
        missed_weight = self.beta**2
        # alerting nothing finds nothing, so it is never the best: leaving it out spares a 0/0
        found = hits > 0.0
        false_alarms = odds_against * curve.false_positive_rates[found]  # (n, m)
        score = (1.0 + missed_weight) * hits[found] / (missed_weight + hits[found] + false_alarms)
        best: FloatArray = curve.log_thresholds[found][np.argmax(score, axis=1)]
        return best
