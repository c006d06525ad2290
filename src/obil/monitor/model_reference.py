"""Choose what the monitors of a model's streams compare with, once per model."""

from weakref import WeakKeyDictionary

from obil.monitor.reference import MonitorReference
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import thinned_rows

MONITOR_TOLERANCE = 0.02  # held-out scores come from models of the folds, which differ from the final one a little
MONITOR_ROWS = 50_000  # held-out rows of a class: more make a monitor slow to start, and hardly sharper

_REFERENCES: WeakKeyDictionary[RatioModel, MonitorReference] = WeakKeyDictionary()


def monitor_reference(model: RatioModel) -> MonitorReference:
    """Return the common reference of all streams of a model; computed once, kept as long as the model is."""
    if model not in _REFERENCES:
        _REFERENCES[model] = MonitorReference.of(reference_sample(model), tolerance=MONITOR_TOLERANCE)
    return _REFERENCES[model]


def reference_sample(model: RatioModel) -> Holdout:
    """Return the held-out rows that a monitor compares a stream with: all, or as many as are enough."""
    rows, holdout = thinned_rows(model.holdout_.labels, n_classes=model.n_classes, most=MONITOR_ROWS), model.holdout_
    return Holdout(holdout.log_ratios[rows], holdout.labels[rows], holdout.weights[rows])
