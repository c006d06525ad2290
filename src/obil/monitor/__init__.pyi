from .difference import Difference as Difference
from .difference import ScoreRegion as ScoreRegion
from .label_shift_monitor import LabelShiftMonitor as LabelShiftMonitor
