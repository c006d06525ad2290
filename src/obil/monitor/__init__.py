"""The monitor: whether any prior can explain a stream."""

from obil.monitor.difference import Difference, ScoreRegion
from obil.monitor.label_shift_monitor import LabelShiftMonitor

__all__ = ["Difference", "LabelShiftMonitor", "ScoreRegion"]
