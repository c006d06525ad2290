"""Threshold as high as a recall allows: the same at every prior."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.policies.operating_curve import OperatingCurve
from obil.policies.settings import as_fraction
from obil.policies.threshold_table import ThresholdTable, grid_priors
from obil.serving.holdout import Holdout

ROUNDING = 1e-12  # ten equal weights of 1.3: the first nine sum to less than .9 of all


@dataclass(frozen=True, slots=True)
class RecallFloor:
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

    def bind(self, holdout: Holdout | None, *, positive: int | None = None) -> ThresholdTable:
        """Read the held-out rows once; `positive` is the class number to alert (1 if there are two)."""
        curve = OperatingCurve.of(holdout, positive=positive)
        return ThresholdTable.of(self.choose(curve, grid_priors()))

    def to_json(self) -> dict[str, Any]:
        """Return the name and the settings as plain JSON values."""
        return {"name": self.name, "recall": self.recall}
