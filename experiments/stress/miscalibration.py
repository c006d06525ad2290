"""Distort log ratios until their calibration error at prior 1/2 is what was asked for, and see who suffers."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from experiments.choices.measures import EVEN
from experiments.stress.contest import Arrivals, f1, fitted, means_at, scored, scores_of_methods, streams_of
from obil.arrays import FloatArray
from obil.calibration.gate import Gate
from obil.calibration.reliability import calibration_error, reliability
from obil.serving.calibrators import LinearCalibrator, Quantity
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel

VERDICTS = ("deploy", "warn", "refuse", "too few")


class Fault(NamedTuple):
    """Distorted = slope * log ratio + shift."""

    slope: float = 1.0
    shift: float = 0.0

    def of(self, log_ratios: FloatArray) -> FloatArray:
        """Return distorted log ratios, (..., K = 2)."""
        wrong = log_ratios.copy()
        wrong[..., 1] = self.slope * wrong[..., 1] + self.shift
        return wrong

    def of_arrivals(self, arrivals: Arrivals) -> Arrivals:
        """Return a stream as a model with this fault sees it."""
        return arrivals._replace(log_ratios=self.of(arrivals.log_ratios), evidence=self.of(arrivals.evidence))


# each family grows with its strength; that of the last has no calibration error to aim at
FAMILIES = {
    "too high": lambda strength: Fault(shift=strength),
    "too low": lambda strength: Fault(shift=-strength),
    "too unsure": lambda strength: Fault(slope=float(np.exp(-strength))),
    "too sure": lambda strength: Fault(slope=strength),
}
STRENGTHS = np.linspace(0.0, 12.0, 241)


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return, for each family and step, calibration error, the gate's verdict, and by factor the F1 of every method."""
    part = fitted(cell["set"], cell["split"], settings["test_share"], cell["model"])
    streams = list(streams_of(part, settings, cell["split"]))
    seen = [scored(part, part.rows[stream.rows], part.labels[stream.rows], stream.prior) for stream in streams]
    resampled = part.resampled.predict(part.rows) == 1
    smote = [(stream.factor, {"SMOTE": f1(resampled[stream.rows], part.labels[stream.rows])}) for stream in streams]
    found: dict[str, Any] = {}
    for name, faults in faults_of(part.model.holdout_, settings).items():
        for step, fault in enumerate(faults):
            wrong = distorted(part.model, fault)
            scores = [
                (stream.factor, scores_of_methods(wrong, fault.of_arrivals(arrivals)))
                for stream, arrivals in zip(streams, seen, strict=True)
            ]
            verdict = Gate().judge(wrong.holdout_).decision
            found[f"{name}/{step}"] = (
                means_at([*scores, *smote])
                | {"ece": balanced_error(wrong.holdout_), "slope": fault.slope, "shift": fault.shift}
                | {outcome: float(verdict == outcome) for outcome in VERDICTS}
            )
    return found


def faults_of(holdout: Holdout, settings: dict[str, Any]) -> dict[str, list[Fault]]:
    """Return the faults of each family: none at all first, then the smallest that reaches each calibration error."""
    faults = {"too sure": [Fault(), *(FAMILIES["too sure"](slope) for slope in settings["slopes"])]}
    for name in ("too high", "too low", "too unsure"):
        errors = np.array([balanced_error(_distorted_rows(holdout, FAMILIES[name](s))) for s in STRENGTHS])
        # the smallest fault that reaches it: where none does, the worst
        places = [int(np.argmax(errors >= min(target, errors.max()))) for target in settings["targets"]]
        faults[name] = [Fault(), *(FAMILIES[name](float(STRENGTHS[place])) for place in places)]
    return faults


def balanced_error(holdout: Holdout) -> float:
    """Return the calibration error (ECE) at prior 1/2."""
    happened = (holdout.labels == 1).astype(np.float64)
    return calibration_error(reliability(expit(holdout.log_ratios[:, 1]), happened, holdout.weights_at(EVEN)))


def distorted(model: RatioModel, fault: Fault) -> RatioModel:
    """Return the model with a fault in every map to log ratios, those of views too: nobody is left who knows better."""
    assert model.evidence is not None
    views = tuple(replace(view, calibrator=FaultyMap(view.calibrator, fault)) for view in model.view_members)
    return replace(
        model, calibrator=_distorted_map(model.calibrator, fault), holdout_=_distorted_rows(model.holdout_, fault),
        evidence=replace(model.evidence, calibrator=FaultyMap(model.evidence.calibrator, fault)), view_members=views,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class FaultyMap:
    """A map whose log ratios have a fault."""

    right: Any  # the map without it
    fault: Fault

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self.right.n_classes)

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the distorted log ratios of raw scores, (n, K)."""
        return self.fault.of(self.right.apply(scores))

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Return the variance that the map's own uncertainty gives to a quantity: it knows nothing of the fault."""
        return np.asarray(self.right.variance_of(lambda moved: quantity(FaultyMap(moved, self.fault))))


def _distorted_rows(holdout: Holdout, fault: Fault) -> Holdout:
    return Holdout.of(fault.of(holdout.log_ratios), holdout.labels, holdout.weights)


def _distorted_map(calibrator: Any, fault: Fault) -> LinearCalibrator:
    assert isinstance(calibrator, LinearCalibrator)
    scale = np.array([1.0, fault.slope])
    offsets = calibrator.offsets * scale + np.array([0.0, fault.shift])
    return LinearCalibrator(calibrator.slopes * scale, offsets, calibrator.axes * scale)
