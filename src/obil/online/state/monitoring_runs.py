"""Remember the monitoring runs of a stream that ended: where, and where they had alarmed."""

from typing import NamedTuple

from obil.monitor import LabelShiftMonitor

MOST_RUNS = 8  # kept, the last ones


class MonitoringRun(NamedTuple):
    """A run of the monitor that ended because it was restarted or the model replaced."""

    ended_after: int  # rows of the stream
    alarm_row: int | None  # of the stream, from 1; None where it had not alarmed


def with_ended(
    past: tuple[MonitoringRun, ...], monitor: LabelShiftMonitor | None, n_rows: int
) -> tuple[MonitoringRun, ...]:
    """Return the past runs once that of `monitor` ends after n rows of the stream; one without rows does not count."""
    if monitor is None or not monitor.n_monitored:
        return past
    return (*past, MonitoringRun(n_rows, alarm_in_stream(monitor, n_rows)))[-MOST_RUNS:]


def alarm_in_stream(monitor: LabelShiftMonitor, n_rows: int) -> int | None:
    """Return the row of the stream, from 1, that raised a monitor's alarm; None without one."""
    if monitor.alarm_row is None:
        return None
    before = n_rows - monitor.n_rows  # rows of an earlier model
    return max(monitor.alarm_row + before, 1)
