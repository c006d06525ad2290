"""Read and write the tables of the service within one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from obil.errors import InvalidStateError
from obil.online.decision_ids import Id
from obil.service.refusals import NotStoredError
from obil.service.storage.digests import Digests
from obil.service.storage.stored_event import StoredEvent
from obil.service.storage.tables import NEVER_PRUNED, Run

SLICE = 500  # records that are erased at once, so that no request waits long
SEGMENT_ROWS = 16_384  # few enough that their part of the index stays in memory, many enough that segments are few
INSERTED_TOGETHER = 200
FROM_FOLDER, UPLOADED = "folder", "upload"


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


class ModelRow(NamedTuple):
    """A version of the model: where it came from, and when it became active last."""

    version: str
    source: str  # FROM_FOLDER or UPLOADED
    added: float | None  # None: before this was written down
    added_by: str
    activated: float | None
    activated_by: str | None


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


# the records of a stream: table, the column that parts it, and the one that orders a part
STREAM_TABLES = (
    ("snapshots", None, "seq"), ("events", None, "seq"), ("event_ids", "segment", "digest"), ("points", None, "at_row"),
)  # fmt: skip
EVENT_COLUMNS, STREAM_COLUMNS, POINT_COLUMNS = (", ".join(kind._fields) for kind in (StoredEvent, StreamRow, Point))


class Writing:
    """The operations within one transaction."""

    def __init__(self, run: Run, lock_rows: str, digests: Digests | None) -> None:
        self._run, self._lock_rows, self._digests = run, lock_rows, digests
        self._locked: dict[str, StreamRow | None] = {}  # what `lock_all` has read
        self._meta: dict[str, str | None] = {}  # what was read since the last lock

    @property
    def digests(self) -> Digests:
        """The keyed digests of ids, idempotency keys and bodies."""
        if self._digests is None:
            raise InvalidStateError("the secret of the store must be opened before its events are written")
        return self._digests

    def lock_all(self, names: Sequence[str]) -> None:
        """Lock streams in one statement, for `lock` to return."""
        # as many names as a power of two: the database prepares each statement
        padded = [*names, *[names[-1]] * ((1 << (len(names) - 1).bit_length()) - len(names))]
        where = f"name IN ({', '.join('?' * len(padded))})"
        found = self._run(f"SELECT {STREAM_COLUMNS} FROM streams WHERE {where}{self._lock_rows}", padded)
        self._locked = {**dict.fromkeys(names), **{row.name: row for row in map(StreamRow._make, found)}}
        self._meta.clear()

    def lock(self, name: str) -> StreamRow | None:
        """Return a stream, locked until the transaction ends."""
        if name in self._locked:
            return self._locked.pop(name)
        self._meta.clear()
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

    def delete_stream(self, stream: int) -> None:
        """Delete a stream; its records are left to `erase_slice`."""
        self._run("DELETE FROM streams WHERE id = ?", (stream,))
        self._run("INSERT INTO deleted_streams (id) VALUES (?)", (stream,))

    def deleted_stream(self) -> int | None:
        """Return a deleted stream of which something may be left."""
        found = self._run("SELECT MIN(id) FROM deleted_streams")[0][0]
        return None if found is None else int(found)

    def erase_slice(self, stream: int) -> bool:
        """Erase some records of a deleted stream; return whether more may be left."""
        for table, part, order in STREAM_TABLES:
            values: tuple[int, ...] = (stream,)
            where = "stream = ?"
            if part is not None:
                first = self._run(f"SELECT MIN({part}) FROM {table} WHERE {where}", values)[0][0]
                values, where = (stream, first), f"{where} AND {part} = ?"
            last = self._run(
                f"SELECT MAX({order}) FROM "
                f"(SELECT {order} FROM {table} WHERE {where} ORDER BY {order} LIMIT ?) AS slice",
                (*values, SLICE),
            )[0][0]
            if last is not None:
                self._run(f"DELETE FROM {table} WHERE {where} AND {order} <= ?", (*values, last))
                return True
        self._run("DELETE FROM deleted_streams WHERE id = ?", (stream,))
        return False

    def append(self, stream: int, event: StoredEvent, ids: Sequence[Id] = ()) -> None:
        """Write one event to the log, and to the index the ids that it names."""
        self._run(
            f"INSERT INTO events (stream, {EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (stream, *event)
        )
        segment, digest_of = event.first_row // SEGMENT_ROWS, self.digests.of_id
        digests = sorted({digest_of(name) for name in ids})
        for first in range(0, len(digests), INSERTED_TOGETHER):
            part = digests[first : first + INSERTED_TOGETHER]
            places = ", ".join(["(?, ?, ?, ?)"] * len(part))
            values = [value for digest in part for value in (stream, segment, digest, event.seq)]
            self._run(f"INSERT INTO event_ids (stream, segment, digest, seq) VALUES {places}", values)

    def erase_from(self, stream: int, event: StoredEvent, payload: bytes, ids: Iterable[Id]) -> None:
        """Replace the payload of an event by one without these ids; a retry of it has no answer any more."""
        self._run(
            "UPDATE events SET payload = ?, digest = NULL WHERE stream = ? AND seq = ?", (payload, stream, event.seq)
        )
        segment = event.first_row // SEGMENT_ROWS
        for name in ids:
            self._run(
                "DELETE FROM event_ids WHERE stream = ? AND segment = ? AND digest = ? AND seq = ?",
                (stream, segment, self.digests.of_id(name), event.seq),
            )

    def find_id(self, row: StreamRow, name: Id) -> list[StoredEvent]:
        """Return the events that name an id, and the one whose row has it as its number; a few may name another."""
        found = self._run(
            "WITH RECURSIVE segments (number) AS "
            "(SELECT 0 UNION ALL SELECT number + 1 FROM segments WHERE number < ?) "
            "SELECT e.seq FROM segments s JOIN event_ids e ON e.segment = s.number WHERE e.stream = ? AND e.digest = ?",
            (row.n_rows // SEGMENT_ROWS, row.id, self.digests.of_id(name)),
        )
        events = [event for (seq,) in found for event in events_where(self._run, "AND seq = ?", row.id, seq)]
        if isinstance(name, int) and 0 <= name < row.n_rows:
            events += [event for event in self._event_of_row(row, name) if all(event.seq != one.seq for one in events)]
        return events

    def _event_of_row(self, row: StreamRow, number: int) -> list[StoredEvent]:
        """Return the event of a row, if it is still in the log, by bisection: first rows never fall."""
        low, high = 1, row.seq + 1  # of the first event after that row
        while low < high:
            middle = (low + high) // 2
            found = self._run(
                "SELECT seq, first_row FROM events WHERE stream = ? AND seq >= ? ORDER BY seq LIMIT 1", (row.id, middle)
            )
            if not found or found[0][1] > number:
                high = middle
            else:
                low = found[0][0] + 1
        before = events_where(self._run, "AND seq < ? ORDER BY seq DESC LIMIT 1", row.id, low)
        return [event for event in before if number < event.first_row + event.n_rows]

    def find_retry(self, stream: int, retry_key: str) -> StoredEvent | None:
        """Return the event that came with an idempotency key."""
        found = events_where(self._run, "AND retry_key = ?", stream, self.digests.of_retry_key(retry_key))
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
        self._meta.clear()
        self._run(
            "INSERT INTO obil_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def meta(self, name: str) -> str | None:
        """Return a value of the whole store, as it was at the last lock or later."""
        if name not in self._meta:
            found = self._run("SELECT value FROM obil_meta WHERE name = ?", (name,))
            self._meta[name] = str(found[0][0]) if found else None
        return self._meta[name]

    def lock_meta(self, name: str) -> None:
        """Have other processes that lock a value of the whole store wait until the transaction ends."""
        self._run(f"SELECT value FROM obil_meta WHERE name = ?{self._lock_rows}", (name,))

    def add_model(self, version: str, files: Mapping[str, bytes], *, source: str, at: float, by: str) -> None:
        """Store the files of a model, so that every process and every restart has them."""
        for name, content in files.items():
            self._run(
                "INSERT INTO model_files (version, name, content) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (version, name, content),
            )
        self._run(
            "INSERT INTO models (version, source, added, added_by) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (version, source, at, by),
        )
        if source == FROM_FOLDER:  # who put it there vouches for it, also where it had been uploaded before
            self._run("UPDATE models SET source = ? WHERE version = ?", (source, version))

    def models(self) -> list[ModelRow]:
        """Return all versions of the model, the oldest first."""
        return models_of(self._run)

    def activate_model(self, version: str, at: float, by: str) -> None:
        """Write down that a version is active from now on."""
        self._run("UPDATE models SET activated = ?, activated_by = ? WHERE version = ?", (at, by, version))

    def remove_model(self, version: str) -> None:
        """Erase the files of a version."""
        for table in ("model_files", "models"):
            self._run(f"DELETE FROM {table} WHERE version = ?", (version,))

    def prune(self, before: float) -> int:
        """Erase some of the old events that a snapshot covers, or else some old points; return how many."""
        old = self._run(
            "SELECT e.stream, e.seq, e.first_row FROM events e JOIN snapshots s ON s.stream = e.stream "
            f"WHERE e.at < ? AND e.seq <= s.seq AND e.kind NOT IN {NEVER_PRUNED} ORDER BY e.at LIMIT ?",
            (before, SLICE),
        )
        last_of: dict[tuple[int, int], int] = {}
        for stream, seq, first_row in old:
            self._run("DELETE FROM events WHERE stream = ? AND seq = ?", (stream, seq))
            part = stream, first_row // SEGMENT_ROWS
            last_of[part] = max(seq, last_of.get(part, seq))
        for (stream, segment), last in last_of.items():
            self._run(
                "DELETE FROM event_ids WHERE stream = ? AND segment = ? AND seq <= ? AND NOT EXISTS "
                "(SELECT 1 FROM events e WHERE e.stream = event_ids.stream AND e.seq = event_ids.seq)",
                (stream, segment, last),
            )
        return len(old)

    def erase_points(self, places: Iterable[tuple[int, int]]) -> None:
        """Erase points, each given by its stream and its row."""
        for place in places:
            self._run("DELETE FROM points WHERE stream = ? AND at_row = ?", place)


def events_where(run: Run, condition: str, *values: Any) -> list[StoredEvent]:
    """Return the events of a stream that meet a condition; `values` are the stream and those of the condition."""
    found = map(StoredEvent._make, run(f"SELECT {EVENT_COLUMNS} FROM events WHERE stream = ? {condition}", values))
    # PostgreSQL has its own type of bytes
    return [
        one._replace(
            retry_key=None if one.retry_key is None else bytes(one.retry_key),
            digest=None if one.digest is None else bytes(one.digest),
            payload=bytes(one.payload),
        )
        for one in found
    ]


def models_of(run: Run) -> list[ModelRow]:
    """Return all versions of the model, the oldest first."""
    columns = ", ".join(ModelRow._fields)
    return [ModelRow(*row) for row in run(f"SELECT {columns} FROM models ORDER BY COALESCE(added, 0), version")]
