"""Keep where many keyed streams stand in one SQLite file: each checkpoint is one transaction."""

import errno
import sqlite3
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from obil.errors import InvalidInputError, InvalidStateError
from obil.online.state.checkpoint import LARGEST_FILE, Checkpoint, pack_checkpoint, unpack_checkpoint

APPLICATION, VERSION = 0x6F62696C, 1  # "obil"; of the tables
TABLES = (
    "CREATE TABLE streams (key TEXT PRIMARY KEY, state BLOB NOT NULL)",
    "CREATE TABLE checkpoint (id INTEGER PRIMARY KEY CHECK (id = 0), by TEXT NOT NULL, packed BLOB NOT NULL)",
)


class KeyedCheckpoint(MutableMapping[str, bytes]):
    """The states of streams by key, and the checkpoint of the run that they belong to.

    It is the store of an `OnlineFleet`. What was set since the last `commit` is gone after a crash, all of it together,
    so that states and checkpoint always belong to each other. Nothing is written, and no file made, before `open`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with KeyedCheckpoint(Path(folder.name) / "today.state") as states:
    ...     states.open()
    ...     states["north"] = b"its state"
    ...     sorted(states), states.read()
    (['north'], None)
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> tuple[Checkpoint, str] | None:
        """Return the last checkpoint and the column of the keys; None before the first."""
        if self._opened is None and not self.path.exists():
            return None
        with self._errors_named(), self._reading() as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                return None
            made_by = tuple(
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            if made_by != (APPLICATION, VERSION):
                raise InvalidStateError(f"{self.path} is not the state of keyed streams, or of another version")
            found = connection.execute("SELECT by, packed FROM checkpoint WHERE length(packed) < ?", (LARGEST_FILE,))
            row = found.fetchone()
        if row is None and self._opened is not None:
            return None  # the tables are new
        if row is None or not isinstance(row[0], str) or not isinstance(row[1], bytes):
            raise InvalidStateError(f"{self.path} is damaged: it has no checkpoint")
        return unpack_checkpoint(row[1], name=str(self.path)), row[0]

    def open(self) -> None:
        """Become the only writer of the file, which is made if there is none."""
        with self._errors_named():
            connection = self._opened = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
            connection.execute("PRAGMA synchronous = EXTRA")  # a commit outlasts a power cut
            self._begin()
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                for statement in (
                    f"PRAGMA application_id = {APPLICATION}",
                    f"PRAGMA user_version = {VERSION}",
                    *TABLES,
                ):
                    connection.execute(statement)

    def commit(self, checkpoint: Checkpoint, by: str) -> None:
        """Make everything that was set outlast a crash, together with this checkpoint and the column of the keys."""
        with self._errors_named():
            values = (by, pack_checkpoint(checkpoint))
            self._connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (0, ?, ?)", values)
            self._connection.execute("COMMIT")
            self._begin()

    def close(self) -> None:
        """Let the file go, without what was set since the last commit."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __getitem__(self, key: str) -> bytes:
        with self._errors_named():
            row = self._connection.execute("SELECT state FROM streams WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        if not isinstance(row[0], bytes):
            raise InvalidStateError(f"{self.path} is damaged: the state of {key!r:.60} is no blob")
        return row[0]

    def __setitem__(self, key: str, state: bytes) -> None:
        with self._errors_named():
            self._connection.execute("INSERT OR REPLACE INTO streams VALUES (?, ?)", (key, state))

    def __delitem__(self, key: str) -> None:
        with self._errors_named():
            if not self._connection.execute("DELETE FROM streams WHERE key = ?", (key,)).rowcount:
                raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        with self._errors_named():
            found = self._connection.execute("SELECT 1 FROM streams WHERE key = ?", (key,))
            return found.fetchone() is not None

    def __iter__(self) -> Iterator[str]:
        with self._errors_named():
            return iter([key for (key,) in self._connection.execute("SELECT key FROM streams ORDER BY key")])

    def __len__(self) -> int:
        with self._errors_named():
            return int(self._connection.execute("SELECT count(*) FROM streams").fetchone()[0])

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            raise InvalidInputError(f"{self.path} is not open: call open() first")
        return self._opened

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._opened is not None:
            yield self._opened
            return
        # "rw": what a killed writer left half written is undone first
        connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def _begin(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise InvalidInputError(f"another process is writing {self.path}: a stream has one writer") from None

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Say which file an error of SQLite is about, and whether it is the file's."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(errno.EIO, str(error), str(self.path)) from None
        except sqlite3.DatabaseError as error:
            raise InvalidStateError(f"{self.path} is not the state of keyed streams, or is damaged: {error}") from None
