"""Store everything in PostgreSQL, so that several processes can serve the same streams."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from obil.errors import InvalidInputError
from obil.service.refusals import NotStoredError
from obil.service.storage.database import as_not_stored
from obil.service.storage.migrations import set_up
from obil.service.storage.tables import Run

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("obil.service")

# statements that a writing connection runs first, in this order
_SETTINGS = (
    # off could lose what was acknowledged; a stricter setting stays
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
    "SET lock_timeout = '30s'",
    "SET idle_in_transaction_session_timeout = '60s'",  # a process that hangs must not block its streams
)
# after which a silent server counts as lost: seconds, the last in milliseconds
_TIMEOUTS = {
    "connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}  # fmt: skip
_TYPES = {
    "blob": "BYTEA", "real": "DOUBLE PRECISION", "integer": "BIGINT", "serial": "BIGSERIAL PRIMARY KEY", "compact": "",
}  # fmt: skip
_QUERIES = ("SELECT", "WITH", "SHOW")  # what has rows; other statements wait to be sent together
Statement = tuple[str, Sequence[Any]]  # and its values
IN_ERROR = 3  # libpq's PQTRANS_INERROR
SETUP_LOCK = 0x6F62696C  # two processes that start at once create the tables one after the other


class PostgresDatabase:
    """One connection that writes and one that reads, each behind a lock and reopened when it was lost."""

    lock_rows = ' ORDER BY name COLLATE "C" FOR UPDATE'  # in the order of Python's `sorted`, whatever the database's

    def __init__(self, url: str) -> None:
        import psycopg  # noqa: PLC0415  # an extra

        self._url, self._error = url, psycopg.Error
        self._writer: psycopg.Connection[Any] | None = None
        self._reader: psycopg.Connection[Any] | None = None
        self._writing, self._reading = threading.RLock(), threading.Lock()
        try:
            self._writer = self._connect(autocommit=False)
        except psycopg.Error as error:
            raise InvalidInputError(f"the PostgreSQL store cannot be opened: {_first_line(error)}") from None
        try:
            with self.transaction() as run:
                run("SELECT pg_advisory_xact_lock(?)", (SETUP_LOCK,))
                set_up(run, _TYPES)
        except BaseException:
            self.close()
            raise

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return committed rows; from any thread."""
        with self._reading, as_not_stored(self._error, _reason):
            if self._reader is None or self._reader.closed or self._reader.broken:
                self._reader = self._connect(autocommit=True)
            return _run(self._reader, [(sql, values)])

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """Begin; commit and wait for the server's disk at the end, or roll back on an error.

        What has no rows is sent with the next query, or before the commit. All of its errors are known by then.
        """
        unsent: list[Statement] = []

        def run(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            unsent.append((sql, values))
            if not sql.startswith(_QUERIES):
                return []
            statements = unsent.copy()
            unsent.clear()
            with as_not_stored(self._error, _reason):  # here, so that other errors are not taken for it
                return _run(connection, statements)

        with self._writing, as_not_stored(self._error, _reason):
            if self._writer is None or self._writer.closed or self._writer.broken:
                self._writer = self._connect(autocommit=False)
            connection = self._writer
            try:
                yield run
                _run(connection, unsent)
                self._commit(connection)
            except BaseException:
                if not (connection.closed or connection.broken):
                    connection.rollback()
                raise

    def sweep(self) -> None:
        """Do nothing: vacuum and log of the server are its operator's."""

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()

    def _commit(self, connection: "psycopg.Connection[Any]") -> None:
        """Commit a transaction, and say so if it is unknown whether it was stored."""
        if connection.info.transaction_status == IN_ERROR:  # the server would roll back, without an error of the driver
            raise NotStoredError("a statement of this transaction failed, nothing of this request was stored")
        try:
            connection.commit()
        except self._error as cause:
            if not (connection.closed or connection.broken):
                raise
            raise NotStoredError(
                "the connection to the store was lost while this request was committed, it may or may not be stored: "
                "send it again with the same idempotency key, and it counts once"
            ) from cause

    def _connect(self, *, autocommit: bool) -> "psycopg.Connection[Any]":
        import psycopg  # noqa: PLC0415  # an extra

        given = psycopg.conninfo.conninfo_to_dict(self._url)
        timeouts: dict[str, Any] = {name: value for name, value in _TIMEOUTS.items() if name not in given}
        try:
            connection = psycopg.connect(self._url, autocommit=autocommit, **timeouts)
        except psycopg.Error as error:
            log.warning("PostgreSQL cannot be reached", extra={"fields": {"reason": _first_line(error)}})
            raise
        if not autocommit:
            # each statement sees what was committed before it, whatever the server's default: locks come first
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            for setting in _SETTINGS:
                connection.execute(setting)
            connection.commit()
        return connection


def _run(connection: "psycopg.Connection[Any]", statements: Sequence[Statement]) -> list[tuple[Any, ...]]:
    """Run statements, waiting for the server once, and return the rows of the last one.

    Nothing is left unanswered in between: the server ends a transaction that is idle, but not a pipeline that is open.
    """
    import psycopg  # noqa: PLC0415  # an extra

    found: psycopg.Cursor[Any] | None = None
    with connection.pipeline() if len(statements) > 1 and psycopg.Pipeline.is_supported() else nullcontext():
        for sql, values in statements:  # constant text, never a user's
            found = connection.execute(sql.replace("%", "%%").replace("?", "%s"), values)
    return found.fetchall() if found is not None and found.description is not None else []


def _reason(error: Exception) -> str:
    """Return a reason without address, user or values, which the driver's own text has."""
    message = getattr(getattr(error, "diag", None), "message_primary", None)
    return message or "the server cannot be reached"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
