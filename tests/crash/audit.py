"""Hold what was acknowledged against the log: nothing lost, nothing doubled, and every state the log's own."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import obil
from obil.service.storage.store import Store
from obil.service.storage.stored_event import DECIDED, FORGOTTEN, LABELLED, StoredEvent, read_record, read_rows
from obil.service.storage.writing import StreamRow
from obil.service.streams.replay import replay
from tests.crash.load import DECISIONS, STREAMS, Sent

Models = Callable[[str], Any]


class StreamAudit:
    """What the log of one stream says, followed from event to event."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.faults: list[str] = []
        self.n_rows = self.n_labels = 0
        self._online: obil.OnlineClassifier | None = None
        self._seq = 0
        # id: log ratio, class, prior before it, or None if an erasure after it hides that
        self._decided: dict[Any, tuple[float, int, tuple[float, ...] | None]] = {}
        self._labelled: dict[Any, int] = {}
        self._erased: set[Any] = set()

    def follow(self, store: Store, models: Models) -> None:
        """Read what is new in the log, do it again, and compare with how the service would begin."""
        row = store.stream(self.stream)
        if row is None:
            return
        log = store.log(row.id)
        if [event.seq for event in log] != list(range(1, row.seq + 1)):
            self.faults.append(f"{self.stream}: the log is not the events 1 to {row.seq}")
        begun = self._begun(store, row, models)
        erased = any(event.kind == FORGOTTEN for event in log[self._seq :])
        for event in log[self._seq :]:
            if event.kind == DECIDED and erased:
                self._count_rows(event)
                continue
            if event.kind == DECIDED and self._online is not None:
                self._decide(event, self._online)
                continue
            if event.kind == LABELLED:
                self._count_labels(event)
            if not erased:
                self._online = replay(self._online, [event], models)
        if erased:  # what was erased cannot be replayed: the snapshot that the erasure wrote takes its place
            self._online = begun
        self._seq = row.seq
        if self._online is None:
            return
        if not row.n_rows == self.n_rows == self._online.n_rows:
            self.faults.append(
                f"{self.stream}: {row.n_rows} rows stored, {self.n_rows} in the log, {self._online.n_rows} replayed"
            )
        if row.n_labels != self._online.label_counts.labelled:
            self.faults.append(f"{self.stream}: {row.n_labels} labels in the stream, {self._online.label_counts}")
        if begun.state() != self._online.state():
            self.faults.append(f"{self.stream}: the snapshot and what followed are not a replay of the log")

    def compare_with_service(self, detail: dict[str, Any]) -> None:
        """Compare what a service says of the stream with the replay, bit for bit."""
        assert self._online is not None
        said = [detail["prior"][str(name)] for name in self._online.model.classes_.tolist()]
        if said != self._online.prior.tolist() or detail["rows"] != self.n_rows:
            self.faults.append(
                f"{self.stream}: the service has the prior {said}, the log {self._online.prior.tolist()}"
            )

    def compare_whole(self, store: Store, models: Models) -> None:
        """Replay the log from its first event in one go, after a clean stop."""
        row = store.stream(self.stream)
        if row is None or self._online is None:
            return
        log = store.log(row.id)
        erased = any(event.kind == FORGOTTEN for event in log)
        if not erased and replay(None, log, models).state() != self._online.state():
            self.faults.append(f"{self.stream}: the whole log is not what was followed")
        with store.writing() as session:
            if session.snapshot_seq(row.id) != row.seq:
                self.faults.append(f"{self.stream}: a clean stop wrote no snapshot")

    def erase(self, names: Iterable[Any]) -> None:
        """Expect some ids to be gone: their decisions and labels, whatever was acknowledged before."""
        self._erased |= set(names)

    def found_again(self, store: Store) -> list[str]:
        """Return the erased ids that are still in a row of the store."""
        row = store.stream(self.stream)
        if row is None:
            return []
        with store.writing() as session:
            snapshot = session.snapshot(row.id)
        stored = b"".join(event.payload for event in store.log(row.id)) + (b"" if snapshot is None else snapshot.state)
        return [f"{self.stream}: {name!r} was erased, and is in the store" for name in self.in_bytes(stored)]

    def in_bytes(self, stored: bytes) -> list[str]:
        """Return the erased ids that some bytes hold."""
        held = set(re.findall(rb"<r\d+c\d+-\d+-\d+>", stored))
        return [name for name in self._erased if name.encode() in held]

    def lost(self, sent: Sent) -> list[str]:
        """Return what of an acknowledged request the log does not hold as it was answered."""
        assert sent.answer is not None
        if sent.kind != DECISIONS:
            missing = [name for name in sent.ids if name not in self._labelled and name not in self._erased]
            if sent.answer["unknown"]:
                missing += [f"{name}, whose decision was unknown" for name in sent.answer["unknown"]]
            return [f"{self.stream}: lost the label of {name!r}" for name in missing]
        faults = []
        for name, decision in zip(sent.ids, sent.answer["decisions"], strict=True):
            answered = decision["log_ratio"], decision["label"], tuple(decision["effective_prior"].values())
            kept = self._decided.get(name)
            if kept is not None and kept[2] is None:
                answered = (*answered[:2], None)
            if kept != answered and name not in self._erased:
                faults.append(f"{self.stream}: answered {answered} for {name!r}, kept {self._decided.get(name)}")
        return faults

    def is_kept(self, sent: Sent) -> bool:
        """Return whether the log holds a request whose ids the sender gave."""
        where: Iterable[Any] = self._decided if sent.kind == DECISIONS else self._labelled
        return any(name in where for name in sent.ids)

    def _begun(self, store: Store, row: StreamRow, models: Models) -> obil.OnlineClassifier:
        """Return the stream as a service would begin it: from its snapshot and what followed."""
        with store.writing() as session:
            snapshot = session.snapshot(row.id)
            after = session.events_after(row.id, 0 if snapshot is None else snapshot.seq)
        begun = None
        if snapshot is not None:
            begun = obil.OnlineClassifier.from_state(models(snapshot.model), snapshot.state)
        return begun if begun is not None and not after else replay(begun, after, models)

    def _count_rows(self, event: StoredEvent) -> None:
        rows = read_rows(event.payload)
        if event.first_row != self.n_rows:
            self.faults.append(f"{self.stream}: row {event.first_row} follows {self.n_rows}")
        names = range(self.n_rows, self.n_rows + event.n_rows) if rows.ids is None else rows.ids
        self.n_rows += event.n_rows
        classes = [0, 1]
        for name, ratio, number in zip(names, rows.log_ratios[:, 1].tolist(), rows.numbers.tolist(), strict=True):
            if name in self._decided:
                self.faults.append(f"{self.stream}: doubled the decision {name!r}")
            self._decided[name] = ratio, classes[number], None

    def _decide(self, event: StoredEvent, online: obil.OnlineClassifier) -> None:
        """Decide rows as they were decided once: what was answered must be what the log gives."""
        rows = read_rows(event.payload)
        if event.first_row != self.n_rows:
            self.faults.append(f"{self.stream}: row {event.first_row} follows {self.n_rows}")
        decisions = online.decide_log_ratios(rows.log_ratios, evidence=rows.evidence, ids=rows.ids)
        self.n_rows += event.n_rows
        ratios, priors = rows.log_ratios[:, 1].tolist(), decisions.effective_priors.tolist()
        for name, ratio, label, prior in zip(decisions.ids, ratios, decisions.labels.tolist(), priors, strict=True):
            if name in self._decided:
                self.faults.append(f"{self.stream}: doubled the decision {name!r}")
            self._decided[name] = (ratio, label, tuple(prior))

    def _count_labels(self, event: StoredEvent) -> None:
        for name, _, _ in read_record(event.payload)["labels"]:
            if name in self._labelled:
                self.faults.append(f"{self.stream}: doubled the label of {name!r}")
            self._labelled[name] = event.seq
            self.n_labels += 1


def new_audits() -> dict[str, StreamAudit]:
    """Return one audit for each stream, before its first event."""
    return {stream: StreamAudit(stream) for stream in STREAMS}
