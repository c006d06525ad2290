"""Hold what is asked of a stream until it is safe on disk, and tell whoever waits for it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from obil.service.storage.writing import Writing
from obil.service.streams.joint_decisions import RowsToDecide, runs_of
from obil.service.streams.live_stream import LiveStream


class Birth(NamedTuple):
    """How a stream is made where there is none of its name."""

    settings: Mapping[str, Any]
    by: str


Act = Callable[[LiveStream, Writing, float], Any]


@dataclass(slots=True, eq=False)
class Request:
    """Something to be done to one stream; whoever waits has the result once that is safe on disk."""

    stream: str
    act: Act
    creates: Birth | None = None
    work: RowsToDecide | None = None  # what `act` decides, where others may be decided with it
    waiter: "asyncio.Future[Any] | Future[Any] | None" = None
    result: Any = None
    error: BaseException | None = None

    def answer(self) -> None:
        """Tell whoever waits, who may have gone."""
        if self.waiter is None or self.waiter.done():
            return
        if self.error is None:
            self.waiter.set_result(self.result)
        else:
            self.waiter.set_exception(self.error)


class BlamedError(Exception):
    """Some requests cannot be done and may have changed what is in memory; the others of the transaction can."""

    def __init__(self, requests: Sequence[Request], error: Exception, reason: str) -> None:
        super().__init__(reason)
        self.requests, self.error = requests, error


def runs_together(requests: list[Request]) -> list[list[Request]]:
    """Return the requests of one stream in their order, those together that are decided together."""
    runs: list[list[Request]] = []
    for together, group in groupby(requests, key=lambda request: request.work is not None):
        own = list(group)
        parts = runs_of([one.work for one in own if one.work is not None]) if together else map(_alone, range(len(own)))
        runs += [own[part.start : part.stop] for part in parts]
    return runs


def _alone(place: int) -> range:
    return range(place, place + 1)


def answer(batch: Sequence[Request]) -> None:
    """Tell all who wait, each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in batch:
        if isinstance(request.waiter, asyncio.Future):
            loops.setdefault(request.waiter.get_loop(), []).append(request)
        else:
            request.answer()
    for loop, requests in loops.items():
        with suppress(RuntimeError):  # a loop that is closed has nobody who waits
            loop.call_soon_threadsafe(_answer_all, requests)


def _answer_all(requests: Sequence[Request]) -> None:
    for request in requests:
        request.answer()


def refuse(requests: Iterable[Request], error: BaseException | None) -> None:
    """Have requests end with an error; None: they are to be done again."""
    for request in requests:
        request.error = error
