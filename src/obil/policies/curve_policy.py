"""Choose thresholds on the operating curve of held-out rows: what all but the cost policy do."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from obil.arrays import FloatArray
from obil.policies.operating_curve import OperatingCurve
from obil.policies.threshold_table import ThresholdTable, grid_priors
from obil.serving.holdout import Holdout


@dataclass(frozen=True, slots=True)
class CurvePolicy:
    """Bind a policy to held-out rows by its `choose`, and write its settings."""

    name: ClassVar[str]

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the log threshold on the curve at each prior (n,), (n,)."""
        raise NotImplementedError

    def bind(self, holdout: Holdout | None, *, positive: int | None = None) -> ThresholdTable:
        """Read the held-out rows once; `positive` is the class number to alert (1 if there are two)."""
        curve = OperatingCurve.of(holdout, positive=positive)
        return ThresholdTable.of(self.choose(curve, grid_priors()))

    def to_json(self) -> dict[str, Any]:
        """Return the name and the settings as plain JSON values."""
        return {"name": self.name} | {setting.name: getattr(self, setting.name) for setting in fields(self)}
