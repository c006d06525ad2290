"""Keep the tables of the service in one SQLite file: write-ahead log, synced at every commit."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from obil.errors import InvalidInputError
from obil.service.refusals import NotStoredError
from obil.service.storage.migrations import set_up
from obil.service.storage.tables import Run

_SQLITE_TYPES = {
    "blob": "BLOB", "real": "REAL", "integer": "INTEGER", "compact": " WITHOUT ROWID",
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",  # never given twice: of a deleted stream something may be left
}  # fmt: skip
CHECKPOINT_SECONDS, CHECKPOINT_BYTES = 0.5, 4_000_000
BUSY_MS = 10_000  # a second process on the same file waits this long for its turn


class Database(Protocol):
    """A database with the tables of the service."""

    lock_rows: str  # the suffix of a SELECT that locks its rows until the transaction ends

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return committed rows; from any thread."""

    def transaction(self) -> AbstractContextManager[Run]:
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


class SqliteDatabase:
    """One connection that writes and one that reads, each behind a lock; a third runs checkpoints.

    By default SQLite would copy the write-ahead log into the file within some commit, and every request in that commit
    would wait for it.
    """

    lock_rows = ""  # a transaction that writes locks the whole file

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)  # SQLite gives its other files the same mode
            self._writer, self._reader = self._connect(), self._connect()
        except (sqlite3.Error, OSError) as error:
            raise InvalidInputError(f"store {self.path} cannot be opened as an SQLite database: {error}") from None
        self._writing, self._reading = threading.RLock(), threading.Lock()
        try:
            with self.transaction() as run:
                set_up(run, _SQLITE_TYPES)
        except BaseException:
            self._reader.close()
            self._writer.close()
            raise
        self._closing = threading.Event()
        self._checkpointer = threading.Thread(target=self._checkpoint, name="obil-sqlite", daemon=True)
        self._checkpointer.start()

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return committed rows; from any thread."""
        with self._reading, as_not_stored(sqlite3.Error):
            return self._reader.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """Begin; commit and sync at the end, or roll back on an error."""

        def run(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            with as_not_stored(sqlite3.Error):  # here, so that other errors within a transaction are not taken for it
                return self._writer.execute(sql, values).fetchall()

        with self._writing, as_not_stored(sqlite3.Error):
            if self._writer.in_transaction:  # rolling back the last one failed too
                self._writer.execute("ROLLBACK")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield run
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # a full disk may have ended it already
                    self._writer.execute("ROLLBACK")
                raise

    def sweep(self) -> None:
        """Copy the write-ahead log into the file and empty it: otherwise it would keep erased data."""
        with suppress(sqlite3.Error), closing(self._connect()) as connection:  # with a full disk it is done later
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of it, while others read and write
            with self._writing, self._reading:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file; SQLite copies the write-ahead log into it."""
        self._closing.set()
        self._checkpointer.join()
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    def _checkpoint(self) -> None:
        """Copy the write-ahead log into the file whenever it has grown, while others read and write."""
        log = self.path.with_name(self.path.name + "-wal")
        with closing(self._connect()) as connection:
            while not self._closing.wait(CHECKPOINT_SECONDS):
                with suppress(OSError, sqlite3.Error):  # a full disk is reported by the next write
                    if log.stat().st_size > CHECKPOINT_BYTES:
                        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                        with self._writing:  # what was written meanwhile, so that the log starts over
                            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        for setting in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "secure_delete = ON",  # erased data is overwritten; not every build of SQLite does so by default
            f"busy_timeout = {BUSY_MS}",
            "wal_autocheckpoint = 0",
        ):
            connection.execute(f"PRAGMA {setting}")
        return connection
