"""Monitor a stream: can any class prior explain it, or is something else changing."""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.monitor.difference import Difference as Difference
    from obil.monitor.difference import ScoreRegion as ScoreRegion
    from obil.monitor.label_shift_monitor import LabelShiftMonitor as LabelShiftMonitor
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
