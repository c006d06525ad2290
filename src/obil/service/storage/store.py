"""Keep streams, their logs, snapshots and points, models and keys, in either database."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from obil.errors import InvalidInputError
from obil.service.storage.api_keys import KeyRecord
from obil.service.storage.database import Database
from obil.service.storage.schema import FORMAT
from obil.service.storage.stored_event import StoredEvent
from obil.service.storage.writing import (
    ALWAYS_KEPT,
    EVENT_COLUMNS,
    POINT_COLUMNS,
    STREAM_COLUMNS,
    Point,
    StreamRow,
    Writing,
    as_event,
)

KEY_COLUMNS = "id, name, hash, scopes, created, expires, revoked"


class Store:
    """All that is kept, behind whichever database it is kept in."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with self.writing() as session:
            found = session.meta("format")
            if found is None:
                session.set_meta("format", str(FORMAT))
            elif found != str(FORMAT):
                raise InvalidInputError(f"this store has format {found:.20}, this version reads {FORMAT}")

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Begin a transaction; what was done in it is safe on disk when it has ended without an error."""
        with self._database.transaction() as session:
            yield Writing(session, self._database.lock_rows)

    def sweep(self) -> None:
        """Leave nothing of what was erased in the files of the database."""
        self._database.sweep()

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def stream(self, name: str) -> StreamRow | None:
        """Return a stream at a glance."""
        found = self._database.read(f"SELECT {STREAM_COLUMNS} FROM streams WHERE name = ?", (name,))
        return StreamRow(*found[0]) if found else None

    def streams(self, *, after: str, limit: int, search: str, alarmed: bool) -> list[StreamRow]:
        """Return streams in the order of their names."""
        where, values = _which(search, alarmed=alarmed)
        found = self._database.read(
            f"SELECT {STREAM_COLUMNS} FROM streams WHERE name > ?{where} ORDER BY name LIMIT ?",
            (after, *values, limit),
        )
        return [StreamRow(*row) for row in found]

    def count_streams(self, *, search: str = "", alarmed: bool = False) -> int:
        """Return how many streams there are."""
        where, values = _which(search, alarmed=alarmed)
        return int(self._database.read(f"SELECT COUNT(*) FROM streams WHERE name > ''{where}", values)[0][0])

    def points(self, stream: int, *, start: float, end: float, most: int) -> list[Point]:
        """Return the history of a stream between two moments, evenly thinned to about `most` points."""
        within = (stream, start, end)
        where = "WHERE stream = ? AND at >= ? AND at <= ?"
        total = int(self._database.read(f"SELECT COUNT(*) FROM points {where}", within)[0][0])
        step = max(1, -(-total // most))
        found = self._database.read(
            f"SELECT {POINT_COLUMNS} FROM (SELECT {POINT_COLUMNS}, ROW_NUMBER() OVER (ORDER BY at_row) AS place "
            f"FROM points {where}) AS numbered WHERE (? - place) % ? = 0 ORDER BY at_row",
            (*within, total, step),  # counted from the end: the newest point is always there
        )
        return [Point(*row) for row in found]

    def uncovered(self, before: float, *, most: int) -> list[str]:
        """Return streams with old events that no snapshot covers, so that they may not be erased yet."""
        found = self._database.read(
            "SELECT DISTINCT s.name FROM events e JOIN streams s ON s.id = e.stream LEFT JOIN snapshots p "
            "ON p.stream = e.stream WHERE e.at < ? AND e.seq > COALESCE(p.seq, 0) "
            f"AND e.kind NOT IN {ALWAYS_KEPT} ORDER BY s.name LIMIT ?",
            (before, most),
        )
        return [name for (name,) in found]

    def changes(self, stream: int, *, most: int) -> list[StoredEvent]:
        """Return the last changes of a stream's settings, the newest first."""
        found = self._database.read(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE stream = ? AND kind = 'settings' ORDER BY seq DESC LIMIT ?",
            (stream, most),
        )
        return [as_event(row) for row in found]

    def log(self, stream: int) -> list[StoredEvent]:
        """Return everything that happened to a stream, in order."""
        found = self._database.read(f"SELECT {EVENT_COLUMNS} FROM events WHERE stream = ? ORDER BY seq", (stream,))
        return [as_event(row) for row in found]

    def model_files(self, version: str) -> dict[str, bytes]:
        """Return the files of a model; none where it was never kept."""
        found = self._database.read("SELECT name, content FROM model_files WHERE version = ?", (version,))
        return {name: bytes(content) for name, content in found}

    def add_key(self, record: KeyRecord) -> None:
        """Keep a new API key."""
        with self._database.transaction() as session:
            session.execute(
                f"INSERT INTO api_keys ({KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    record.id, record.name, record.hash, " ".join(record.scopes), record.created, record.expires,
                    record.revoked,
                ),
            )  # fmt: skip

    def list_keys(self) -> Sequence[KeyRecord]:
        """Return all API keys, the oldest first, revoked ones too."""
        found = self._database.read(f"SELECT {KEY_COLUMNS} FROM api_keys ORDER BY created, id")
        return [_key(row) for row in found]

    def find_key(self, key_id: str) -> KeyRecord | None:
        """Return the API key with that id."""
        found = self._database.read(f"SELECT {KEY_COLUMNS} FROM api_keys WHERE id = ?", (key_id,))
        return _key(found[0]) if found else None

    def revoke_key(self, key_id: str, at: float) -> bool:
        """Mark an API key as revoked; return whether there was one that was not yet."""
        with self._database.transaction() as session:
            found = session.execute("SELECT revoked FROM api_keys WHERE id = ?", (key_id,))
            if not found or found[0][0] is not None:
                return False
            session.execute("UPDATE api_keys SET revoked = ? WHERE id = ?", (at, key_id))
            return True

    def meta(self, name: str) -> str | None:
        """Return a word of the whole store."""
        found = self._database.read("SELECT value FROM obil_meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else None


def summary_of(row: StreamRow) -> dict[str, Any]:
    """Return what a stream wrote about itself."""
    record: dict[str, Any] = json.loads(row.summary)
    return record


def _which(search: str, *, alarmed: bool) -> tuple[str, tuple[str, ...]]:
    where = " AND trusted = 0" if alarmed else ""
    if not search:
        return where, ()
    safe = search.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return where + " AND LOWER(name) LIKE ? ESCAPE '!'", (f"%{safe}%",)


def _key(row: tuple[Any, ...]) -> KeyRecord:
    name, holder, digest, scopes, *times = row
    return KeyRecord(name, holder, bytes(digest), tuple(scopes.split()), *times)
