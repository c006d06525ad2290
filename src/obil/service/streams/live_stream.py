"""Hold one stream in memory: decide, label and change it, write each event to the log, and summarize its state."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.bayes.posterior import posteriors_at
from obil.errors import EstimationError, ObilError
from obil.online.decision import Decisions
from obil.online.decision_ids import Id, as_ids
from obil.online.online_classifier import OnlineClassifier
from obil.policies.notation import policy_from_json
from obil.service.records import LabelResult, SettingsChange, StreamEvent, StreamSummary
from obil.service.refusals import BadInputError, ErasedError, KeyReusedError, as_bad_input
from obil.service.storage import stored_event as stored
from obil.service.storage.writing import Point, Snapshot, StreamRow, Writing
from obil.service.streams.operations import Decided, Label, Sender, checked_label
from obil.serving.ratio_model import RatioModel, Scores

SNAPSHOT_ROWS, SNAPSHOT_EVENTS = 32_768, 2_048  # most that a restored stream replays, about
POINT_ROWS, POINT_SECONDS = 500, 60.0  # at most, between two points of a history: each costs as much as a few rows
POINT_FRACTION = 1 / 64  # of all rows so far: a short stream has as many points as a long one
TRUSTED, REACHABLE = 1, 2
MARKS = ("last_row", "alarm_since", "acknowledged_by")  # in the summary only: no decision depends on them


class StateCopy(NamedTuple):
    """A copy of a stream's state, and the model version that it needs."""

    row: StreamRow
    version: str
    state: bytes


