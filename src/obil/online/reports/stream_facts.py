"""Gather the facts of a stream that a report on it is made from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from obil.arrays import FloatArray, require_in
from obil.errors import EstimationError
from obil.online.decision_rule import DecisionRule
from obil.online.labels.one_class_labels import OneClass
from obil.online.reports.monitoring_runs import MonitoringRun, alarm_in_stream
from obil.trackers import FixedPrior, SafeTracker
from obil.trackers.label_experts import COUNT_MEMORIES, RECALIBRATION_MEMORIES

if TYPE_CHECKING:
    from obil.online.online_classifier import OnlineClassifier


class LabelFacts(NamedTuple):
    """What labels have said so far."""

    n_labels: int
    recalibration_weight: float  # what the recalibrations have earned of all experts
    slope: float  # of the scores by the last 1,000 labels or so: 1 where they are right
    slope_sd: float
    counts: FloatArray  # (K,) the last 1,000 labels or so, weighted by 1 / propensity up to a factor
    share_of_scores: FloatArray  # (K,) the prior by unlabelled scores alone
    say: float = 1.0  # how much of what is decided is owed to them
    n_unlabeled: int = 0  # rows among these labels that none came for, where unlabeled_as means a class


class MonitorFacts(NamedTuple):
    """What the monitor holds."""

    n_rows: int
    log_evidence: float
    log_alarm: float
    alarm_row: int | None  # of the stream, from 1
    difference: str  # where it is largest, in one sentence


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
    follows: bool = True  # False where the prior is kept by choice, whatever comes
    start_log_threshold: float | None = None  # of the policy, at the start prior
    log_threshold: float | None = None
    labels: LabelFacts | None = None  # where they can be believed
    one_class: OneClass | None = None  # why they cannot
    n_views: int = 0
    disagreement: float = 0.0  # of the views in the last block, in standard deviations
    watch: MonitorFacts | None = None
    labels_since_alarm: tuple[int, ...] = ()  # (K,) of rows that the monitor no longer trusted
    monitoring_runs: tuple[MonitoringRun, ...] = ()  # that ended by a restart or a new model


def facts_of(online: "OnlineClassifier", *, level: float = 0.9) -> StreamFacts:
    """Gather the facts of a stream."""
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    model, tracker, monitor = online.model, online.tracker, online.monitor
    names = model.classes_.tolist()
    positive = None if online.positive is None else names.index(online.positive)
    state = tracker.state()
    start = np.array(state.get("settings", {}).get("prior", model.prior_), dtype=np.float64)
    try:
        interval = online.interval(level)
    except EstimationError:  # a calibrator whose spread cannot be found
        interval = None
    watch = None
    if monitor is not None:
        alarm = alarm_in_stream(monitor, online.n_rows)
        watch = MonitorFacts(
            monitor.n_monitored, monitor.log_evidence, monitor.log_alarm, alarm, monitor.difference().describe()
        )
    one_class = online.one_class_labels
    safe = tracker if isinstance(tracker, SafeTracker) else None
    waits = safe is not None and state["settings"]["lead"] == "training" and not safe.n_labels
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
        labels=None
        if safe is None or one_class is not None
        else _label_facts(safe, state["memory"], online.label_counts.unlabeled),
        one_class=one_class,
        n_views=0 if safe is None else safe.n_views,
        disagreement=0.0 if safe is None else safe.disagreement,
        watch=watch,
        labels_since_alarm=online.labels_since_alarm,
        monitoring_runs=online.monitoring_runs,
    )


def _label_facts(tracker: SafeTracker, memory: dict[str, Any], n_unlabeled: int) -> LabelFacts | None:
    if not tracker.n_labels:
        return None
    recent = RECALIBRATION_MEMORIES.index(1_000.0)
    precision = np.array(memory["labels.precisions"][recent])
    weights = tracker.expert_weights
    return LabelFacts(
        n_labels=tracker.n_labels,
        recalibration_weight=sum(weight for name, weight in weights.items() if name.startswith("recalibration")),
        slope=float(memory["labels.maps"][recent][0]),
        slope_sd=float(np.sqrt(np.linalg.inv(precision)[0, 0])),
        counts=np.array(memory["labels.counts"][COUNT_MEMORIES.index(1_000.0)]),
        share_of_scores=np.array(memory["slow.prior"]),
        say=tracker.label_weight,
        n_unlabeled=min(n_unlabeled, tracker.n_labels),
    )
