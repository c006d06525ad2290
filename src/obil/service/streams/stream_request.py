"""Hold a request to a stream until it is on disk, and find those that are decided together."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np

from obil.service.storage.writing import Writing
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Decided, Rows, Sender
from obil.service.streams.scoring import score, score_together
from obil.serving.ratio_model import Scores

MAX_JOINT_ROWS = 1_024  # of requests decided together

Result = TypeVar("Result")
Parts = dict[str, tuple[int, int]]  # of a request: name, begin and end in nanoseconds since 1970
Action = Callable[[LiveStream, Writing, float], Result]


class NewStream(NamedTuple):
    """How to create a stream that does not exist yet."""

    settings: Mapping[str, Any]
    by: str


@dataclass(slots=True, eq=False)
class RowsToDecide:
    """The rows of one request, their sender, and their scores once they are known."""

    rows: Rows
    sender: Sender
    scored: Scores | None = None
    version: str | None = None  # of the model that scored

    def scores_for(self, live: LiveStream) -> Scores:
        """Return the scores of the rows by the model of a stream."""
        if self.scored is None or self.version != live.version:
            self.scored, self.version = score(self.rows, live.online.model), live.version
        return self.scored

    def decide(self, live: LiveStream, session: Writing, at: float) -> Decided:
        """Decide the rows on a stream."""
        return live.decide(self.scores_for(live), self.sender, session, at, ids=self.rows.ids, inputs=self.rows.inputs)

    def fits(self, other: "RowsToDecide") -> bool:
        """Return whether both may be one event of the log: in the log they would look the same."""
        one, two = self.rows, other.rows
        return (
            self.sender == other.sender
            and self.sender.idempotency_key is None
            and (one.ids is None) == (two.ids is None)
            and (one.inputs is None) == (two.inputs is None)
        )


@dataclass(slots=True, eq=False)
class Request:
    """An action on one stream; whoever waits gets the result once it is on disk."""

    stream: str
    action: Action[Any]
    creates: NewStream | None = None
    work: RowsToDecide | None = None  # what `action` decides, if other requests may be decided with it
    waiter: "asyncio.Future[Any] | Future[Any] | None" = None
    result: Any = None
    error: BaseException | None = None
    parts: Parts | None = None  # if they are recorded

    def finish(self) -> None:
        """Give the result to whoever waits, who may have gone."""
        if self.waiter is None or self.waiter.done():
            return
        if self.error is None:
            self.waiter.set_result(self.result)
        else:
            self.waiter.set_exception(self.error)


class RequestsFailedError(Exception):
    """Some requests failed and may have changed what is in memory; the others of the transaction can be done."""

    def __init__(self, requests: Sequence[Request], error: Exception, reason: str) -> None:
        super().__init__(reason)
        self.requests, self.error = requests, error


def set_part(requests: Iterable[Request], name: str, begin: int) -> None:
    """Note that a part of these requests, which they shared, has ended."""
    end = time.time_ns()
    for request in requests:
        if request.parts is not None:
            request.parts[name] = begin, end


def runs_together(requests: Iterable[Request]) -> list[list[Request]]:
    """Return the requests of one stream in order, in groups that are decided together.

    >>> one = RowsToDecide(Rows(np.zeros((1, 3)), 1), Sender())
    >>> keyed = RowsToDecide(Rows(np.zeros((1, 3)), 1), Sender(idempotency_key="a"))
    >>> runs = runs_together(Request("shop", print, work=work) for work in (one, one, keyed, one, None, None))
    >>> [len(run) for run in runs]
    [2, 1, 1, 1, 1]
    """
    runs: list[list[Request]] = []
    n_rows = 0
    for request in requests:
        first, work = runs[-1][0].work if runs else None, request.work
        n_rows += 0 if work is None else work.rows.n_rows
        if first is not None and work is not None and n_rows <= MAX_JOINT_ROWS and first.fits(work):
            runs[-1].append(request)
        else:
            runs.append([request])
            n_rows = 0 if work is None else work.rows.n_rows
    return runs


def score_all(requests: Iterable[Request], streams: Mapping[str, LiveStream]) -> None:
    """Score the rows that wait, in one call for each model; what cannot be scored so is left for its own turn."""
    by_version: dict[str, list[RowsToDecide]] = {}
    models = {}
    for request in requests:
        work, live = request.work, streams.get(request.stream)
        if work is not None and live is not None and (work.scored is None or work.version != live.version):
            by_version.setdefault(live.version, []).append(work)
            models[live.version] = live.online.model
    for version, works in by_version.items():
        for work, scored in zip(works, score_together([work.rows for work in works], models[version]), strict=True):
            if scored is not None:
                work.scored, work.version = scored, version


def decide_run(works: Sequence[RowsToDecide], live: LiveStream, session: Writing, at: float) -> list[Decided]:
    """Decide the rows of requests that fit each other as those of one, and split what was decided."""
    scores = Scores(*map(np.concatenate, zip(*(work.scores_for(live) for work in works), strict=True)))
    all_rows = [work.rows for work in works]
    ids = None if all_rows[0].ids is None else [name for rows in all_rows for name in rows.ids or ()]
    inputs = None if all_rows[0].inputs is None else [one for rows in all_rows for one in rows.inputs or ()]
    decided = live.decide(scores, works[0].sender, session, at, ids=ids, inputs=inputs)
    return parts_of(decided, [rows.n_rows for rows in all_rows])


def parts_of(decided: Decided, sizes: Sequence[int]) -> list[Decided]:
    """Return what was decided together, split by request."""
    parts = ((end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True))
    return [
        replace(decided, first_row=decided.first_row + first, decisions=decided.decisions[first:end])
        for first, end in parts
    ]


def finish_all(batch: Iterable[Request]) -> None:
    """Give all results to those who wait, waking each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in batch:
        if isinstance(request.waiter, asyncio.Future):
            loops.setdefault(request.waiter.get_loop(), []).append(request)
        else:
            request.finish()
    for loop, requests in loops.items():
        with suppress(RuntimeError):  # nobody waits on a closed loop
            loop.call_soon_threadsafe(_finish_in_loop, requests)


def _finish_in_loop(requests: Iterable[Request]) -> None:
    for request in requests:
        request.finish()


def set_errors(requests: Iterable[Request], error: BaseException | None) -> None:
    """Set the error of requests; None: they are to be tried again."""
    for request in requests:
        request.error = error
