"""Write many requests in one transaction: each waits for the disk, all of them wait for it once."""

import asyncio
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from obil.errors import ObilError
from obil.service.refusals import NotStoredError, RefusedError, UnknownStreamError
from obil.service.storage.store import Store
from obil.service.storage.writing import Writing
from obil.service.streams.joint_decisions import RowsToDecide, joined, parts_of
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.scoring import score
from obil.service.streams.stream_request import Act, Birth, BlamedError, Request, answer, refuse, runs_together

MOST_IN_ONE = 256  # requests of one transaction
GATHER_SECONDS = 0.003
IDLE_SECONDS = 1.0  # between two looks for streams to let go of

Open = Callable[[str, LiveStream | None, Writing, Birth | None, float], LiveStream]

log = logging.getLogger("obil.service")


class GroupCommit:
    """One thread that owns the streams in memory, and does what is asked in the order it comes.

    Parameters
    ----------
    store
        Where everything is written.
    open_stream
        Brings a stream up to what the store holds: name, what is in memory, transaction, how it may be made, when.
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
        self._usual = 1  # requests of the last transaction
        self._closed, self._entering = False, threading.Lock()
        self._thread = threading.Thread(target=self._run, name="obil-writer", daemon=True)
        self._thread.start()

    @property
    def n_streams(self) -> int:
        """How many streams are in memory."""
        return len(self._streams)

    def submit(self, stream: str, act: Act, *, creates: Birth | None = None) -> "Future[Any]":
        """Have something done to a stream; the future ends when it is safe on disk."""
        done: Future[Any] = Future()
        self._put(Request(stream, act, creates, waiter=done))
        return done

    async def do(self, stream: str, act: Act, *, creates: Birth | None = None, work: RowsToDecide | None = None) -> Any:
        """Have something done to a stream, and wait until it is safe on disk."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(Request(stream, act, creates, work, done))
        return await done

    def _put(self, request: Request) -> None:
        with self._entering:  # behind the end of the queue it would wait for ever
            if self._closed:
                request.error = NotStoredError("the service is stopping")
                request.answer()
            else:
                self._waiting.put(request)

    def close(self) -> None:
        """Do what was asked so far, write snapshots of all streams, and stop."""
        with self._entering:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch, stopping = self._next_batch()
            if batch:
                self._usual = len(batch)
                self._commit(batch)
            self._let_go(everything=stopping)

    def _next_batch(self) -> tuple[list[Request], bool]:
        """Wait for a request, take those that wait behind it, and say whether the end was among them."""
        batch: list[Request] = []
        try:
            request = self._waiting.get(timeout=IDLE_SECONDS)
            self._gather()
            while request is not None:
                batch.append(request)
                if len(batch) == MOST_IN_ONE:
                    return batch, False
                request = self._waiting.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _gather(self) -> None:
        """Give those who came together last time a moment to come together again: they share one wait for the disk."""
        until = time.monotonic() + GATHER_SECONDS
        while self._waiting.qsize() < self._usual - 1 and time.monotonic() < until:
            time.sleep(GATHER_SECONDS / 10)

    def _commit(self, batch: list[Request]) -> None:
        going = batch
        while going:
            opened: set[str] = set()
            try:
                self._keep(self._write(going, opened))
                break
            except BlamedError as failed:  # it may be half done: undo all, and do the others again
                log.error("requests failed", extra={"fields": {"reason": str(failed)}})
                refuse(failed.requests, failed.error)
                going = [one for one in going if one not in failed.requests]
                refuse(going, None)
            except BaseException as error:  # nothing of the batch was kept, or nobody knows
                if isinstance(error, NotStoredError):
                    log.warning("requests were not stored", extra={"fields": {"n": len(going), "reason": str(error)}})
                else:
                    log.exception("a transaction failed")
                refuse(going, error if isinstance(error, NotStoredError) else NotStoredError("the service failed"))
                going = []
            for name in opened:  # it may be ahead of the store: read it again
                self._forget(name)
        answer(batch)

    def _write(self, batch: list[Request], opened: set[str]) -> dict[str, LiveStream]:
        """Do what is asked in one transaction; return the streams of it, which are the store's once it has ended."""
        touched: dict[str, LiveStream] = {}
        with self._store.writing() as session:
            at = time.time()
            asked: dict[str, list[Request]] = {}
            for request in batch:
                asked.setdefault(request.stream, []).append(request)
            for name, own in sorted(asked.items()):  # in one order, so that none waits in a ring
                births = [one.creates for one in own if one.creates is not None]
                opened.add(name)
                try:
                    touched[name] = self._open(name, self._streams.get(name), session, next(iter(births), None), at)
                except UnknownStreamError as error:  # found before anything was done
                    refuse(own, error)
                except RefusedError as error:
                    raise BlamedError(own, error, str(error)) from error
                except ObilError as error:
                    reason = f"{name!r} cannot be read: {error}"
                    raise BlamedError(own, NotStoredError(reason), reason) from error
            for name, live in touched.items():
                for run in runs_together(asked[name]):
                    self._act_together(run, live, session, at)
                if live.made and all(one.error is not None for one in asked[name] if one.creates is not None):
                    live.erase(session)  # a request that is refused makes no stream, not even for who looks at it
                    unknown = UnknownStreamError(f"there is no stream {name!r}")
                    refuse((one for one in asked[name] if one.error is None), unknown)
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

    def _act_together(self, run: list[Request], live: LiveStream, session: Writing, at: float) -> None:
        works = [request.work for request in run if request.work is not None]
        if len(works) > 1 and not live.erased:
            rows = joined(works)
            try:
                decided = live.decide(rows, score(rows, live.online.model), works[0].sender, session, at)
            except NotStoredError:
                raise
            except RefusedError:
                pass  # one of them is to blame, and nothing was changed: each by itself
            except Exception as error:
                raise BlamedError(run, error, f"deciding failed: {type(error).__name__}") from error
            else:
                for request, part in zip(run, parts_of(decided, [work.rows.n_rows for work in works]), strict=True):
                    request.result = part
                return
        for request in run:
            self._act(request, live, session, at)

    def _act(self, request: Request, live: LiveStream, session: Writing, at: float) -> None:
        try:
            if live.erased:
                raise UnknownStreamError(f"the stream {request.stream!r} was erased just now")
            request.result = request.act(live, session, at)
        except NotStoredError:
            raise
        except RefusedError as error:  # it changed nothing: the others of the batch go on
            request.error = error
        except Exception as error:  # a bug: the others of the batch have no part in it
            raise BlamedError([request], error, f"a request failed: {type(error).__name__}") from error

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
                for name in sorted(leaving):  # in the order of all transactions, so that none waits in a ring
                    live = self._streams[name]
                    if live.row.seq > live.snapshot_seq and session.lock(name) == live.row:
                        live.save_snapshot(session)
        except Exception:  # whatever it is, the one thread that writes goes on
            log.warning("snapshots could not be written: these streams will be replayed from the log", exc_info=True)
        for name in leaving:
            self._forget(name)
