"""Hold one stream in memory: decide, label and change it, write each event to the log, and describe its state."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.posterior import posteriors_at
from obil.errors import EstimationError, InvalidStateError, ObilError
from obil.online.decision import Decisions
from obil.online.decision_ids import as_id, as_ids, as_propensity
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.packed_state import pack_stream
from obil.policies.notation import policy_from_json
from obil.service.refusals import BadInputError, KeyReusedError
from obil.service.storage.stored_event import (
    DECIDED,
    FORGOTTEN,
    LABELLED,
    MODEL,
    RESTARTED,
    SETTINGS,
    DecidedRows,
    StoredEvent,
    StoredResponse,
    read_record,
    read_rows,
    write_record,
    write_rows,
)
from obil.service.storage.writing import Point, Snapshot, StreamRow, Writing
from obil.service.streams.operations import Decided, Label, LabelResult, Rows, Sender, SettingsChange
from obil.serving.ratio_model import RatioModel

SNAPSHOT_ROWS, SNAPSHOT_EVENTS = 32_768, 2_048  # most that a restored stream replays, about
POINT_ROWS, POINT_SECONDS = 500, 5.0  # at most, between two points of a history
POINT_FRACTION = 1 / 64  # of all rows so far: a short stream has as many points as a long one
TRUSTED, REACHABLE = 1, 2


class LiveStream:
    """A stream, its counters, and what is not in the store yet. Used by one thread."""

    def __init__(
        self, row: StreamRow, online: OnlineClassifier, version: str, *, snapshot_seq: int, created: bool = False
    ) -> None:
        self.row, self.online, self.version = row, online, version
        self.snapshot_seq, self._snapshot_rows = snapshot_seq, online.n_rows
        self._point_at, self._point_rows, self._point_alerts = 0.0, row.n_rows, row.n_alerts
        self._finished_seq = 0 if created else row.seq  # a new stream is to be written
        self.created, self.erased = created, False  # in the current transaction
        self._classes: list[Any] = online.model.classes_.tolist()
        self._positive = None if online.positive is None else self._classes.index(online.positive)

    def decide(
        self, rows: Rows, scored: tuple[FloatArray, FloatArray | None], sender: Sender, session: Writing, at: float
    ) -> Decided:
        """Decide rows and write them to the log; a retry gets what was decided the first time."""
        before = self._earlier(DECIDED, sender, session)
        if before is not None:
            return self._decided_before(before)
        ratios, views = scored
        try:
            ids = None if rows.ids is None else as_ids(rows.ids)
            first = self.online.n_rows
            decisions = self.online.decide_log_ratios(ratios, views=views, ids=ids)
        except ObilError as error:
            raise BadInputError(str(error)) from None
        flags = decisions.trusted.astype(np.uint8) * TRUSTED + decisions.reachable.astype(np.uint8) * REACHABLE
        response = None
        if sender.idempotency_key is not None:
            response = StoredResponse(self.version, decisions.priors, decisions.thresholds)
        stored = DecidedRows(ids, ratios, views, decisions.numbers, flags, response)
        self._log(
            DECIDED, write_rows(stored, inputs=rows.inputs), sender, session, at, first_row=first, n_rows=len(ratios)
        )
        n_alerts = self.row.n_alerts + int(decisions.alerts.sum())
        self.row = self.row._replace(n_rows=self.online.n_rows, n_alerts=n_alerts)
        return Decided(self.row.name, self.version, first, decisions)

    def label(self, labels: Sequence[Label], sender: Sender, session: Writing, at: float) -> LabelResult:
        """Take in all labels or none, and write them to the log."""
        before = self._earlier(LABELLED, sender, session)
        if before is not None:
            record = read_record(before.payload)
            return LabelResult(self.row.name, record["known"], record["unknown"], repeated=True)
        checked = [_checked(one, self._classes) for one in labels]
        unknown = [one.id for one in checked if not self.online.feedback(one.id, one.label, propensity=one.propensity)]
        record = {"labels": [list(one) for one in checked], "known": len(checked) - len(unknown), "unknown": unknown}
        self._log(LABELLED, write_record(record), sender, session, at)
        self.row = self.row._replace(n_labels=self.online.label_counts.labelled)
        return LabelResult(self.row.name, record["known"], unknown)

    def change_policy(self, policy: Mapping[str, Any], sender: Sender, session: Writing, at: float) -> SettingsChange:
        """Set the policy from the next row on, and log who did."""
        before = dict(self.online.policy.to_json())
        try:
            self.online.policy = policy_from_json(policy)
        except ObilError as error:
            raise BadInputError(str(error), where="policy") from None
        after = dict(self.online.policy.to_json())
        self._log(SETTINGS, write_record({"before": before, "after": after}), sender, session, at)
        return SettingsChange(at=at, by=sender.by, row=self.online.n_rows, before=before, after=after)

    def take_model(self, version: str, model: RatioModel, session: Writing, at: float) -> None:
        """Score with another version from the next row on; the prior is kept."""
        self.online.model = model
        self.version = version
        self.row = self.row._replace(model=version)
        self._log(MODEL, write_record({"version": version}), Sender(by="model"), session, at)
        self.save_snapshot(session)  # so that no replay needs the old version

    def restart_monitor(self, sender: Sender, session: Writing, at: float) -> None:
        """Start a new monitoring run."""
        try:
            self.online.restart_monitor()
        except ObilError as error:
            raise BadInputError(str(error)) from None
        self._log(RESTARTED, b"{}", sender, session, at)

    def forget(self, rows: Sequence[int], sender: Sender, session: Writing, at: float) -> None:
        """Erase rows that wait for their labels; after the snapshot no replay needs older events."""
        kept = [row for row in rows if self.online.forget(row)]
        self._log(FORGOTTEN, write_record({"rows": kept}), sender, session, at)
        self.save_snapshot(session)

    def erase(self, session: Writing) -> None:
        """Delete the stream."""
        session.erase_stream(self.row.id)
        self.erased = True

    def described(self) -> StreamRow:
        """Return the current summary of the stream, stored or not."""
        return self.row._replace(trusted=int(self.online.trusted), summary=json.dumps(self._summary()))

    def finish(self, session: Writing, at: float) -> None:
        """Write the summary of the stream after the events of this transaction."""
        if self.erased or self.row.seq == self._finished_seq:
            return
        online = self.online
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

    def save_snapshot(self, session: Writing) -> None:
        """Write the whole state, so that the stream can be restored without earlier events."""
        session.save_snapshot(self.row.id, Snapshot(self.row.seq, self.version, pack_stream(self.online)))
        self.snapshot_seq, self._snapshot_rows = self.row.seq, self.online.n_rows

    def _earlier(self, kind: str, sender: Sender, session: Writing) -> StoredEvent | None:
        if sender.idempotency_key is None:
            return None
        event = session.find_retry(self.row.id, sender.idempotency_key)
        if event is not None and (event.kind, event.digest) != (kind, sender.digest):
            raise KeyReusedError("this idempotency key was used with another body: use a new key")
        return event

    def _decided_before(self, event: StoredEvent) -> Decided:
        rows, first = read_rows(event.payload), event.first_row
        if rows.response is None:
            raise InvalidStateError("an event with an idempotency key lacks its response")
        model, priors, thresholds = rows.response
        decisions = Decisions(
            ids=range(first, first + event.n_rows) if rows.ids is None else rows.ids,
            classes=self.online.classes_,
            numbers=rows.numbers,
            positive=self._positive,
            log_ratios=rows.log_ratios,
            priors=priors,
            posteriors=posteriors_at(rows.log_ratios, priors),
            thresholds=thresholds,
            reachable=(rows.flags & REACHABLE) > 0,
            trusted=(rows.flags & TRUSTED) > 0,
        )
        return Decided(self.row.name, model, first, decisions, repeated=True)

    def _log(
        self,
        kind: str,
        payload: bytes,
        sender: Sender,
        session: Writing,
        at: float,
        *,
        first_row: int | None = None,
        n_rows: int = 0,
    ) -> None:
        seq = self.row.seq + 1
        row = self.online.n_rows if first_row is None else first_row
        key = sender.idempotency_key
        digest = None if key is None else sender.digest
        session.append(self.row.id, StoredEvent(seq, at, kind, sender.by, key, digest, row, n_rows, payload))
        self.row = self.row._replace(seq=seq)

    def _summary(self) -> dict[str, Any]:
        online, names = self.online, [str(name) for name in self._classes]
        monitor = online.monitor
        return {
            "prior": dict(zip(names, online.prior.tolist(), strict=True)),
            "training_prior": dict(zip(names, online.model.prior_.tolist(), strict=True)),
            "positive": online.positive,
            "log_evidence": None if monitor is None else monitor.log_evidence,
            "log_alarm": None if monitor is None else monitor.log_alarm,
        }

    def _wants_point(self, at: float) -> bool:
        new = self.row.n_rows - self._point_rows
        enough = min(POINT_ROWS, max(16.0, POINT_FRACTION * self.row.n_rows))
        return new >= enough or (new > 0 and at - self._point_at >= POINT_SECONDS)

    def _add_point(self, session: Writing, at: float) -> None:
        online = self.online
        k = self._positive
        try:
            interval = None if k is None else online.tracker.interval(0.9)
        except EstimationError:
            interval = None
        low, high = (None, None) if interval is None or k is None else map(float, interval[k])
        threshold = online.log_threshold
        session.add_point(
            self.row.id,
            Point(
                at_row=self.row.n_rows,
                at=at,
                prior=None if k is None else float(online.prior[k]),
                low=low,
                high=high,
                log_threshold=threshold if threshold is not None and math.isfinite(threshold) else None,
                n_rows=self.row.n_rows - self._point_rows,
                n_alerts=self.row.n_alerts - self._point_alerts,
                log_evidence=None if online.monitor is None else online.monitor.log_evidence,
            ),
        )
        self._point_at, self._point_rows, self._point_alerts = at, self.row.n_rows, self.row.n_alerts


def _checked(one: Label, classes: Sequence[Any]) -> Label:
    """Refuse a label before any label of its request is taken in."""
    try:
        name = as_id(one.id)
    except ObilError as error:
        raise BadInputError(str(error), where="id") from None
    if isinstance(one.label, bool) or one.label not in classes:
        raise BadInputError(
            f"label must be one of the classes {list(classes)!r:.200}, got {one.label!r:.80}", where="label"
        )
    try:
        propensity = as_propensity(one.propensity)
    except ObilError as error:
        raise BadInputError(str(error), where="propensity") from None
    return Label(name, classes[list(classes).index(one.label)], propensity)
