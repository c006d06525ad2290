"""Say where a stream stands: at a glance, in depth, and over time."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from obil.arrays import FloatArray
from obil.errors import EstimationError, InvalidInputError
from obil.online.online_classifier import OnlineClassifier
from obil.online.reports.decided_holdout import DecidedHoldout
from obil.online.reports.performance import Performance
from obil.service.storage.store import summary_of
from obil.service.storage.stored_event import StoredEvent, read_record
from obil.service.storage.writing import Point, StreamRow
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Series, SettingsChange, StreamDetail, StreamSummary
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank
from obil.trackers.calibration_spread import calibration_variance, logits_of

LEVEL = 0.9  # of all intervals
SPREAD_PRIORS = 6  # at which the calibrator's own spread is computed; in between it is interpolated


class Moment(NamedTuple):
    """Where a stream stands, copied, so that its thread goes on while a report is made."""

    row: StreamRow
    version: str
    state: Mapping[str, Any]


def moment_of(live: LiveStream) -> Moment:
    """Copy where a stream stands."""
    return Moment(live.described(), live.version, live.online.state())


def summary_of_row(row: StreamRow) -> StreamSummary:
    """Return a stream at a glance, from the one row that is kept of it."""
    known = summary_of(row)
    return StreamSummary(
        name=row.name,
        rows=row.n_rows,
        labels=row.n_labels,
        alerts=row.n_alerts,
        prior=known.get("prior", {}),
        training_prior=known.get("training_prior", {}),
        positive=known.get("positive"),
        trusted=bool(row.trusted),
        log_evidence=known.get("log_evidence"),
        log_alarm=known.get("log_alarm"),
        model=row.model,
        created=row.created,
        updated=row.updated,
        seq=row.seq,
    )


def detail_of(moment: Moment, model: RatioModel, changes: Sequence[StoredEvent]) -> StreamDetail:
    """Return a stream in depth."""
    online = OnlineClassifier.from_state(model, moment.state)
    classes = model.classes_.tolist()
    names = [str(name) for name in classes]
    settings = moment.state["tracker"]["settings"]
    start = settings.get("prior", model.prior_.tolist())
    return StreamDetail(
        summary=summary_of_row(moment.row),
        classes=classes,
        interval=_interval(online, names),
        start_prior=dict(zip(names, start, strict=True)),
        threshold=_threshold(online),
        evidence=_evidence(online),
        label_counts={name: getattr(online.label_counts, name) for name in online.label_counts.__slots__},
        performance=_performance(online),
        change=_finite(online.explain(level=LEVEL).to_json()),
        settings={  # another stream can be made from them, with `start_prior` for its prior
            "policy": dict(online.policy.to_json()),
            "tracker": "bank" if isinstance(online.tracker, BayesBank) else "safe",
            "positive": summary_of(moment.row).get("positive"),
            "horizon": moment.state["labels"]["horizon"],
            "unlabeled_as": None
            if moment.state["labels"]["unlabeled_as"] is None
            else classes[moment.state["labels"]["unlabeled_as"]],
        },
        changes=[_change(event) for event in changes],
    )


def series_of(row: StreamRow, points: Sequence[Point], model: RatioModel) -> Series:
    """Return a stream over time as columns, with what precision and recall were to be expected."""
    summary = summary_of(row)
    positive = summary.get("positive")
    classes = model.classes_.tolist()
    k = classes.index(positive) if positive in classes else None
    columns: dict[str, list[float | None]] = {
        "at": [point.at for point in points],
        "row": [float(point.at_row) for point in points],
        "prior": [point.prior for point in points],
        "threshold": [_at_prior(point) for point in points],
        "alert_rate": [point.n_alerts / point.n_rows if point.n_rows else None for point in points],
        "log_evidence": [point.log_evidence for point in points],
    }
    columns["low"], columns["high"] = _widened(points, model)
    columns["precision"], columns["recall"] = _expected(points, model, k)
    training = float(model.prior_[k]) if k is not None else math.nan
    return Series(row.name, columns, training, summary.get("log_alarm"))


def _interval(online: OnlineClassifier, names: Sequence[str]) -> dict[str, tuple[float, float]] | None:
    try:
        interval = online.interval(LEVEL)
    except EstimationError:
        return None
    if interval is None:
        return None
    return {name: (float(low), float(high)) for name, (low, high) in zip(names, interval, strict=True)}


def _threshold(online: OnlineClassifier) -> dict[str, float | None]:
    threshold = online.log_threshold
    if threshold is None or not math.isfinite(threshold) or online.positive is None:
        return {"log_ratio": None, "probability": None}
    share = float(online.prior[online.model.classes_.tolist().index(online.positive)])
    return {"log_ratio": threshold, "probability": float(expit(threshold + logits_of(np.array([share]))[0]))}


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
    named = {name: getattr(performance, name) for name in ("precision", "recall", "f1", "alert_rate", "cost")}
    figures = {
        name: None
        if one is None
        else {"value": _number(one.value), "low": one.low, "high": one.high, "source": one.source}
        for name, one in named.items()
    }
    return figures | {
        "trusted": performance.trusted,
        "rows": performance.n_rows,
        "labels": performance.n_labels,
    }


def _change(event: StoredEvent) -> SettingsChange:
    record = read_record(event.payload)
    return SettingsChange(
        at=event.at, by=event.sender, row=event.first_row, before=record["before"], after=record["after"]
    )


def _at_prior(point: Point) -> float | None:
    """Return the posterior at which a row was alerted."""
    if point.log_threshold is None or point.prior is None:
        return None
    return float(expit(point.log_threshold + logits_of(np.array([point.prior]))[0]))


def _widened(points: Sequence[Point], model: RatioModel) -> tuple[list[float | None], list[float | None]]:
    """Return the intervals of the prior with the calibrator's own uncertainty in them."""
    known = [i for i, point in enumerate(points) if None not in (point.prior, point.low, point.high)]
    low: list[float | None] = [None] * len(points)
    high: list[float | None] = [None] * len(points)
    if not known or model.n_classes != 2:
        for i in known:
            low[i], high[i] = points[i].low, points[i].high
        return low, high
    middle, ends = (
        (logits_of(np.array([getattr(points[i], name) for i in known])) for name in ("prior", "low")),
        logits_of(np.array([points[i].high for i in known])),
    )
    centre, lower = middle
    spread = _spread(centre, model)
    z = float(ndtri(0.5 + LEVEL / 2))
    for place, i in enumerate(known):
        extra = (z * spread[place]) ** 2
        low[i] = float(expit(centre[place] - math.sqrt((centre[place] - lower[place]) ** 2 + extra)))
        high[i] = float(expit(centre[place] + math.sqrt((ends[place] - centre[place]) ** 2 + extra)))
    return low, high


def _spread(logits: FloatArray, model: RatioModel) -> FloatArray:
    """Return the standard deviation, in the logit, that the calibrator adds at each prior, interpolated."""
    grid = np.unique(np.linspace(logits.min(), logits.max(), SPREAD_PRIORS))
    found = []
    for place in grid:
        share = float(expit(place))
        try:
            variance = calibration_variance(model.calibrator, model.holdout_, np.array([1.0 - share, share]))
            found.append(math.sqrt(float(np.asarray(variance)[-1])))
        except EstimationError:
            found.append(0.0)
    return np.interp(logits, grid, found)


def _expected(
    points: Sequence[Point], model: RatioModel, positive: int | None
) -> tuple[list[float | None], list[float | None]]:
    """Return the precision and recall that held-out rows promise at each point's prior and threshold, two classes."""
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
        hits, alarms = point.prior * rates[positive], (1.0 - point.prior) * rates[1 - positive]
        precision.append(float(hits / (hits + alarms)) if hits + alarms > 0.0 else None)
        recall.append(float(rates[positive]))
    return precision, recall


def _finite(value: Any) -> Any:
    """Return plain values with null where a number is none."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
