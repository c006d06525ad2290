"""Gather the facts of a stream that a report on it is made from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from obil.arrays import FloatArray, require_in
from obil.errors import EstimationError
from obil.online.decision_rule import DecisionRule
from obil.online.labels.one_class_labels import OneClass
from obil.online.state.monitoring_runs import MonitoringRun, alarm_in_stream
from obil.trackers import FixedPrior, SafeTracker
from obil.trackers.label_summary import LabelSummary

if TYPE_CHECKING:
    from obil.online.online_classifier import OnlineClassifier


# The monitor finds a shift of half a standard deviation in a median of about 600 rows, and with the tolerance of blocks
# of time in about 6,000 (docs/results/safety.md): before that, no alarm tells little.
ROWS_TO_TELL, TOLERANT_ROWS_TO_TELL = 1_000, 6_000


class MonitorFacts(NamedTuple):
    """What the monitor holds."""

    n_rows: int
    log_evidence: float
    log_alarm: float
    alarm_row: int | None  # of the stream, from 1
    difference: str  # where it is largest, in one sentence
    rows_to_tell: int = ROWS_TO_TELL  # rows without an alarm that tell something


@dataclass(frozen=True, slots=True, eq=False)
class StreamFacts:
    """Everything a report is made from beside the history."""

    class_names: tuple[str, ...]
    positive: int | None
    n_rows: int
    level: float  # of the intervals
    start_prior: FloatArray  # (K,)
    prior: FloatArray  # (K,)
    interval: FloatArray | None = None  # (K, 2)
    starts_at_training: bool = True
    follows: bool = True  # False where the prior is fixed by choice
    start_log_threshold: float | None = None  # of the policy, at the start prior
    log_threshold: float | None = None
    labels: LabelSummary | None = None  # where they can be believed
    n_unlabeled: int = 0  # rows among these labels for which none came, where unlabeled_as names a class
    one_class: OneClass | None = None  # why they cannot
    decides: str | None = None  # what decides, as a sentence of the safe tracker
    held_still: bool = False  # whether nothing but labels can move the prior
    unguarded: tuple[FloatArray, FloatArray] | None = None  # (K,) what scores alone suggest, (K, 2) its interval
    n_views: int = 0
    disagreement: float = 0.0  # of the views in the last block, in standard deviations
    monitor: MonitorFacts | None = None
    labels_since_alarm: tuple[int, ...] = ()  # (K,) of rows after the alarm
    monitoring_runs: tuple[MonitoringRun, ...] = ()  # that ended by a restart or a new model


def facts_of(online: "OnlineClassifier", *, level: float = 0.9) -> StreamFacts:
    """Gather the facts of a stream."""
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    model, tracker, monitor = online.model, online.tracker, online.monitor
    names = model.classes_.tolist()
    positive = None if online.positive is None else names.index(online.positive)
    start: FloatArray = getattr(tracker, "start_prior", model.prior_)
    try:
        interval = online.interval(level)
    except EstimationError:  # a calibrator whose spread cannot be found
        interval = None
    monitored = None
    if monitor is not None:
        alarm = alarm_in_stream(monitor, online.n_rows)
        monitored = MonitorFacts(
            monitor.n_monitored, monitor.log_evidence, monitor.log_alarm, alarm, monitor.difference().describe(),
            TOLERANT_ROWS_TO_TELL if monitor.settings["tolerance"] else ROWS_TO_TELL,
        )  # fmt: skip
    one_class = online.one_class_labels
    safe = tracker if isinstance(tracker, SafeTracker) else None
    labels = None if safe is None or one_class is not None else safe.label_summary()
    waits = safe is not None and safe.lead == "training" and not safe.n_labels
    return StreamFacts(
        class_names=tuple(str(name) for name in names),
        positive=positive,
        n_rows=online.n_rows,
        level=level,
        start_prior=start,
        prior=online.prior,
        interval=interval,
        starts_at_training=bool(np.allclose(start, model.prior_, rtol=1e-6)),
        follows=not waits and not isinstance(tracker, FixedPrior),
        start_log_threshold=DecisionRule(model, online.policy, positive).log_threshold(start),
        log_threshold=online.log_threshold,
        labels=labels,
        n_unlabeled=0 if labels is None else min(online.label_counts.unlabeled, labels.n_labels),
        one_class=one_class,
        decides=None if safe is None else safe.status,
        held_still=safe is not None and not safe.can_move,
        unguarded=None if safe is None else safe.unguarded(level),
        n_views=0 if safe is None else safe.n_views,
        disagreement=0.0 if safe is None else safe.disagreement,
        monitor=monitored,
        labels_since_alarm=online.labels_since_alarm,
        monitoring_runs=online.monitoring_runs,
    )
