"""Threshold as low as a precision allows, or alert nothing where none reaches it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.policies.curve_policy import CurvePolicy
from obil.policies.operating_curve import OperatingCurve
from obil.policies.settings import as_fraction

# One or two lucky rows at the top promise any precision; fewer than three are not believed.
FEWEST_ROWS = 3.0


@dataclass(frozen=True, slots=True)
class PrecisionFloor(CurvePolicy):
    """Among the thresholds with P TPR / (P TPR + (1-P) FPR) >= `precision`, take the one that finds most.

    A threshold counts only if at least three held-out rows lie above it (effective rows, where weights
    differ). Where none counts the floor is unreachable: the threshold is +inf and `reachable` says so.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -1.0]] * 4 + [[0.0, 1.0]] * 4, [0, 0, 0, 1, 0, 1, 1, 1])
    >>> bound = PrecisionFloor(0.7).bind(rows)
    >>> bound.log_thresholds([0.5, 0.01])
    array([ 0., inf])
    >>> bound.reachable([0.5, 0.01])
    array([ True, False])
    """

    precision: float
    name: ClassVar[str] = "precision"

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", as_fraction("precision", self.precision))

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the lowest log threshold that meets the floor at each prior (n,), or +inf, (n,)."""
        hits = positive_priors[:, None] * curve.true_positive_rates  # (n, m)
        false_alarms = (1.0 - positive_priors[:, None]) * curve.false_positive_rates  # (n, m)
        believed = curve.effective_rows >= FEWEST_ROWS * (1.0 - 1e-9)  # (m,)
        meets = (hits >= self.precision * (hits + false_alarms)) & believed & (hits > 0.0)
        # recall rises along the curve, so the last that meets the floor finds most
        last = meets.shape[1] - 1 - np.argmax(meets[:, ::-1], axis=1)
        found: FloatArray = np.where(meets.any(axis=1), curve.log_thresholds[last], np.inf)
        return found
