"""Read and write the tables of the service within one transaction."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from obil.service.refusals import NotStoredError
from obil.service.storage.database import NEVER_PRUNED, STREAM_TABLES, Run
from obil.service.storage.stored_event import StoredEvent

PRUNE_EVENTS = 5_000  # at once, so that no request waits long


class StreamRow(NamedTuple):
    """The stored summary of a stream."""

    id: int
    name: str
    created: float
    updated: float
    seq: int
    n_rows: int
    n_labels: int
    n_alerts: int
    trusted: int
    model: str
    summary: str  # JSON


class Snapshot(NamedTuple):
    """The packed state of a stream after an event."""

    seq: int
    model: str  # the version it was packed with
    state: bytes


class Point(NamedTuple):
    """A stream at one time, for its history."""

    at_row: int
    at: float
    prior: float | None  # of the positive class
    low: float | None
    high: float | None
    log_threshold: float | None
    n_rows: int  # since the previous point
    n_alerts: int  # among them
    log_evidence: float | None


EVENT_COLUMNS, STREAM_COLUMNS, POINT_COLUMNS = (", ".join(kind._fields) for kind in (StoredEvent, StreamRow, Point))


class Writing:
    """The operations within one transaction."""

    def __init__(self, run: Run, lock_rows: str) -> None:
        self._run, self._lock_rows = run, lock_rows

    def lock(self, name: str) -> StreamRow | None:
        """Return a stream, locked until the transaction ends."""
        found = self._run(f"SELECT {STREAM_COLUMNS} FROM streams WHERE name = ?{self._lock_rows}", (name,))
        return StreamRow(*found[0]) if found else None

    def add_stream(self, name: str, at: float, model: str) -> StreamRow:
        """Create a stream, or find the one that another process has just created."""
        self._run(
            "INSERT INTO streams (name, created, updated, seq, n_rows, n_labels, n_alerts, trusted, model, summary) "
            "VALUES (?, ?, ?, 0, 0, 0, 0, 1, ?, '{}') ON CONFLICT (name) DO NOTHING",
            (name, at, at, model),
        )
        found = self.lock(name)
        if found is None:
            raise NotStoredError(f"the stream {name!r} has just been deleted, nothing of this request was stored")
        return found

    def save_stream(self, row: StreamRow) -> None:
        """Write the summary of a stream."""
        self._run(
            "UPDATE streams SET updated = ?, seq = ?, n_rows = ?, n_labels = ?, n_alerts = ?, trusted = ?, model = ?, "
            "summary = ? WHERE id = ?",
            (*row[3:], row.id),
        )

    def erase_stream(self, stream: int) -> None:
        """Delete everything of a stream."""
        for table in STREAM_TABLES:
            self._run(f"DELETE FROM {table} WHERE stream = ?", (stream,))
        self._run("DELETE FROM streams WHERE id = ?", (stream,))

    def append(self, stream: int, event: StoredEvent) -> None:
        """Write one event to the log."""
        self._run(
            f"INSERT INTO events (stream, {EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (stream, *event)
        )

    def rewrite(self, stream: int, seq: int, payload: bytes) -> None:
        """Replace the payload of an event, to erase something of it."""
        self._run("UPDATE events SET payload = ? WHERE stream = ? AND seq = ?", (payload, stream, seq))

    def find_retry(self, stream: int, retry_key: str) -> StoredEvent | None:
        """Return the event that came with an idempotency key."""
        found = events_where(self._run, "AND retry_key = ?", stream, retry_key)
        return found[0] if found else None

    def event(self, stream: int, seq: int) -> StoredEvent:
        """Return one event."""
        found = events_where(self._run, "AND seq = ?", stream, seq)
        if not found:
            raise NotStoredError(f"event {seq} of a stream is no longer in the log")
        return found[0]

    def events_after(self, stream: int, seq: int) -> list[StoredEvent]:
        """Return the events after an event, in order."""
        return events_where(self._run, "AND seq > ? ORDER BY seq", stream, seq)

    def events_of_kind(self, stream: int, kind: str) -> Iterator[StoredEvent]:
        """Return all events of one kind, a few at a time."""
        seq = 0
        while found := events_where(self._run, "AND kind = ? AND seq > ? ORDER BY seq LIMIT 200", stream, kind, seq):
            yield from found
            seq = found[-1].seq

    def snapshot_seq(self, stream: int) -> int:
        """Return the event of the last snapshot, 0 if there is none."""
        found = self._run("SELECT seq FROM snapshots WHERE stream = ?", (stream,))
        return int(found[0][0]) if found else 0

    def snapshot(self, stream: int) -> Snapshot | None:
        """Return the last snapshot of a stream."""
        found = self._run("SELECT seq, model, state FROM snapshots WHERE stream = ?", (stream,))
        return Snapshot(found[0][0], found[0][1], bytes(found[0][2])) if found else None

    def save_snapshot(self, stream: int, snapshot: Snapshot) -> None:
        """Replace the snapshot of a stream."""
        self._run(
            "INSERT INTO snapshots (stream, seq, model, state) VALUES (?, ?, ?, ?) ON CONFLICT (stream) DO UPDATE "
            "SET seq = excluded.seq, model = excluded.model, state = excluded.state",
            (stream, *snapshot),
        )

    def add_point(self, stream: int, point: Point) -> None:
        """Add to the history of a stream."""
        self._run(
            f"INSERT INTO points (stream, {POINT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (stream, at_row) DO NOTHING",
            (stream, *point),
        )

    def last_point_at(self, stream: int) -> float:
        """Return the time of the last point of a stream's history, 0 if there is none."""
        found = self._run("SELECT at FROM points WHERE stream = ? ORDER BY at_row DESC LIMIT 1", (stream,))
        return float(found[0][0]) if found else 0.0

    def set_meta(self, name: str, value: str) -> None:
        """Set a value of the whole store."""
        self._run(
            "INSERT INTO obil_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def meta(self, name: str) -> str | None:
        """Return a value of the whole store."""
        found = self._run("SELECT value FROM obil_meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else None

    def add_model(self, version: str, files: Mapping[str, bytes]) -> None:
        """Store the files of a model, so that every process and every restart has them."""
        for name, content in files.items():
            self._run(
                "INSERT INTO model_files (version, name, content) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (version, name, content),
            )

    def prune(self, before: float) -> int:
        """Erase old events that a snapshot covers, and old points; return how many events."""
        old = self._run(
            "SELECT e.stream, e.seq FROM events e JOIN snapshots s ON s.stream = e.stream "
            f"WHERE e.at < ? AND e.seq <= s.seq AND e.kind NOT IN {NEVER_PRUNED} ORDER BY e.at LIMIT ?",
            (before, PRUNE_EVENTS),
        )
        for stream, seq in old:
            self._run("DELETE FROM events WHERE stream = ? AND seq = ?", (stream, seq))
        self._run("DELETE FROM points WHERE at < ?", (before,))
        return len(old)


def events_where(run: Run, condition: str, *values: Any) -> list[StoredEvent]:
    """Return the events of a stream that meet a condition; `values` are the stream and those of the condition."""
    found = map(StoredEvent._make, run(f"SELECT {EVENT_COLUMNS} FROM events WHERE stream = ? {condition}", values))
    # PostgreSQL has its own type of bytes
    return [
        one._replace(digest=None if one.digest is None else bytes(one.digest), payload=bytes(one.payload))
        for one in found
    ]
