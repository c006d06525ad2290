"""Read the log of a stream: why a decision was made, and page after page of what happened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from obil.online.decision import Decisions
from obil.online.decision_ids import Id, erased_id
from obil.service.records import TrueLabel
from obil.service.refusals import ErasedError, UnknownDecisionError
from obil.service.storage import stored_event as stored
from obil.service.storage.store import Store
from obil.service.storage.writing import StreamRow
from obil.service.streams.live_stream import decided_of, summary_of_row, utc
from obil.service.streams.operations import Decided
from obil.serving.ratio_model import RatioModel

PAGE_BYTES = 1_000_000  # of stored events; a page ends there, so that no page is much larger than a request may be


@dataclass(frozen=True, slots=True, eq=False)
class LoggedDecision:
    """One decision as it was made, and the labels that came for it."""

    decided: Decided  # of one row
    at: datetime
    by: str
    true_labels: Sequence[TrueLabel]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedEvent:
    """One event of the log, with all that is stored of it."""

    seq: int
    at: datetime
    by: str
    kind: str
    row: int  # the first row of it or after it
    rows: int
    content: Decided | Mapping[str, Any]  # without erased rows


@dataclass(frozen=True, slots=True, eq=False)
class LoggedPage:
    """Some consecutive events."""

    stream: str
    entries: Sequence[LoggedEvent]
    next: int | None  # what to give as `after` for the next page


def find_decision(store: Store, row: StreamRow, name: Id, model: RatioModel) -> LoggedDecision:
    """Return the newest decision with an id, or refuse one that was erased or never stored."""
    events = store.find_id(row, name)
    naming = {one.seq: (one, names) for one in events if name in (names := stored.ids_of(one))}
    last = max((seq for seq, (event, _) in naming.items() if event.kind == stored.DECIDED), default=None)
    if last is None:
        if any(event.kind == stored.FORGOTTEN for event in events):
            raise ErasedError(f"this decision of stream {row.name!r} was stored, and erased since", where="id")
        raise UnknownDecisionError(
            f"no decision of stream {row.name!r} has this id: it was never decided here, or is older than the service "
            "keeps events",
            where="id",
        )
    event, names = naming[last]
    place = len(names) - 1 - names[::-1].index(name)
    decided = _only(_decided(event, row, model), [place])
    labels = [one for seq in sorted(naming) if seq > last for one in _labels_of(naming[seq][0], name)]
    return LoggedDecision(decided, utc(event.at), event.sender, labels)


def page_of_log(store: Store, row: StreamRow, model: RatioModel, *, after: int, limit: int) -> LoggedPage:
    """Return the events after an event: at most `limit`, and fewer if they are large."""
    events = store.log_after(row.id, after, limit=limit, max_bytes=PAGE_BYTES)
    entries = [
        LoggedEvent(one.seq, utc(one.at), one.sender, one.kind, one.first_row, one.n_rows, _content(one, row, model))
        for one in events
    ]
    more = bool(events) and events[-1].seq < row.seq
    return LoggedPage(row.name, entries, events[-1].seq if more else None)


def _content(event: stored.StoredEvent, row: StreamRow, model: RatioModel) -> Decided | Mapping[str, Any]:
    if event.kind == stored.DECIDED:
        names = stored.ids_of(event)
        kept = [i for i, name in enumerate(names) if name != erased_id(event.first_row + i)]
        return _only(_decided(event, row, model), kept)
    record = stored.read_record(event.payload)
    if event.kind == stored.LABELLED:
        fields = ("id", "label", "propensity")
        labels = [dict(zip(fields, one, strict=True)) for one in record["labels"]]
        return {"labels": labels, "unknown": record["unknown"]}
    return record


def _labels_of(event: stored.StoredEvent, name: Id) -> list[TrueLabel]:
    if event.kind != stored.LABELLED:
        return []
    record = stored.read_record(event.payload)
    known = name not in record["unknown"]
    return [
        TrueLabel(utc(event.at), event.sender, label, propensity, known)
        for one, label, propensity in record["labels"]
        if one == name
    ]


def _decided(event: stored.StoredEvent, row: StreamRow, model: RatioModel) -> Decided:
    positive = summary_of_row(row).positive
    number = None if positive is None else model.classes_.tolist().index(positive)
    return decided_of(event, row.name, model.classes_, number)


def _only(decided: Decided, places: Sequence[int]) -> Decided:
    """Return the decisions of some rows."""
    every, index = decided.decisions, np.asarray(places, dtype=np.int64)
    kept = Decisions(
        ids=[every.ids[place] for place in places],
        classes=every.classes,
        numbers=every.numbers[index],
        positive=every.positive,
        log_ratios=every.log_ratios[index],
        effective_priors=every.effective_priors[index],
        posteriors=every.posteriors[index],
        thresholds=None if every.thresholds is None else every.thresholds[index],
        reachable=every.reachable[index],
        trusted=every.trusted[index],
        evidence=every.evidence[index],
    )
    first = decided.first_row + (places[0] if len(places) else 0)
    return Decided(decided.stream, decided.model, first, kept)
