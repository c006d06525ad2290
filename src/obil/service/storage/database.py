"""Define the tables of the service, and what a database must offer: reads and durable transactions."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from obil.service.refusals import NotStoredError

FORMAT = 1

# the types in {} differ between SQLite and PostgreSQL; a request waits for one row of `events` and one of `streams`
TABLES = (
    "CREATE TABLE IF NOT EXISTS obil_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS model_files (version TEXT NOT NULL, name TEXT NOT NULL, content {blob} NOT NULL, "
    "PRIMARY KEY (version, name))",
    "CREATE TABLE IF NOT EXISTS streams (id {serial}, name TEXT NOT NULL UNIQUE, created {real} NOT NULL, "
    "updated {real} NOT NULL, seq {integer} NOT NULL, n_rows {integer} NOT NULL, n_labels {integer} NOT NULL, "
    "n_alerts {integer} NOT NULL, trusted {integer} NOT NULL, model TEXT NOT NULL, summary TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS alarmed_streams ON streams (name) WHERE trusted = 0",
    # the packed state of a stream after event `seq`; unpacking it needs the model of that version
    "CREATE TABLE IF NOT EXISTS snapshots (stream {integer} PRIMARY KEY, seq {integer} NOT NULL, model TEXT NOT NULL, "
    "state {blob} NOT NULL)",
    # all events of a stream in order: replayed from the first, they give its state bit for bit
    "CREATE TABLE IF NOT EXISTS events (stream {integer} NOT NULL, seq {integer} NOT NULL, at {real} NOT NULL, "
    "kind TEXT NOT NULL, sender TEXT NOT NULL, retry_key TEXT, digest {blob}, first_row {integer} NOT NULL, "
    "n_rows {integer} NOT NULL, payload {blob} NOT NULL, PRIMARY KEY (stream, seq))",
    "CREATE UNIQUE INDEX IF NOT EXISTS retried_events ON events (stream, retry_key) WHERE retry_key IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS changes_of_settings ON events (stream, seq) WHERE kind = 'settings'",
    "CREATE INDEX IF NOT EXISTS old_events ON events (at)",
    "CREATE TABLE IF NOT EXISTS points (stream {integer} NOT NULL, at_row {integer} NOT NULL, at {real} NOT NULL, "
    "prior {real}, low {real}, high {real}, log_threshold {real}, n_rows {integer} NOT NULL, "
    "n_alerts {integer} NOT NULL, log_evidence {real}, PRIMARY KEY (stream, at_row)){compact}",
    "CREATE TABLE IF NOT EXISTS api_keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, hash {blob} NOT NULL, "
    "scopes TEXT NOT NULL, created {real} NOT NULL, expires {real}, revoked {real})",
)
SQLITE_TYPES = {
    "blob": "BLOB",
    "real": "REAL",
    "integer": "INTEGER",
    "serial": "INTEGER PRIMARY KEY",
    "compact": " WITHOUT ROWID",
}
POSTGRES_TYPES = {
    "blob": "BYTEA",
    "real": "DOUBLE PRECISION",
    "integer": "BIGINT",
    "serial": "BIGSERIAL PRIMARY KEY",
    "compact": "",
}
STREAM_TABLES = ("points", "events", "snapshots")


class Session(Protocol):
    """An open transaction."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement with ? for each value; return its rows, if it has any."""


class Database(Protocol):
    """A database with the tables of the service."""

    lock_rows: str  # the suffix of a SELECT that locks its rows until the transaction ends

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return committed rows; from any thread."""

    def transaction(self) -> AbstractContextManager[Session]:
        """Begin; commit and wait for the disk at the end, or roll back on an error. One at a time."""

    def sweep(self) -> None:
        """Overwrite erased data that the database itself would leave in its files."""

    def close(self) -> None:
        """Close the database."""


@contextmanager
def as_not_stored(error: type[Exception], reason_of: Callable[[Exception], str] = str) -> Iterator[None]:
    """Turn the errors of a driver into one refusal: nothing was stored, try again."""
    try:
        yield
    except error as cause:
        reason = " ".join(reason_of(cause).split())
        raise NotStoredError(
            f"the store cannot be written to, nothing of this request was stored: {reason:.200}"
        ) from cause
