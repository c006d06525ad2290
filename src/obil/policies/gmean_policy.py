"""Threshold at the best geometric mean of recall and specificity: the same at every prior."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.policies.curve_policy import CurvePolicy
from obil.policies.operating_curve import OperatingCurve


@dataclass(frozen=True, slots=True)
class GMeanPolicy(CurvePolicy):
    """Maximise sqrt(TPR (1 - FPR)), in which the prior does not occur.

    Scores that are all equal reach nothing: every threshold has a geometric mean of 0.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> GMeanPolicy().bind(rows).log_thresholds([0.01, 0.5])
    array([0., 0.])
    """

    name: ClassVar[str] = "gmean"

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the log threshold of the best geometric mean, once for each prior (n,), (n,)."""
        squared = curve.true_positive_rates * (1.0 - curve.false_positive_rates)  # (m,)
        return np.full(len(positive_priors), curve.log_thresholds[np.argmax(squared)])
