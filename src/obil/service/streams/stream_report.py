"""Report on a stream: in detail, and over time."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from obil.arrays import FloatArray
from obil.errors import EstimationError, InvalidInputError
from obil.online.online_classifier import OnlineClassifier
from obil.online.reports.decided_holdout import DecidedHoldout
from obil.online.reports.performance_report import Performance
from obil.service.records import SettingsChange, StreamDetail, StreamHistory
from obil.service.storage.stored_event import SETTINGS, StoredEvent, read_record
from obil.service.storage.writing import Point, StreamRow
from obil.service.streams.live_stream import StateCopy, event_of, summary_of_row, utc
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank
from obil.trackers.calibration_spread import evidence_variance, logits_of
from obil.trackers.tracker import CompiledTracker

LEVEL = 0.9  # of all intervals
IN_HTTP = (  # what the change report says in Python
    ("fed back by online.feedback(id, label)", "sent by POST /v1/streams/{name}/labels"),
    ("online.feedback(id, label, propensity=...)", "POST /v1/streams/{name}/labels with its propensity"),
    ("OnlineClassifier(..., unlabeled_as=...)", "unlabeled_as of PUT /v1/streams/{name}"),
    ("(propensity=)", "(propensity)"),
)
SPREAD_PRIORS = 6  # at which the spread of the calibration map is computed; it is interpolated between them


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


def history_of(row: StreamRow, points: Sequence[Point], model: RatioModel) -> StreamHistory:
    """Return a stream over time as columns, with expected precision and recall."""
    summary = summary_of_row(row)
    positive = summary.positive
    classes = model.classes_.tolist()
    k = classes.index(positive) if positive in classes else None
    columns: dict[str, list[float | None]] = {
        "at": [point.at for point in points],
        "row": [float(point.at_row) for point in points],
        "prior": [point.prior for point in points],
        "threshold": [_probability_threshold(point.log_threshold, point.prior) for point in points],
        "alert_rate": [point.n_alerts / point.n_rows if point.n_rows else None for point in points],
        "log_evidence": [point.log_evidence for point in points],
    }
    columns["low"], columns["high"] = _widened(points, model)
    columns["precision"], columns["recall"] = _expected(points, model, k)
    training = float(model.prior_[k]) if k is not None else math.nan
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
    return {"log_ratio": threshold, "probability": _probability_threshold(threshold, prior)}


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


def _probability_threshold(log_threshold: float | None, prior: float | None) -> float | None:
    """Return the threshold on the probability at a prior."""
    if log_threshold is None or prior is None:
        return None
    return float(expit(log_threshold + logits_of(np.array([prior]))[0]))


def _widened(points: Sequence[Point], model: RatioModel) -> tuple[list[float | None], list[float | None]]:
    """Return the credible intervals of the prior, widened by the uncertainty of the calibration map."""
    known = [i for i, point in enumerate(points) if None not in (point.prior, point.low, point.high)]
    low: list[float | None] = [None] * len(points)
    high: list[float | None] = [None] * len(points)
    if not known or model.n_classes != 2:
        for i in known:
            low[i], high[i] = points[i].low, points[i].high
        return low, high
    centre, lower, upper = (
        logits_of(np.array([getattr(points[i], name) for i in known])) for name in ("prior", "low", "high")
    )
    spread = _spread(centre, model)
    z = float(ndtri(0.5 + LEVEL / 2))
    for j, i in enumerate(known):
        extra = (z * spread[j]) ** 2
        low[i] = float(expit(centre[j] - math.sqrt((centre[j] - lower[j]) ** 2 + extra)))
        high[i] = float(expit(centre[j] + math.sqrt((upper[j] - centre[j]) ** 2 + extra)))
    return low, high


def _spread(logits: FloatArray, model: RatioModel) -> FloatArray:
    """Return the standard deviation in the logit that the calibration map adds at each prior, interpolated."""
    grid = np.unique(np.linspace(logits.min(), logits.max(), SPREAD_PRIORS))
    found = []
    for logit in grid:
        prior = float(expit(logit))
        try:
            variance = evidence_variance(model, np.array([1.0 - prior, prior]))
            found.append(math.sqrt(float(np.asarray(variance)[-1])))
        except EstimationError:
            found.append(0.0)
    return np.interp(logits, grid, found)


def _expected(
    points: Sequence[Point], model: RatioModel, positive: int | None
) -> tuple[list[float | None], list[float | None]]:
    """Return the precision and recall of held-out rows at each point's prior and threshold, for two classes."""
    if positive is None or model.n_classes != 2:
        return [None] * len(points), [None] * len(points)
    precision: list[float | None] = []
    recall: list[float | None] = []
    rates_at: dict[float, FloatArray] = {}
    for point in points:
        if point.prior is None or point.log_threshold is None:
            precision.append(None)
            recall.append(None)
            continue
        if point.log_threshold not in rates_at:
            held_out = DecidedHoldout.of(model, model.prior_, point.log_threshold, positive)
            rates_at[point.log_threshold] = held_out.rates(held_out.ratios)
        rates = rates_at[point.log_threshold]
        true_alerts, false_alerts = point.prior * rates[positive], (1.0 - point.prior) * rates[1 - positive]
        alerts = true_alerts + false_alerts
        precision.append(float(true_alerts / alerts) if alerts > 0.0 else None)
        recall.append(float(rates[positive]))
    return precision, recall
