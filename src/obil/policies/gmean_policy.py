"""Threshold at the best geometric mean of recall and specificity: the same at every prior."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.policies.operating_curve import OperatingCurve
from obil.policies.threshold_table import ThresholdTable, grid_priors
from obil.serving.holdout import Holdout


@dataclass(frozen=True, slots=True)
class GMeanPolicy:
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

    def bind(self, holdout: Holdout | None, *, positive: int | None = None) -> ThresholdTable:
        """Read the held-out rows once; `positive` is the class number to alert (1 if there are two)."""
        curve = OperatingCurve.of(holdout, positive=positive)
        return ThresholdTable.of(self.choose(curve, grid_priors()))

    def to_json(self) -> dict[str, Any]:
        """Return the name as a plain JSON value; there are no settings."""
        return {"name": self.name}
