"""Append to a file with one writer, and cut it back to where a checkpoint says it ended."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from obil.errors import InvalidInputError
from obil.online.state.checkpoint import sync_folder

BLOCK_BYTES = 1 << 20  # read at a time


class AppendedFile:
    """A file that ends where the last checkpoint says.

    Parameters
    ----------
    path
        Where it is; it is made when it is opened.
    permissions
        Of a new file. An older one loses those that are not among them.
    writer
        The command that writes it.
    """

    def __init__(self, path: Path, *, permissions: int = 0o666, writer: str = "obil stream") -> None:
        self.path, self._writer = path, writer
        self.n_bytes = 0
        self._permissions = permissions
        self._file: IO[bytes] | None = None

    def open(self) -> None:
        """Become the only writer of the file, changing nothing in it."""
        self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, self._permissions), "r+b")
        self._lock(self._file)
        found = os.fstat(self._file.fileno()).st_mode & 0o777
        if found & ~self._permissions:
            self.path.chmod(found & self._permissions)
        sync_folder(self.path.parent)

    def cut_back(self) -> int:
        """Drop what was written after the checkpoint; return how many lines it was."""
        file = self._opened()
        file.seek(self.n_bytes)
        n_lines = sum(block.count(b"\n") for block in iter(partial(file.read, BLOCK_BYTES), b""))
        file.truncate(self.n_bytes)
        file.seek(self.n_bytes)
        return n_lines

    def append(self, text: bytes) -> None:
        """Write at the end, and let readers see it."""
        file = self._opened()
        try:
            file.write(text)
            file.flush()
        except OSError as error:  # a full disk does not say which
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self.n_bytes += len(text)

    def sync(self) -> None:
        """Make what was written outlast a crash: only then may a checkpoint count it."""
        if self._file is None:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:  # the disk may tell only now that it is full
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def close(self) -> None:
        """Let the file go."""
        if self._file is None:
            return
        with suppress(OSError):  # what could not be written is not in the checkpoint
            self._file.close()

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            raise RuntimeError("a file is opened before it is written to")
        return self._file

    def _lock(self, file: IO[bytes]) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has no advisory locks
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInputError(f"another {self._writer} is writing {self.path}: it has one writer") from None
