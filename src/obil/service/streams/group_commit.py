"""Commit many requests in one transaction, so that they share one wait for the disk."""

import asyncio
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from obil.errors import ObilError
from obil.service.refusals import NotStoredError, RefusedError, UnknownStreamError
from obil.service.storage.store import Store
from obil.service.storage.writing import Writing
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.stream_request import (
    Action,
    NewStream,
    Parts,
    Request,
    RequestsFailedError,
    Result,
    RowsToDecide,
    decide_run,
    finish_all,
    runs_together,
    score_all,
    set_errors,
    set_part,
)

MAX_REQUESTS = 256  # of one transaction
GATHER_SECONDS = 0.003
IDLE_SECONDS = 1.0  # between two searches for idle streams

# name, what is in memory, transaction, how to create it, time
Open = Callable[[str, LiveStream | None, Writing, NewStream | None, float], LiveStream]

log = logging.getLogger("obil.service")


class GroupCommit:
    """One thread that owns the streams in memory and handles requests in the order they come.

    `open_stream` brings a stream up to date with the store; at most `max_streams` stay in memory, and an idle one for
    `idle_seconds`.
    """

    def __init__(
        self, store: Store, open_stream: Open, *, max_streams: int = 10_000, idle_seconds: float = 600.0
    ) -> None:
        self._store, self._open = store, open_stream
        self._max_streams, self._idle_seconds = max_streams, idle_seconds
        self._streams: OrderedDict[str, LiveStream] = OrderedDict()  # the least recently used first
        self._used: dict[str, float] = {}
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._last_size = 1  # requests of the last transaction
        self._closed, self._submitting = False, threading.Lock()
        self.observe_seconds: Callable[[float], None] = lambda _seconds: None  # is told how long a transaction took
        self.observe_parts: Callable[[Parts], None] | None = None  # is told of each request how long its parts took
        self._thread = threading.Thread(target=self._run, name="obil-writer", daemon=True)
        self._thread.start()

    @property
    def n_streams(self) -> int:
        """How many streams are in memory."""
        return len(self._streams)

    @property
    def n_waiting(self) -> int:
        """How many requests wait in the queue."""
        return self._queue.qsize()

    def submit(self, stream: str, action: Action[Result], *, creates: NewStream | None = None) -> "Future[Result]":
        """Queue an action on a stream; the future is done once it is on disk."""
        done: Future[Result] = Future()
        self._put(Request(stream, action, creates, waiter=done))
        return done

    async def do(
        self, stream: str, action: Action[Result], *, creates: NewStream | None = None, work: RowsToDecide | None = None
    ) -> Result:
        """Queue an action on a stream, and wait until it is on disk."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        request = Request(stream, action, creates, work, done)
        if self.observe_parts is None:
            self._put(request)
            return await done
        queued, request.parts = time.time_ns(), {}
        self._put(request)
        try:
            return await done
        finally:
            if "commit" in request.parts:
                request.parts["wait"] = queued, request.parts["commit"][0]
            self.observe_parts(request.parts)

    def _put(self, request: Request) -> None:
        with self._submitting:  # after the end of the queue it would wait forever
            if self._closed:
                request.error = NotStoredError("the service is stopping: try again")
                request.finish()
            else:
                self._queue.put(request)

    def close(self) -> None:
        """Finish the queue, write snapshots of all streams, and stop."""
        with self._submitting:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._next_batch()
            if batch:
                self._last_size = len(batch)
                started = time.perf_counter()
                self._commit(batch)
                self.observe_seconds(time.perf_counter() - started)
            self._evict(everything=stopping)

    def _next_batch(self) -> tuple[list[Request], bool]:
        """Wait for a request, take those queued behind it, and say whether the end of the queue was among them."""
        batch: list[Request] = []
        try:
            request = self._queue.get(timeout=IDLE_SECONDS)
            self._gather()
            while request is not None:
                batch.append(request)
                if len(batch) == MAX_REQUESTS:
                    return batch, False
                request = self._queue.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _gather(self) -> None:
        """Wait briefly for as many requests as came together last time, so that they share one commit."""
        until = time.monotonic() + GATHER_SECONDS
        while self._queue.qsize() < self._last_size - 1 and time.monotonic() < until:
            time.sleep(GATHER_SECONDS / 10)

    def _commit(self, batch: list[Request]) -> None:
        pending, begin = batch, time.time_ns()
        while pending:
            opened: set[str] = set()
            try:
                self._keep(self._write(pending, opened))
                break
            except RequestsFailedError as failed:  # they may be half done: undo all, and do the others again
                log.error("requests failed", extra={"fields": {"reason": str(failed)}})
                set_errors(failed.requests, failed.error)
                pending = [one for one in pending if one not in failed.requests]
                set_errors(pending, None)
            except BaseException as error:  # nothing of the batch was stored, or it is not known
                if isinstance(error, NotStoredError):
                    log.warning("requests were not stored", extra={"fields": {"n": len(pending), "reason": str(error)}})
                else:
                    log.exception("a transaction failed")
                    error = NotStoredError("the service failed: try again")
                set_errors(pending, error)
                pending = []
            for name in opened:  # in memory it may be ahead of the store: read it again
                self._forget(name)
        set_part(batch, "commit", begin)
        finish_all(batch)

    def _write(self, batch: list[Request], opened: set[str]) -> dict[str, LiveStream]:
        """Run the actions of a batch in one transaction; return the streams it touched."""
        touched: dict[str, LiveStream] = {}
        with self._store.writing() as session:
            at = time.time()
            by_stream: dict[str, list[Request]] = {}
            for request in batch:
                by_stream.setdefault(request.stream, []).append(request)
            # always in the same order, so that there are no deadlocks: with a new stream among them, one by one
            if by_stream.keys() <= self._streams.keys():
                session.lock_all(sorted(by_stream))
            for name, own in sorted(by_stream.items()):
                creates = next((one.creates for one in own if one.creates is not None), None)
                opened.add(name)
                try:
                    touched[name] = self._open(name, self._streams.get(name), session, creates, at)
                except UnknownStreamError as error:  # nothing was done yet
                    set_errors(own, error)
                except RefusedError as error:
                    raise RequestsFailedError(own, error, str(error)) from error
                except ObilError as error:
                    reason = f"{name!r} cannot be read: {error}"
                    raise RequestsFailedError(own, NotStoredError(reason), reason) from error
            unscored, begin = [one for one in batch if one.work is not None and one.work.scored is None], time.time_ns()
            score_all(batch, touched)
            set_part(unscored, "score", begin)
            for name, live in touched.items():
                for run in runs_together(by_stream[name]):
                    self._run_together(run, live, session, at)
                if live.created and all(one.error is not None for one in by_stream[name] if one.creates is not None):
                    live.erase(session)  # a refused request creates no stream
                    unknown = UnknownStreamError(f"there is no stream {name!r}")
                    set_errors((one for one in by_stream[name] if one.error is None), unknown)
                live.finish(session, at)
        return touched

    def _keep(self, touched: dict[str, LiveStream]) -> None:
        now = time.monotonic()
        for name, live in touched.items():
            if live.erased:
                self._forget(name)
                continue
            self._streams[name] = live
            self._streams.move_to_end(name)
            self._used[name] = now

    def _forget(self, name: str) -> None:
        self._streams.pop(name, None)
        self._used.pop(name, None)

    def _run_together(self, run: list[Request], live: LiveStream, session: Writing, at: float) -> None:
        works = [request.work for request in run if request.work is not None]
        if len(works) > 1 and not live.erased:
            try:
                parts = decide_run(works, live, session, at)
            except NotStoredError:
                raise
            except RefusedError:
                pass  # one of them is wrong, and nothing was changed: try each by itself
            except Exception as error:
                raise RequestsFailedError(run, error, f"deciding failed: {type(error).__name__}") from error
            else:
                for request, part in zip(run, parts, strict=True):
                    request.result = part
                return
        for request in run:
            self._run_one(request, live, session, at)

    def _run_one(self, request: Request, live: LiveStream, session: Writing, at: float) -> None:
        try:
            if live.erased:
                raise UnknownStreamError(f"the stream {request.stream!r} has just been deleted")
            request.result = request.action(live, session, at)
        except NotStoredError:
            raise
        except RefusedError as error:  # it changed nothing: the batch continues
            request.error = error
        except Exception as error:  # a bug: the others of the batch are not affected
            raise RequestsFailedError([request], error, f"a request failed: {type(error).__name__}") from error

    def _evict(self, *, everything: bool = False) -> None:
        """Write snapshots of streams that leave memory: all, the idle ones, or those that are too many."""
        leaving = list(self._streams if everything else self._too_old())
        if not leaving:
            return
        try:
            with self._store.writing() as session:
                for name in sorted(leaving):  # in the order of all transactions, so that there are no deadlocks
                    live = self._streams[name]
                    if live.row.seq > live.snapshot_seq and session.lock(name) == live.row:
                        live.save_snapshot(session)
        except Exception:  # the writer thread must survive any error
            log.warning("snapshots could not be written: these streams will be replayed from the log", exc_info=True)
        for name in leaving:
            self._forget(name)

    def _too_old(self) -> Iterator[str]:
        """Return the streams that are idle or too many; all others were used after them, and are not looked at."""
        idle_since, n_too_many = time.monotonic() - self._idle_seconds, len(self._streams) - self._max_streams
        for place, name in enumerate(self._streams):
            if place >= n_too_many and self._used[name] >= idle_since:
                return
            yield name
