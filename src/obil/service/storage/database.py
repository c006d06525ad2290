"""Say what the store needs of a database: reads, and transactions that are safe on disk when they end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from obil.service.refusals import NotStoredError


class Session(Protocol):
    """A transaction that is under way."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement with ? for each value; return its rows, if it has any."""


class Database(Protocol):
    """A database with the tables of the service."""

    lock_rows: str  # what follows a SELECT whose rows no other process may change until the transaction ends

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what is committed; from any thread."""

    def transaction(self) -> AbstractContextManager[Session]:
        """Begin; commit and wait for the disk at the end, or undo everything on an error. One at a time."""

    def sweep(self) -> None:
        """Leave nothing of what was erased where the database itself would not look for it any more."""

    def close(self) -> None:
        """Let go of the database."""


@contextmanager
def as_not_stored(error: type[Exception], reason_of: Callable[[Exception], str] = str) -> Iterator[None]:
    """Turn what a driver raises into one refusal: nothing was kept, try again."""
    try:
        yield
    except error as cause:
        reason = " ".join(reason_of(cause).split())
        raise NotStoredError(
            f"the store cannot be written now, nothing of this request was kept: {reason:.200}"
        ) from cause