class LiveStream:
    """A stream, its counters, and what is not in the store yet. Used by one thread."""

    def __init__(
        self,
        row: StreamRow,
        online: OnlineClassifier,
        version: str,
        *,
        snapshot_seq: int,
        last_point_at: float = 0.0,
        created: bool = False,
    ) -> None:
        self.row, self.online, self.version = row, online, version
        self.snapshot_seq, self._snapshot_rows = snapshot_seq, online.n_rows
        self._point_at, self._point_rows, self._point_alerts = last_point_at, row.n_rows, row.n_alerts
        self._finished_seq = 0 if created else row.seq  # a new stream is to be written
        self.created, self.erased = created, False  # in the current transaction
        self._marks = _marks_of(row)
        self._classes: list[Any] = online.model.classes_.tolist()
        self._positive = None if online.positive is None else self._classes.index(online.positive)

    def decide(
        self,
        scored: Scores,
        sender: Sender,
        session: Writing,
        at: float,
        *,
        ids: Sequence[Id] | None = None,
        inputs: Sequence[Any] | None = None,
    ) -> Decided:
        """Decide rows and write them to the log; a retry gets what was decided the first time.

        `inputs` are the rows as sent, where these are stored.
        """
        before = self._earlier(stored.DECIDED, sender, session)
        if before is not None:
            return decided_of(before, self.row.name, self.online.classes_, self._positive)
        with as_bad_input(None, ObilError):
            ids = None if ids is None else as_ids(ids)
            first = self.online.n_rows
            decisions = self.online.decide_scores(scored, ids=ids)
        flags = decisions.trusted.astype(np.uint8) * TRUSTED + decisions.reachable.astype(np.uint8) * REACHABLE
        same = np.array_equal(decisions.evidence, decisions.log_ratios[:, None])
        evidence = None if same else decisions.evidence
        with_what = self.version, decisions.effective_priors, decisions.thresholds
        decided = stored.DecidedRows(ids, decisions.log_ratios, evidence, decisions.numbers, flags, *with_what)
        payload = stored.write_rows(decided, inputs=inputs)
        named = () if ids is None or isinstance(ids, range) else ids
        self._log(stored.DECIDED, payload, sender, session, at, n_rows=len(decisions), ids=named)
        n_alerts = self.row.n_alerts + int(decisions.alerts.sum())
        self.row = self.row._replace(n_rows=self.online.n_rows, n_alerts=n_alerts)
        self._marks["last_row"] = at
        return Decided(self.row.name, self.version, first, decisions)

    def label(self, labels: Sequence[Label], sender: Sender, session: Writing, at: float) -> LabelResult:
        """Take in all labels or none, and write them to the log."""
        before = self._earlier(stored.LABELLED, sender, session)
        if before is not None:
            record = stored.read_record(before.payload)
            return LabelResult(self.row.name, record["known"], record["unknown"], repeated=True)
        checked = [checked_label(one, self._classes) for one in labels]
        unknown = [one.id for one in checked if not self.online.feedback(one.id, one.label, propensity=one.propensity)]
        record = {"labels": [list(one) for one in checked], "known": len(checked) - len(unknown), "unknown": unknown}
        named = [one.id for one in checked]
        self._log(stored.LABELLED, stored.write_record(record), sender, session, at, ids=named)
        self.row = self.row._replace(n_labels=self.online.label_counts.labelled)
        return LabelResult(self.row.name, record["known"], unknown, repeated=False)

    def change_policy(self, policy: Mapping[str, Any], sender: Sender, session: Writing, at: float) -> SettingsChange:
        """Set the policy from the next row on, and log who did."""
        before = dict(self.online.policy.to_json())
        with as_bad_input("policy", ObilError):
            self.online.policy = policy_from_json(policy)
        after = dict(self.online.policy.to_json())
        self._log(stored.SETTINGS, stored.write_record({"before": before, "after": after}), sender, session, at)
        return SettingsChange(utc(at), sender.by, self.online.n_rows, before, after)

    def take_model(self, version: str, model: RatioModel, session: Writing, at: float) -> None:
        """Score with another version from the next row on; the prior is kept."""
        self.online.model = model
        self.version = version
        self.row = self.row._replace(model=version)
        self._log(stored.MODEL, stored.write_record({"version": version}), Sender(by="model"), session, at)
        self._mark_alarm(at)
        self.save_snapshot(session)  # so that no replay needs the old version

    def restart_monitor(self, sender: Sender, session: Writing, at: float) -> None:
        """Start a new monitoring run."""
        with as_bad_input(None, ObilError):
            self.online.restart_monitor()
        self._mark_alarm(at)
        self._log(stored.RESTARTED, b"{}", sender, session, at)

    def note(self, text: str, sender: Sender, session: Writing, at: float, *, acknowledge: bool) -> StreamEvent:
        """Write a note to the log; it may say that its sender has seen the alarm."""
        before = self._earlier(stored.NOTED, sender, session)
        if before is not None:
            return event_of(before)
        if acknowledge and self.online.trusted:
            raise BadInputError(
                "acknowledge must be false: this stream has no alarm; send the note alone", where="acknowledge"
            )
        if acknowledge:
            self._mark_alarm(at)
            self._marks["acknowledged_by"] = sender.by
        record = {"text": text, "acknowledge": acknowledge}
        return event_of(self._log(stored.NOTED, stored.write_record(record), sender, session, at))

    def forget(
        self, rows: Sequence[int], sender: Sender, session: Writing, at: float, *, ids: Sequence[Id] = ()
    ) -> None:
        """Erase rows that wait for their labels; after the snapshot no replay needs older events.

        Of the ids only their digests stay, in the index: they tell an erased decision from an unknown one.
        """
        kept = [row for row in rows if self.online.forget(row)]
        self._log(stored.FORGOTTEN, stored.write_record({"rows": kept}), Sender(sender.by), session, at, ids=ids)
        self.save_snapshot(session)

    def erase(self, session: Writing) -> None:
        """Delete the stream; its records are erased in slices."""
        session.delete_stream(self.row.id)
        while self.created and session.erase_slice(self.row.id):  # of a new stream there is next to nothing
            pass
        self.erased = True

    def described(self) -> StreamRow:
        """Return the current summary of the stream, stored or not."""
        online, names, monitor = self.online, [str(name) for name in self._classes], self.online.monitor
        summary = {
            "prior": dict(zip(names, online.prior.tolist(), strict=True)),
            "training_prior": dict(zip(names, online.model.prior_.tolist(), strict=True)),
            "positive": online.positive,
            "log_evidence": None if monitor is None else monitor.log_evidence,
            "log_alarm": None if monitor is None else monitor.log_alarm,
        }
        return self.row._replace(trusted=int(online.trusted), summary=json.dumps(summary | self._marks))

    def copied(self) -> StateCopy:
        """Return a copy of the state, so that this thread can continue while a report is written."""
        return StateCopy(self.described(), self.version, self.online.state())

    def finish(self, session: Writing, at: float) -> None:
        """Write the summary of the stream after the events of this transaction."""
        if self.erased or self.row.seq == self._finished_seq:
            return
        online = self.online
        self._mark_alarm(at)
        self.row = self.described()._replace(updated=at)
        self._finished_seq, self.created = self.row.seq, False
        session.save_stream(self.row)
        if self._wants_point(at):
            self._add_point(session, at)
        if online.n_rows - self._snapshot_rows >= SNAPSHOT_ROWS or self.row.seq - self.snapshot_seq >= SNAPSHOT_EVENTS:
            self.save_snapshot(session)

    def follow(self, row: StreamRow) -> None:
        """Take over the row that another process wrote, after its events were replayed here."""
        self.row, self.version, self._finished_seq = row, row.model, row.seq
        self._marks = _marks_of(row)

    def save_snapshot(self, session: Writing) -> None:
        """Write the whole state, so that the stream can be restored without earlier events."""
        session.save_snapshot(self.row.id, Snapshot(self.row.seq, self.version, self.online.state()))
        self.snapshot_seq, self._snapshot_rows = self.row.seq, self.online.n_rows

    def _mark_alarm(self, at: float) -> None:
        """Keep since when there is an alarm; where there is none, nobody has acknowledged it."""
        if self.online.trusted:
            self._marks["alarm_since"] = self._marks["acknowledged_by"] = None
        elif self._marks["alarm_since"] is None:
            self._marks["alarm_since"] = at

    def _earlier(self, kind: str, sender: Sender, session: Writing) -> stored.StoredEvent | None:
        if sender.idempotency_key is None:
            return None
        event = session.find_retry(self.row.id, sender.idempotency_key)
        if event is not None and event.digest is None:
            raise ErasedError("this request was kept, and erased since, at least in part: it cannot be answered again")
        if event is not None and (event.kind, event.digest) != (kind, session.digests.of_body(sender.digest)):
            raise KeyReusedError("this idempotency key was used with another body: use a new key")
        return event

    def _log(
        self,
        kind: str,
        payload: bytes,
        sender: Sender,
        session: Writing,
        at: float,
        *,
        n_rows: int = 0,
        ids: Sequence[Id] = (),
    ) -> stored.StoredEvent:
        seq, first_row = self.row.seq + 1, self.online.n_rows - n_rows
        key = digest = None
        if sender.idempotency_key is not None:
            key = session.digests.of_retry_key(sender.idempotency_key)
            digest = session.digests.of_body(sender.digest)
        event = stored.StoredEvent(seq, at, kind, sender.by, key, digest, first_row, n_rows, payload)
        session.append(self.row.id, event, ids)
        self.row = self.row._replace(seq=seq)
        return event

    def _wants_point(self, at: float) -> bool:
        new = self.row.n_rows - self._point_rows
        enough = min(POINT_ROWS, max(16.0, POINT_FRACTION * self.row.n_rows))
        return new >= enough or (new > 0 and at - self._point_at >= POINT_SECONDS)

    def _add_point(self, session: Writing, at: float) -> None:
        online, k, threshold = self.online, self._positive, self.online.log_threshold
        try:
            interval = None if k is None else online.tracker.interval(0.9)
        except EstimationError:
            interval = None
        low, high = (None, None) if interval is None or k is None else map(float, interval[k])
        point = Point(
            at_row=self.row.n_rows,
            at=at,
            prior=None if k is None else float(online.prior[k]),
            low=low,
            high=high,
            log_threshold=threshold if threshold is not None and math.isfinite(threshold) else None,
            n_rows=self.row.n_rows - self._point_rows,
            n_alerts=self.row.n_alerts - self._point_alerts,
            log_evidence=None if online.monitor is None else online.monitor.log_evidence,
        )
        session.add_point(self.row.id, point)
        self._point_at, self._point_rows, self._point_alerts = at, self.row.n_rows, self.row.n_alerts


