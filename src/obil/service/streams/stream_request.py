"""Hold a request to a stream until it is on disk; score its rows, and decide requests together that wait together."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np

from obil.errors import ObilError
from obil.service.refusals import BadInputError, ModelChangedError
from obil.service.storage.writing import Writing
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.operations import Decided, Rows, Sender
from obil.serving.ratio_model import RatioModel, Scores

MAX_JOINT_ROWS = 1_024  # of requests decided together

Result = TypeVar("Result")
Action = Callable[[LiveStream, Writing, float], Result]


class NewStream(NamedTuple):
    """How to create a stream that does not exist yet."""

    settings: Mapping[str, Any]
    by: str


@dataclass(frozen=True, slots=True, eq=False)
class RowsToDecide:
    """The rows of one request, their sender, and their scores if they are known."""

    rows: Rows
    sender: Sender
    scored: Scores | None = None
    version: str | None = None  # of the model that scored

    def fits(self, other: "RowsToDecide") -> bool:
        """Return whether both may be one event of the log: in the log they would look the same."""
        one, two = self.rows, other.rows
        return (
            self.sender == other.sender
            and self.sender.idempotency_key is None
            and self.scored is None
            and other.scored is None
            and type(one.table) is np.ndarray
            and type(two.table) is np.ndarray
            and one.table.shape[1:] == two.table.shape[1:]
            and one.table.dtype == two.table.dtype
            and one.read_for is two.read_for
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


def score(rows: Rows, model: RatioModel) -> Scores:
    """Return the log ratios and the evidence of rows by the model they were read for."""
    if rows.read_for is not None and not _read_alike(rows.read_for, model):
        raise ModelChangedError("the model was replaced during this request: send it again")
    try:
        scores = model.score(rows.table)
    except (ObilError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # obil's own, or those of the wrapped model, which may be any
        raise BadInputError(f"these rows cannot be scored: {error!s:.300}") from None
    scores.log_ratios[:, 0] = scores.evidence[..., 0] = 0.0  # it may be -0.0, which the log does not store
    return scores


def _read_alike(one: RatioModel, two: RatioModel) -> bool:
    """Return whether a table means the same to both: category codes and column order may have changed."""
    return one is two or (one.columns, one.feature_names) == (two.columns, two.feature_names)


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


def joined(works: Sequence[RowsToDecide]) -> Rows:
    """Return the rows of requests that fit each other as those of one."""
    all_rows = [work.rows for work in works]
    return Rows(
        np.concatenate([rows.table for rows in all_rows]),
        sum(rows.n_rows for rows in all_rows),
        None if all_rows[0].ids is None else [name for rows in all_rows for name in rows.ids or ()],
        None if all_rows[0].inputs is None else [one for rows in all_rows for one in rows.inputs or ()],
        all_rows[0].read_for,
    )


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
