"""Make each event once for all who subscribe: the newest report of a stream, its new points, and pages of streams."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from obil.service.http.responses import json_bytes
from obil.service.records import StreamPage
from obil.service.streams.stream_hub import StreamHub

REPORT_SECONDS = 3.0  # at least, between two reports of a stream
PAGE_SECONDS = 1.0
RECENT_SECONDS, RECENT_POINTS = 120.0, 20  # of the history, with each report
MOST_KEPT = 256  # streams and pages, those least recently asked for leave first

Result = TypeVar("Result")


class StreamNews(NamedTuple):
    """The events of a stream after event `seq` of its log."""

    seq: int
    content: bytes


class EventCache:
    """What subscribers see. Each of them asks every second, and the store is read once for all of them."""

    def __init__(self, streams: StreamHub) -> None:
        self._streams = streams
        self._news: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def stream(self, name: str) -> StreamNews:
        """Return the newest events of a stream, a few seconds old at most while the budget of reports lasts."""

        async def renew(before: StreamNews | None) -> StreamNews:
            if before is not None and not await self._streams.changed_since({name: before.seq}):
                return before
            detail = await self._streams.detail(name)
            recent = await self._streams.history(name, start=time.time() - RECENT_SECONDS, points=RECENT_POINTS)
            return StreamNews(detail.seq, event("points", recent) + event("stream", detail))

        return await self._cached(("stream", name), REPORT_SECONDS, renew)

    async def page(self, **which: Any) -> StreamPage:
        """Return a page of streams."""

        async def renew(_before: StreamPage | None) -> StreamPage:
            return await self._streams.page(**which)

        return await self._cached(("page", *which.values()), PAGE_SECONDS, renew)

    async def _cached(
        self, name: Hashable, seconds: float, renew: Callable[[Result | None], Awaitable[Result]]
    ) -> Result:
        """Return what is cached under a name, renewed if it is older than some seconds."""
        loop, now = asyncio.get_running_loop(), time.monotonic()
        made_at, task = self._news.get(name, (0.0, None))
        made = task is not None and task.done() and not task.cancelled() and task.exception() is None
        is_made_or_begun = made or (task is not None and not task.done())
        if task is None or task.get_loop() is not loop or not is_made_or_begun or (made and now - made_at >= seconds):
            task = loop.create_task(_renewed(renew, task.result() if task is not None and made else None))
            task.add_done_callback(_note_error)
            self._news[name] = now, task
            if len(self._news) > MOST_KEPT:
                self._news.popitem(last=False)
        self._news.move_to_end(name)
        result: Result = await asyncio.shield(task)
        return result


async def _renewed(renew: Callable[[Result | None], Awaitable[Result]], before: Result | None) -> Result:
    return await renew(before)


def event(name: str, data: Any) -> bytes:
    r"""Return a server-sent event.

    >>> event("streams", {"n": 1})
    b'event: streams\ndata: {"n":1}\n\n'
    """
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"


def _note_error(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # seen, also where whoever asked has gone
