"""Check a ratio model on labelled rows: its calibration, what that means for the ratio, and the gate's verdict."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_log_ratios
from obil.calibration.diagnose import Diagnosis, ThresholdFigures, diagnose
from obil.calibration.gate import Gate
from obil.calibration.recalibration import Estimate
from obil.calibration.verdict import Verdict
from obil.errors import InvalidInputError
from obil.readable import Table, as_html, as_text
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import Evidence, labels_to_numbers


class Scored(Protocol):
    """What can be verified: anything with classes that gives log ratios."""

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The user's own classes, (K,)."""

    def log_ratios(self, X: Any) -> FloatArray:
        """Return log ratios, (n, K)."""


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """A model's calibration on labelled rows and the gate's verdict on it.

    >>> import numpy as np
    >>> from obil import RatioClassifier
    >>> y = np.repeat([0, 1], 2_000)
    >>> scores = np.random.default_rng(0).normal(2.0 * y)
    >>> model = RatioClassifier.from_scores(scores[::2], y[::2])
    >>> verify(model, scores[1::2, None], y[1::2]).verdict.decision
    'deploy'
    """

    classes: tuple[object, ...]
    diagnosis: Diagnosis
    verdict: Verdict
    evidence: str | None = None  # what the prior is read from, and the figures it was chosen by

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        return Table(f"Verdict: {self.verdict.decision}", notes=self.lines())

    def to_json(self) -> dict[str, object]:
        """Return everything as plain values."""
        return {
            "classes": list(self.classes),
            "diagnosis": self.diagnosis.to_json(),
            "verdict": self.verdict.to_json(),
            "evidence": self.evidence,
        }

    def lines(self) -> tuple[str, ...]:
        """Return the report as lines of text: the rows, calibration, what it means for the ratio, the verdict."""
        diagnosis = self.diagnosis
        recalibration, balanced, own = diagnosis.recalibration, diagnosis.balanced, diagnosis.own
        counts = ", ".join(
            f"{count} {name}" for name, count in zip(self.classes, diagnosis.holdout.counts.tolist(), strict=True)
        )
        separation = diagnosis.separation
        pair = f"{self.classes[separation.lower_class]} from {self.classes[separation.upper_class]}"
        lines = [
            f"{len(diagnosis.holdout.labels)} labelled rows: {counts}",
            f"separation: AUC {separation.auc:.3f} ({_range(separation.interval)}), {pair}",
            *(
                f"offset of {name}: {_estimate(shift)}; ideal 0"
                for name, shift in zip(self.classes[1:], recalibration.shifts, strict=True)
            ),
            f"slope: {_estimate(recalibration.slope)}; ideal 1",
            f"calibration error at equal class priors: {diagnosis.balanced_ece:.3f} "
            f"(log loss {balanced.log_loss:.3f}, Brier {balanced.brier:.3f})",
            f"calibration error at the rows' own prior: {own.ece_equal_width:.4f} "
            f"(log loss {own.log_loss:.3f}, Brier {own.brier:.3f}); small whenever a class is rare, it decides nothing",
            *(_threshold_line(threshold) for threshold in diagnosis.thresholds),
            *(() if self.evidence is None else (f"evidence for the prior: {self.evidence}",)),
            self.verdict.sentence,
            *(f"  also {reason}" for reason in self.verdict.reasons[1:]),
        ]
        return tuple(lines)


def verify(
    model: Scored,
    X: Any,
    y: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    gate: Gate | None = None,
) -> Verification:
    """Check a model on labelled rows that it was not fitted on: its calibration, and the deployment gate's verdict.

    Parameters
    ----------
    y
        The user's own labels; every class needs a row.
    sample_weight
        What each row stands for in the population.
    gate
        Other settings than the ones to deploy with.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(classes_=np.array(["ok", "fraud"]), log_ratios=lambda X: np.asarray(X))
    >>> rows = [[0.0, -1.0], [0.0, 1.0], [0.0, 1.0]]
    >>> verify(model, rows, ["ok", "fraud", "ok"]).verdict.decision
    'too few'
    """
    classes = np.asarray(model.classes_)
    labels = labels_to_numbers(y, classes)
    missing = [name for k, name in enumerate(classes.tolist()) if not (labels == k).any()]
    if missing:
        raise InvalidInputError(f"every class needs a labelled row, got none of {missing}")
    rows = as_log_ratios(model.log_ratios(X), n_classes=len(classes))
    diagnosis = diagnose(Holdout.of(rows, labels, sample_weight))
    inner = getattr(getattr(model, "model_", model), "evidence", None)
    chosen = inner.choice if isinstance(inner, Evidence) else None
    return Verification(tuple(classes.tolist()), diagnosis, (gate or Gate()).judge(diagnosis), chosen)


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.value:+.2f} ({_range(estimate.interval)})"


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def _threshold_line(threshold: ThresholdFigures) -> str:
    where = f"near the log threshold {threshold.log_threshold:+.2f}"
    if threshold.rows is None:
        return f"{where}: no rows, so nothing supports decisions there"
    error = threshold.rows.ratio_error
    if np.isinf(error):
        return f"{where}: {threshold.rows.n_rows} rows, too few or too far out to bound the ratio's error"
    return f"{where}: {threshold.rows.n_rows} rows, the ratio is off by up to {error:.0%} as far as they tell"
