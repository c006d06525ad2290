"""Let one writer in at a time, and readers in between."""

import threading

from obil.errors import ConcurrentUseError


class WriterLock:
    """Refuses a second writer instead of letting it wait; writers and readers wait for each other.

    Entering it costs a fraction of what a generator would.
    """

    __slots__ = ("_reading", "_writing")

    def __init__(self) -> None:
        self._writing = threading.Lock()  # held by the writer
        self._reading = threading.Lock()  # held by whoever uses the state: the writer, or one reader

    def __enter__(self) -> None:
        if not self._writing.acquire(blocking=False):
            raise ConcurrentUseError("a stream has one writer: another thread is deciding on it right now")
        self._reading.acquire()

    def __exit__(self, *_: object) -> None:
        self._reading.release()
        self._writing.release()

    def waiting(self) -> threading.Lock:
        """Return what to hold while reading: it waits until whoever uses the state has finished."""
        return self._reading
