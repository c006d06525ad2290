"""Open a store by its address: a file, or a PostgreSQL server."""

from pathlib import Path

from obil.errors import InvalidInputError
from obil.service.storage.database import Database
from obil.service.storage.store import Store


def open_store(url: str) -> Store:
    """Return the store at a path, at sqlite:///path or at postgresql://...; made where there is none."""
    return Store(open_database(url))


def open_database(url: str) -> Database:
    """Return the database at an address, with its tables."""
    file = file_of(url)
    if file is None:
        from obil.service.storage.postgres_database import PostgresDatabase  # noqa: PLC0415  # needs psycopg

        return PostgresDatabase(url)
    from obil.service.storage.sqlite_database import SqliteDatabase  # noqa: PLC0415  # only where it is used, as above

    return SqliteDatabase(file)


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite store, None where a server keeps it.

    >>> file_of("sqlite:///streams.db"), file_of("postgresql://host/obil")
    (PosixPath('streams.db'), None)
    """
    scheme, colon, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        return None
    if colon and scheme != "sqlite":
        raise InvalidInputError(f"a store is a path, sqlite:///path or postgresql://..., got {scheme!r:.20}://")
    path = rest.removeprefix("/") if colon else url
    if not path:
        raise InvalidInputError("a store needs a path: sqlite:///streams.db")
    return Path(path)
