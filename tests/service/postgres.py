"""Start a real PostgreSQL server for tests, with its data in a folder of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from obil.service.storage.store import Store, open_store

PATIENCE = 60.0  # seconds
SECRET_FILE = Path(tempfile.gettempdir()) / f"obil-tests-{os.getpid()}.secret"  # of all databases, in all processes
PORT = 5432  # names the socket; nothing listens on the network


def missing_postgres() -> str | None:
    """Return why no server can be started here, None if one can."""
    if _programs() is None:
        return "PostgreSQL is not installed: no initdb and postgres found"
    try:
        import psycopg as _psycopg  # noqa: F401  # only to see that it is there
    except ImportError:
        return "psycopg is not installed (the extra 'service' brings it)"
    return None


def open_test_store(url: str) -> Store:
    """Open a store; the secret of a database is in a file of these tests."""
    return open_store(url, secret_file=SECRET_FILE if url.startswith("postgresql") else None)


def skip_without_postgres() -> None:
    """Skip a test that needs PostgreSQL, with the reason."""
    reason = missing_postgres()
    if reason is not None:
        pytest.skip(reason)


class PostgresServer:
    """A server that only this machine reaches, by a socket; it can be stopped, killed and started again."""

    def __init__(self) -> None:
        programs = _programs()
        assert programs is not None
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="obil-postgres-"))  # a short path: a socket's is at most 107 long
        self._names = count()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self._folder, "postgres", "postgres")
        try:
            self._run("initdb", "-D", self._data, "-A", "trust", "-U", "obil", "-E", "UTF8", "--locale=C", "--no-sync")
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql:///{database}?host={self._folder}&port={PORT}&user=obil"

    def new_database(self) -> str:
        """Make an empty database; return its address."""
        name = f"test{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, sql: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement apart from any service."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(sql.encode())
            return found.fetchall() if found.description else []

    def start(self) -> None:
        """Start the server on its data, as often as it takes until those of a killed one are gone."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self._process is None or self._process.poll() is not None:
                self._process = self._launch()
            if self._answers():
                return
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL does not start: {self._log.read_text()[-2_000:]}")

    def stop(self) -> None:
        """Stop the server as an operator would; its connections are cut."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE)
            self._process = None

    def kill(self) -> None:
        """End the server and all its processes in mid-work, by kill -9."""
        if self._process is not None:
            pid = self._process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for one in (pid, *map(int, children)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            self._process.wait(PATIENCE)
            self._process = None

    def remove(self) -> None:
        """End the server and erase its data."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # what it would still write is to be erased anyway
            self._process.wait(PATIENCE)
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _launch(self) -> "subprocess.Popen[bytes]":
        where = ["-D", self._data, "-k", str(self._folder), "-p", str(PORT), "-c", "listen_addresses="]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self._programs / "postgres", *where], stdout=log, stderr=log, stdin=subprocess.DEVNULL, **_as_owner()
            )

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, text=True, check=False, cwd="/", **_as_owner()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2_000:]}")


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server; stop and remove it at the end."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


def _as_owner() -> dict[str, Any]:
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def _programs() -> Path | None:
    """Return the folder of the newest server that is installed."""
    found = shutil.which("postgres")
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    folders.sort(key=lambda path: int(path.parent.name) if path.parent.name.isdigit() else 0)
    if found is not None:
        folders.append(Path(found).resolve().parent)
    usable = [path for path in folders if (path / "initdb").exists()]
    if not usable or (os.geteuid() == 0 and not _has_user("postgres")):
        return None
    return usable[-1]


def _has_user(name: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
