"""Read bytes as they arrive, notice a pause, and stop only between rows."""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

PAUSE_SECONDS = 1.0


def is_parquet(path: Path) -> bool:
    """Return whether a file is parquet by its name: it has no lines."""
    return path.suffix.lower() in (".parquet", ".pq")


class Stopped(Exception):  # noqa: N818  # a request, not an error
    """The stream was asked to stop, and every row that was read has been decided."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class ArrivingBytes:
    """A file or standard input whose `read1` returns what is there.

    Ctrl-C and SIGTERM raise `Stopped` from `read1` and nowhere else, before anything is taken from the pipe:
    what was read is decided first. A second signal ends the process at once, as kill -9 would.

    Parameters
    ----------
    table
        A path, or - for standard input.
    on_pause
        Called when nothing arrived for a second.
    """

    def __init__(self, table: Path, *, on_pause: Callable[[], None]) -> None:
        self.name = "<stdin>" if str(table) == "-" else str(table)
        self._on_pause = on_pause
        self._signal = 0
        self._waiting = False
        self._before: dict[int, Any] = {}
        self._file: Any = sys.stdin.buffer if str(table) == "-" else table.open("rb", buffering=0)
        self._n_bytes = 0
        self._size = table.stat().st_size or None if self.name != "<stdin>" and table.is_file() else None
        try:
            self._handle: int | None = self._file.fileno()
        except OSError:  # standard input replaced by an object in memory
            self._handle = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.name != "<stdin>":
            self._file.close()

    def read1(self, size: int) -> bytes:
        """Return up to `size` bytes as soon as there are some; b"" is the end."""
        if self._handle is None:
            return bytes(self._file.read(size))
        if not self._arrived(self._handle, PAUSE_SECONDS):
            self._on_pause()  # a signal in here is noticed below
            self._arrived(self._handle, None)
        block = os.read(self._handle, size)
        self._n_bytes += len(block)
        return block

    @property
    def part_read(self) -> float | None:
        """Which part of the file was read; None of standard input, which may be endless."""
        return None if self._size is None else min(self._n_bytes / self._size, 1.0)

    def _arrived(self, handle: int, seconds: float | None) -> bool:
        self._waiting = True  # set before looking at the signal: one that comes later raises by itself
        try:
            if self._signal:
                raise Stopped(self._signal)
            return bool(select.select([handle], [], [], seconds)[0])
        except (OSError, ValueError):  # a system that can wait for sockets only
            return True
        finally:
            self._waiting = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        for one in self._before:
            signal.signal(one, signal.SIG_DFL)
        if self._waiting:
            raise Stopped(number)
