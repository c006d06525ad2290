"""Write many requests in one transaction: each waits for the disk, all of them wait for it once."""

import asyncio
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from obil.errors import ObilError
from obil.service.live_stream import LiveStream
from obil.service.refusals import NotStoredError, RefusedError, UnknownStreamError
from obil.service.store import Store, Writing

MOST_IN_ONE = 256  # requests of one transaction
IDLE_SECONDS = 1.0  # between two looks for streams to let go of


class Birth(NamedTuple):
    """How a stream is made where there is none of its name."""

    settings: Mapping[str, Any]
    by: str


Act = Callable[[LiveStream, Writing, float], Any]
Open = Callable[[str, LiveStream | None, Writing, Birth | None], LiveStream]

log = logging.getLogger("obil.service")


@dataclass(slots=True)
class Request:
    """Something to be done to one stream; its future has the result once that is safe on disk."""

    stream: str
    act: Act
    creates: Birth | None = None
    done: "Future[Any]" = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None


class GroupCommit:
    """One thread that owns the streams in memory, and does what is asked in the order it comes.

    Parameters
    ----------
    store
        Where everything is written.
    open_stream
        Brings a stream up to what the store holds: name, what is in memory, transaction, whether it may be made.
    most_streams, idle_seconds
        How many streams stay in memory, and how long an idle one does.
    """

    def __init__(
        self, store: Store, open_stream: Open, *, most_streams: int = 2_000, idle_seconds: float = 600.0
    ) -> None:
        self._store, self._open = store, open_stream
        self._most, self._idle = most_streams, idle_seconds
        self._streams: OrderedDict[str, LiveStream] = OrderedDict()  # the least recently used first
        self._used: dict[str, float] = {}
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="obil-writer", daemon=True)
        self._thread.start()

    @property
    def n_streams(self) -> int:
        """How many streams are in memory."""
        return len(self._streams)

    def submit(self, stream: str, act: Act, *, creates: Birth | None = None) -> "Future[Any]":
        """Have something done to a stream; the future ends when it is safe on disk."""
        request = Request(stream, act, creates)
        if self._closed:
            request.done.set_exception(NotStoredError("the service is stopping"))
        else:
            self._waiting.put(request)
        return request.done

    async def do(self, stream: str, act: Act, *, creates: Birth | None = None) -> Any:
        """Have something done to a stream, and wait until it is safe on disk."""
        return await asyncio.wrap_future(self.submit(stream, act, creates=creates))

    def close(self) -> None:
        """Do what was asked so far, write snapshots of all streams, and stop."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._next_batch()
            if batch:
                self._commit(batch)
            self._let_go(everything=stopping)

    def _next_batch(self) -> tuple[list[Request], bool]:
        """Wait for a request, take those that wait behind it, and say whether the end was among them."""
        batch: list[Request] = []
        try:
            request = self._waiting.get(timeout=IDLE_SECONDS)
            while request is not None:
                if request.done.set_running_or_notify_cancel():  # else nobody waits for it any more
                    batch.append(request)
                if len(batch) == MOST_IN_ONE:
                    return batch, False
                request = self._waiting.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _commit(self, batch: list[Request]) -> None:
        touched: dict[str, LiveStream] = {}
        try:
            with self._store.writing() as session:
                at = time.time()
                for name in sorted({request.stream for request in batch}):  # in one order, so that none waits in a ring
                    births = [one.creates for one in batch if one.stream == name and one.creates is not None]
                    try:
                        touched[name] = self._open(name, self._streams.get(name), session, next(iter(births), None))
                    except RefusedError as error:
                        _refuse((one for one in batch if one.stream == name), error)
                for request in batch:
                    if request.error is None:
                        self._act(request, touched[request.stream], session, at)
                for live in touched.values():
                    live.finish(session, at)
        except BaseException as error:  # nothing of the batch was kept
            for name in touched:
                self._streams.pop(name, None)  # it is ahead of the store: read it again
            if not isinstance(error, NotStoredError):
                log.exception("a transaction failed")
            _refuse(batch, error if isinstance(error, NotStoredError) else NotStoredError("the service failed"))
        else:
            now = time.monotonic()
            for name, live in touched.items():
                if live.erased:
                    self._streams.pop(name, None)
                    continue
                self._streams[name] = live
                self._streams.move_to_end(name)
                self._used[name] = now
        for request in batch:
            if request.error is None:
                request.done.set_result(request.result)
            else:
                request.done.set_exception(request.error)

    def _act(self, request: Request, live: LiveStream, session: Writing, at: float) -> None:
        try:
            if live.erased:
                raise UnknownStreamError(f"the stream {request.stream!r} was erased just now")
            request.result = request.act(live, session, at)
        except NotStoredError:
            raise
        except RefusedError as error:  # it changed nothing: the others of the batch go on
            request.error = error

    def _let_go(self, *, everything: bool = False) -> None:
        """Write snapshots of streams that leave memory: all, the idle ones, or those that are too many."""
        old = time.monotonic() - self._idle
        leaving = [
            name
            for place, name in enumerate(self._streams)
            if everything or place < len(self._streams) - self._most or self._used.get(name, 0.0) < old
        ]
        if not leaving:
            return
        try:
            with self._store.writing() as session:
                for name in leaving:
                    live = self._streams[name]
                    if live.row.seq > live.snapshot_seq and session.lock(name) == live.row:
                        live.save_snapshot(session)
        except ObilError:
            log.warning("snapshots could not be written: these streams will be replayed from the log")
        for name in leaving:
            del self._streams[name]
            self._used.pop(name, None)


def _refuse(requests: Any, error: BaseException) -> None:
    for request in requests:
        request.error = error
