"""Hold everything that a stream learns in one flat record."""

from typing import Any, NamedTuple

import numpy as np

from obil.arrays import IntArray
from obil.errors import InvalidStateError
from obil.monitor.monitor_memory import MonitorMemory
from obil.online.labels.one_class_labels import OneClassMemory
from obil.online.state.history import LARGEST_COUNT, HistoryMemory
from obil.online.state.monitoring_runs import MOST_RUNS, MonitoringRun
from obil.online.state.outcome_tally import TallyMemory

NO_ALARM = -1


class Counters(NamedTuple):
    """What a stream counts itself."""

    seen: IntArray  # (3,) rows, the row from which the model scores, monitoring runs that ended
    since_alarm: IntArray  # (K,) labels of rows that the monitor no longer trusted, by class
    runs: IntArray  # (MOST_RUNS, 2) where each ended, and the row of its alarm

    @classmethod
    def of(cls, n_rows: int, model_since: int, since_alarm: list[int], runs: tuple[MonitoringRun, ...]) -> "Counters":
        """Return the counters as arrays."""
        places = np.zeros((MOST_RUNS, 2), dtype=np.int64)
        for place, run in enumerate(runs):
            places[place] = run.ended_after, NO_ALARM if run.alarm_row is None else run.alarm_row
        return cls(np.array([n_rows, model_since, len(runs)]), np.array(since_alarm), places)

    @property
    def monitoring_runs(self) -> tuple[MonitoringRun, ...]:
        """The runs that ended, in order."""
        return tuple(
            MonitoringRun(end, None if alarm == NO_ALARM else alarm)
            for end, alarm in self.runs[: self.seen[2]].tolist()
        )

    def require_possible(self) -> None:
        """Refuse restored counters that no stream could have left."""
        n_rows, model_since, n_runs = self.seen.tolist()
        if not (0 <= model_since <= n_rows <= LARGEST_COUNT and 0 <= n_runs <= MOST_RUNS):
            raise InvalidStateError(f"this state is damaged: a stream cannot count {self.seen.tolist()}")
        if (self.since_alarm < 0).any() or (self.since_alarm > n_rows).any():
            raise InvalidStateError("this state is damaged: what was counted since the alarm is no count")
        last = 0
        for end, alarm in self.runs[:n_runs].tolist():
            if not last <= end <= n_rows or not (alarm == NO_ALARM or 1 <= alarm <= max(end, 1)):
                raise InvalidStateError(
                    "this state is damaged: monitoring runs end one after the other, within the stream"
                )
            last = end


class StreamMemory(NamedTuple):
    """All parts; their layout follows from the classes, the views and the settings."""

    counters: Counters
    tracker: Any  # its memory; None of a tracker that has none
    monitor: MonitorMemory | None
    tally: TallyMemory
    history: HistoryMemory
    one_class: OneClassMemory