def summary_of_row(row: StreamRow) -> StreamSummary:
    """Return a stream at a glance, from its stored row."""
    empty: dict[str, Any] = {"prior": {}, "training_prior": {}}  # of a stream that is being created
    empty |= dict.fromkeys(("positive", "log_evidence", "log_alarm", *MARKS))
    found = empty | json.loads(row.summary)
    for name in ("last_row", "alarm_since"):
        found[name] = None if found[name] is None else utc(found[name])
    return StreamSummary(
        name=row.name,
        rows=row.n_rows,
        labels=row.n_labels,
        alerts=row.n_alerts,
        trusted=bool(row.trusted),
        model=row.model,
        created=utc(row.created),
        updated=utc(row.updated),
        seq=row.seq,
        **found,
    )


def decided_of(event: stored.StoredEvent, stream: str, classes: npt.NDArray[Any], positive: int | None) -> Decided:
    """Return what was decided, from its event; `positive` is the number of the class that is alerted on."""
    rows, first = stored.read_rows(event.payload), event.first_row
    decisions = Decisions(
        ids=range(first, first + event.n_rows) if rows.ids is None else rows.ids,
        classes=classes,
        numbers=rows.numbers,
        positive=positive,
        log_ratios=rows.log_ratios,
        effective_priors=rows.priors,
        posteriors=posteriors_at(rows.log_ratios, rows.priors),
        thresholds=rows.thresholds,
        reachable=(rows.flags & REACHABLE) > 0,
        trusted=(rows.flags & TRUSTED) > 0,
        evidence=rows.log_ratios[:, None] if rows.evidence is None else rows.evidence,
    )
    return Decided(stream, rows.model, first, decisions, repeated=True)


def event_of(event: stored.StoredEvent) -> StreamEvent:
    """Return an event of the log as the service shows it."""
    kind, text = event.kind, None
    if kind == stored.NOTED:
        record = stored.read_record(event.payload)
        kind, text = ("acknowledged" if record["acknowledge"] else "noted"), record["text"]
    return StreamEvent(utc(event.at), event.sender, event.first_row, kind, text)


def _marks_of(row: StreamRow) -> dict[str, Any]:
    summary = json.loads(row.summary)
    return {name: summary.get(name) for name in MARKS}


def utc(seconds: float) -> datetime:
    """Return a time given in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)
