"""Keep everything in one SQLite file: write-ahead log, synced at every commit."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from obil.errors import InvalidInputError
from obil.service.database import Session, as_not_stored
from obil.service.schema import SQLITE_WORDS, TABLES

BUSY_MS = 10_000  # a second process on the same file waits this long for its turn


class SqliteDatabase:
    """One connection that writes and one that reads, each behind a lock."""

    lock_rows = ""  # a transaction that writes has the whole file

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer, self._reader = self._connect(), self._connect()
        except (sqlite3.Error, OSError) as error:
            raise InvalidInputError(f"{self.path} cannot be opened as an SQLite store: {error}") from None
        self._writing, self._reading = threading.RLock(), threading.Lock()
        with self.transaction() as session:
            for table in TABLES:
                session.execute(table.format(**SQLITE_WORDS))

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what is committed; from any thread."""
        with self._reading, as_not_stored(sqlite3.Error):
            return self._reader.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Begin; commit and sync at the end, or undo everything on an error."""
        with self._writing, as_not_stored(sqlite3.Error):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield _SqliteSession(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # a full disk may have ended it already
                    self._writer.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Let go of the file; the write-ahead log is folded into it."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "synchronous = FULL", f"busy_timeout = {BUSY_MS}"):
            connection.execute(f"PRAGMA {setting}")
        return connection


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()
