"""Store streams, their logs, snapshots and points, models and keys, in SQLite or PostgreSQL."""

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from obil.errors import InvalidInputError, ObilError
from obil.online.decision_ids import Id
from obil.service.storage.api_keys import KeyRecord
from obil.service.storage.database import Database, SqliteDatabase
from obil.service.storage.digests import Digests, create_secret, read_secret
from obil.service.storage.stored_event import StoredEvent
from obil.service.storage.tables import AUDITED, NEVER_PRUNED
from obil.service.storage.writing import (
    POINT_COLUMNS,
    STREAM_COLUMNS,
    ModelRow,
    Point,
    StreamRow,
    Writing,
    events_where,
    models_of,
)

KEY_COLUMNS = "id, name, hash, scopes, created, expires, revoked"
PROBE_BYTES = 10_000  # more than a page of either database: where a page is full, a few bytes may still fit
READY_SECONDS = 1.0  # how long a store counts as ready after it was written to


class Store:
    """Everything that is stored, in whichever database; the secret of its digests is in a file beside it."""

    def __init__(self, database: Database, secret_file: Path) -> None:
        self._database, self._read, self._secret_file = database, database.read, secret_file
        self._digests: Digests | None = None
        self._sweeping, self._swept_from = threading.Lock(), 0.0

    def open_secret(self) -> None:
        """Read the secret, and create it with a new store; without it events can neither be written nor found."""
        secret, expected = read_secret(self._secret_file), self.meta("secret")
        if secret is None and expected is None:
            secret = create_secret(self._secret_file)
        remedy = "restore it from its backup; all services on one store need the same file"
        if secret is None:
            raise InvalidInputError(f"secret file {self._secret_file} does not exist, but this store has one: {remedy}")
        digests = Digests(secret)
        with self._database.transaction() as run:  # of several services that start at once, the first decides
            run(
                "INSERT INTO obil_meta (name, value) VALUES ('secret', ?) ON CONFLICT DO NOTHING",
                (digests.of_nothing(),),
            )
            ((expected,),) = run("SELECT value FROM obil_meta WHERE name = 'secret'")
        if expected != digests.of_nothing():
            raise InvalidInputError(f"secret file {self._secret_file} is not the one of this store: {remedy}")
        self._digests = digests

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Begin a transaction; it is on disk once the block has ended without an error."""
        with self._database.transaction() as run:
            yield Writing(run, self._database.lock_rows, self._digests)

    def sweep(self) -> None:
        """Overwrite erased data in the files of the database; those who wait together share one sweep."""
        asked = time.monotonic()
        with self._sweeping:
            if self._swept_from <= asked:
                self._swept_from = time.monotonic()
                self._database.sweep()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def stream(self, name: str) -> StreamRow | None:
        """Return a stream at a glance."""
        found = self._read(f"SELECT {STREAM_COLUMNS} FROM streams WHERE name = ?", (name,))
        return StreamRow(*found[0]) if found else None

    def streams(self, *, after: str, limit: int, search: str, alarmed: bool) -> list[StreamRow]:
        """Return streams by name."""
        where, values = _condition(search, alarmed=alarmed)
        found = self._read(
            f"SELECT {STREAM_COLUMNS} FROM streams WHERE name > ?{where} ORDER BY name LIMIT ?", (after, *values, limit)
        )
        return [StreamRow(*row) for row in found]

    def count_streams(self, *, search: str = "", alarmed: bool = False) -> int:
        """Return how many streams there are."""
        where, values = _condition(search, alarmed=alarmed)
        return int(self._read(f"SELECT COUNT(*) FROM streams WHERE name > ''{where}", values)[0][0])

    def points(self, stream: int, *, start: float, end: float, limit: int) -> list[Point]:
        """Return the history of a stream between two times, evenly downsampled to about `limit` points."""
        within = (stream, start, end)
        where = "WHERE stream = ? AND at >= ? AND at <= ?"
        total = int(self._read(f"SELECT COUNT(*) FROM points {where}", within)[0][0])
        step = max(1, -(-total // limit))
        found = self._read(
            f"SELECT {POINT_COLUMNS} FROM (SELECT {POINT_COLUMNS}, ROW_NUMBER() OVER (ORDER BY at_row) AS number "
            f"FROM points {where}) AS numbered WHERE (? - number) % ? = 0 ORDER BY at_row",
            (*within, total, step),  # counted from the end: the newest point is always included
        )
        return [Point(*row) for row in found]

    def uncovered(self, before: float, *, limit: int) -> list[str]:
        """Return streams with old events that no snapshot covers: these cannot be erased yet."""
        found = self._read(
            "SELECT DISTINCT s.name FROM events e JOIN streams s ON s.id = e.stream LEFT JOIN snapshots p "
            "ON p.stream = e.stream WHERE e.at < ? AND e.seq > COALESCE(p.seq, 0) "
            f"AND e.kind NOT IN {NEVER_PRUNED} ORDER BY s.name LIMIT ?",
            (before, limit),
        )
        return [name for (name,) in found]

    def old_points(self, before: float, *, limit: int) -> list[tuple[int, int]]:
        """Return some points that are older than a time, each by its stream and its row."""
        found = self._read("SELECT stream, at_row FROM points WHERE at < ? LIMIT ?", (before, limit))
        return [(stream, at_row) for stream, at_row in found]

    def audit(self, stream: int, *, limit: int) -> list[StoredEvent]:
        """Return the last events of a stream that are neither rows nor labels, the newest first."""
        return events_where(self._read, f"AND {AUDITED} ORDER BY seq DESC LIMIT ?", stream, limit)

    def log(self, stream: int) -> list[StoredEvent]:
        """Return all events of a stream, in order."""
        return events_where(self._read, "ORDER BY seq", stream)

    def log_after(self, stream: int, seq: int, *, limit: int, max_bytes: int) -> list[StoredEvent]:
        """Return the first events after an event: one, or as many as have no more than `max_bytes` together."""
        sizes = self._read(
            "SELECT seq, LENGTH(payload) FROM events WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?",
            (stream, seq, limit),
        )
        if not sizes:
            return []
        n_within = bisect_right(list(accumulate(size for _, size in sizes)), max_bytes)
        last = sizes[max(n_within, 1) - 1][0]
        return events_where(self._read, "AND seq > ? AND seq <= ? ORDER BY seq", stream, seq, last)

    def find_id(self, row: StreamRow, name: Id) -> list[StoredEvent]:
        """Return the events that name an id, as `Writing.find_id` does, without a transaction."""
        return Writing(self._read, "", self._digests).find_id(row, name)

    def model_files(self, version: str) -> dict[str, bytes]:
        """Return the files of a model; none if it was never stored."""
        found = self._read("SELECT name, content FROM model_files WHERE version = ?", (version,))
        return {name: bytes(content) for name, content in found}

    def models(self) -> list[ModelRow]:
        """Return all versions of the model, the oldest first."""
        return models_of(self._read)

    def add_key(self, record: KeyRecord) -> None:
        """Store a new API key."""
        with self._database.transaction() as run:
            times = record.created, record.expires, record.revoked
            values = (record.id, record.name, record.hash, " ".join(record.scopes), *times)
            run(f"INSERT INTO api_keys ({KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def list_keys(self) -> Sequence[KeyRecord]:
        """Return all API keys, the oldest first, revoked ones too."""
        return [_key(row) for row in self._read(f"SELECT {KEY_COLUMNS} FROM api_keys ORDER BY created, id")]

    def find_key(self, key_id: str) -> KeyRecord | None:
        """Return the API key with that id."""
        found = self._read(f"SELECT {KEY_COLUMNS} FROM api_keys WHERE id = ?", (key_id,))
        return _key(found[0]) if found else None

    def revoke_key(self, key_id: str, at: float) -> bool:
        """Mark an API key as revoked; return whether there was one that was not yet."""
        with self._database.transaction() as run:
            found = run("SELECT id FROM api_keys WHERE id = ? AND revoked IS NULL", (key_id,))
            run("UPDATE api_keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (at, key_id))
        return bool(found)

    def meta(self, name: str) -> str | None:
        """Return a value of the whole store."""
        found = self._read("SELECT value FROM obil_meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else None


def _condition(search: str, *, alarmed: bool) -> tuple[str, tuple[str, ...]]:
    where = " AND trusted = 0" if alarmed else ""
    if not search:
        return where, ()
    safe = search.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return where + " AND LOWER(name) LIKE ? ESCAPE '!'", (f"%{safe}%",)


def _key(row: tuple[Any, ...]) -> KeyRecord:
    name, holder, digest, scopes, *times = row
    return KeyRecord(name, holder, bytes(digest), tuple(scopes.split()), *times)


class StoreProbe:
    """Checks that a store can be written to by writing to it, at most once per second.

    Anyone may ask, without a key: together they cost the disk little.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._lock, self._ready_until = store, threading.Lock(), 0.0

    async def ready(self) -> bool:
        """Return whether the store can be written to."""
        try:
            if time.monotonic() >= self._ready_until:
                await asyncio.to_thread(self._write)
        except ObilError:
            return False
        return True

    def _write(self) -> None:
        with self._lock:
            if time.monotonic() < self._ready_until:
                return  # another request has written while this one waited
            with self._store.writing() as session:
                session.set_meta("probe", "-" * PROBE_BYTES)
                session.set_meta("probe", "1")
            self._ready_until = time.monotonic() + READY_SECONDS


def open_store(url: str, *, secret_file: str | Path | None = None) -> Store:
    """Return the store at a path, at sqlite:///path or at postgresql://...; it is created if it does not exist.

    `secret_file` is beside the SQLite file if None, with its name and `.secret`, and `obil.secret` for PostgreSQL.
    """
    file = file_of(url)
    if secret_file is None:
        secret_file = "obil.secret" if file is None else file.with_name(f"{file.name}.secret")
    if file is not None:
        return Store(SqliteDatabase(file), Path(secret_file))
    from obil.service.storage.postgres_database import PostgresDatabase  # noqa: PLC0415  # needs psycopg

    return Store(PostgresDatabase(url), Path(secret_file))


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite store, None for PostgreSQL.

    >>> file_of("sqlite:///streams.db"), file_of("postgresql://host/obil")
    (PosixPath('streams.db'), None)
    """
    scheme, colon, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        return None
    if colon and scheme != "sqlite":
        raise InvalidInputError(f"store must be a path, sqlite:///path or postgresql://..., got {scheme!r:.20}://")
    path = rest.removeprefix("/") if colon else url
    if not path:
        raise InvalidInputError("store must have a path, such as sqlite:///streams.db")
    return Path(path)
