"""Report on a stream: in detail, and over time."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from obil.errors import EstimationError, InvalidInputError
from obil.online.online_classifier import OnlineClassifier
from obil.online.reports.performance_report import Performance
from obil.service.records import SettingsChange, StreamDetail, StreamHistory
from obil.service.storage.stored_event import SETTINGS, StoredEvent, read_record
from obil.service.storage.writing import Point, StreamRow
from obil.service.streams.history_figures import LEVEL, HistoryFigures, PointFigures, probability_threshold
from obil.service.streams.live_stream import StateCopy, event_of, summary_of_row, utc
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank
from obil.trackers.tracker import CompiledTracker

IN_HTTP = (  # what the change report says in Python
    ("fed back by online.feedback(id, label)", "sent by POST /v1/streams/{name}/labels"),
    ("online.feedback(id, label, propensity=...)", "POST /v1/streams/{name}/labels with its propensity"),
    ("OnlineClassifier(..., unlabeled_as=...)", "unlabeled_as of PUT /v1/streams/{name}"),
    ("(propensity=)", "(propensity)"),
)


def detail_of(copy: StateCopy, model: RatioModel, events: Sequence[StoredEvent]) -> StreamDetail:
    """Return a stream in detail, with its audit."""
    summary = summary_of_row(copy.row)
    online = OnlineClassifier.from_state(model, copy.state)
    classes = model.classes_.tolist()
    names = [str(name) for name in classes]
    tracker = online.tracker
    start = tracker.start_prior if isinstance(tracker, CompiledTracker) else model.prior_
    return StreamDetail(
        **asdict(summary),
        classes=classes,
        interval=_interval(online, names),
        start_prior=dict(zip(names, start.tolist(), strict=True)),
        threshold=_threshold(online),
        evidence=_evidence(online),
        label_counts=asdict(online.label_counts),
        performance=_performance(online),
        change=_change_report(online, summary.name),
        settings={  # with `start_prior` as prior, they create another stream like it
            "policy": dict(online.policy.to_json()),
            "tracker": "bank" if isinstance(tracker, BayesBank) else "safe",
            "positive": summary.positive,
            "horizon": online.horizon,
            "unlabeled_as": online.unlabeled_as,
        },
        changes=[_change(event) for event in events if event.kind == SETTINGS],
        events=[event_of(event) for event in events],
    )


def history_of(row: StreamRow, points: Sequence[Point], figures: HistoryFigures, model: RatioModel) -> StreamHistory:
    """Return a stream over time as columns, with expected precision and recall."""
    summary = summary_of_row(row)
    classes = model.classes_.tolist()
    positive = classes.index(summary.positive) if summary.positive in classes else None
    columns: dict[str, list[float | None]] = {
        "at": [point.at for point in points],
        "row": [float(point.at_row) for point in points],
        "prior": [point.prior for point in points],
        "alert_rate": [point.n_alerts / point.n_rows if point.n_rows else None for point in points],
        "log_evidence": [point.log_evidence for point in points],
    }
    found = [figures.of(point, positive) for point in points]
    columns |= {name: [getattr(one, name) for one in found] for name in PointFigures._fields}
    training = float(model.prior_[positive]) if positive is not None else math.nan
    return StreamHistory(row.name, columns, training, summary.log_alarm)


def in_http(text: str, name: str) -> str:
    """Return a sentence of the change report for a reader of the service.

    >>> in_http("Get labels: each fed back by online.feedback(id, label).", "shop")
    'Get labels: each sent by POST /v1/streams/shop/labels.'
    """
    for python, call in IN_HTTP:
        text = text.replace(python, call.format(name=name))
    return text


def _change_report(online: OnlineClassifier, name: str) -> dict[str, Any]:
    report = online.explain(level=LEVEL).to_json()
    sentences = [in_http(sentence, name) for sentence in report["sentences"]]
    return report | {"sentences": sentences, "paragraph": " ".join(sentences)}


def _interval(online: OnlineClassifier, names: Sequence[str]) -> dict[str, tuple[float, float]] | None:
    try:
        interval = online.interval(LEVEL)
    except EstimationError:
        return None
    return None if interval is None else dict(zip(names, map(tuple, interval.tolist()), strict=True))


def _threshold(online: OnlineClassifier) -> dict[str, float | None]:
    threshold = online.log_threshold
    if threshold is None or not math.isfinite(threshold) or online.positive is None:
        return {"log_ratio": None, "probability": None}
    prior = float(online.prior[online.model.classes_.tolist().index(online.positive)])
    return {"log_ratio": threshold, "probability": probability_threshold(threshold, prior)}


def _evidence(online: OnlineClassifier) -> dict[str, Any] | None:
    monitor = online.monitor
    if monitor is None:
        return None
    return {
        "log_evidence": monitor.log_evidence,
        "log_alarm": monitor.log_alarm,
        "alarm_row": monitor.alarm_row,
        "where": monitor.difference().describe(),
    }


def _performance(online: OnlineClassifier) -> dict[str, Any] | None:
    if online.positive is None or not online.n_rows:
        return None
    try:
        report = online.performance(level=LEVEL)
    except (EstimationError, InvalidInputError):
        return None
    return {"now": _figures(report.now), "window": _figures(report.window), "text": report.describe()}


def _figures(performance: Performance) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in ("precision", "recall", "f1", "alert_rate", "cost"):
        one = getattr(performance, name)
        figures[name] = one and {"value": one.value, "low": one.low, "high": one.high, "source": one.source}
    return figures | {"trusted": performance.trusted, "rows": performance.n_rows, "labels": performance.n_labels}


def _change(event: StoredEvent) -> SettingsChange:
    record = read_record(event.payload)
    return SettingsChange(utc(event.at), event.sender, event.first_row, record["before"], record["after"])
