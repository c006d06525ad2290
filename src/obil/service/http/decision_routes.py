"""Decide rows, take their late labels, and erase decisions; hold what all routes need."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import create_model

from obil.online.decision_ids import Id, as_id
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.openapi import ID_COLUMN_PARAMETER, KEY_PARAMETER, Stream, described, request_body
from obil.service.http.request_bodies import (
    content_type,
    json_body,
    labels_of_json,
    rows_of_csv,
    rows_of_json,
    sender_of,
)
from obil.service.http.responses import DecisionWriter, json_response
from obil.service.http.row_reader import RowReader
from obil.service.records import Decisions, LabelResult
from obil.service.refusals import (
    BadInputError,
    ModelChangedError,
    UnknownDecisionError,
    UnsupportedTypeError,
    as_bad_input,
)
from obil.service.service_settings import ServiceSettings
from obil.service.streams.operations import Rows
from obil.service.streams.stream_hub import StreamHub

Result = TypeVar("Result")
DecisionId = Annotated[str, Path(description="The id of the decision.")]
IdType = Annotated[Literal["text", "number"], Query(description="Of the id.")]
_LARGE_BODY = 200_000  # bytes; from here on a body is read in a thread, not in the event loop
_MANY_ROWS = 2_000
_TRIES = 3  # to decide rows while models are replaced
_DECIDED = described(Decisions, 400, 409, 410, 415, description="The decisions, already on disk.")
_DECIDED[200]["content"] = {"text/csv": {"schema": {"type": "string"}}}


class AppState:
    """The state of one HTTP application."""

    def __init__(self, streams: StreamHub, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self.streams, self.settings, self.metrics = streams, settings, metrics
        self.n_subscribers = 0  # open event streams
        self.stopping = False  # ends the event streams: the server would wait for them in vain
        self.writer = DecisionWriter(streams.model.classes_.tolist())  # a reload never changes the classes
        self._reader = RowReader(streams.model)
        # large requests take turns: each of them may hold the interpreter, or the thread that decides, for a while
        self._large = asyncio.Semaphore(1)

    def turn_of(self, *, large: bool) -> AbstractAsyncContextManager[None]:
        """Return what to enter before a request is read and decided."""
        return self._large if large else nullcontext()

    @property
    def reader(self) -> RowReader:
        """Reads rows for the current model."""
        if self._reader.model is not self.streams.model:  # it was reloaded
            self._reader = RowReader(self.streams.model)
        return self._reader


def decision_routes(app_state: AppState) -> APIRouter:
    """Return the routes of decisions and labels.

    Bodies are read and written without the framework's models: on this path they would cost more than the decision.
    """
    router = APIRouter(tags=["decisions"], default_response_class=Response)

    @router.post(
        "/v1/streams/{stream}/decisions",
        summary="Decide rows, and update the prior with them",
        responses=_DECIDED,
        openapi_extra={
            "requestBody": request_body("DecisionsRequest", csv="CsvRows"),
            "parameters": [KEY_PARAMETER, ID_COLUMN_PARAMETER],
        },
    )
    async def decide(request: Request, stream: Stream) -> Response:
        body = await request.body()
        sender = sender_of(request, body)
        large = len(body) > _LARGE_BODY
        async with app_state.turn_of(large=large):
            for tries_left in reversed(range(_TRIES)):
                rows = await _off_loop(large, _read, request, body, app_state)
                try:
                    decided = await app_state.streams.decide(stream, rows, sender)
                    break
                except ModelChangedError:  # nothing was stored: read them again for the new one
                    if not tries_left:
                        raise
        app_state.metrics.decided(decided)
        as_csv = "text/csv" in request.headers.get("accept", "")
        write = app_state.writer.csv if as_csv else app_state.writer.json
        body = await _off_loop(rows.n_rows > _MANY_ROWS, write, decided)
        return Response(body, media_type="text/csv" if as_csv else "application/json")

    @router.post(
        "/v1/streams/{stream}/labels",
        summary="Take in late labels",
        responses=described(LabelResult, 400, 404, 409, 410, 415),
        openapi_extra={"requestBody": request_body("LabelsRequest"), "parameters": [KEY_PARAMETER]},
    )
    async def label(request: Request, stream: Stream) -> Response:
        body = await json_body(request, max_bytes=None)
        large, most = len(body) > _LARGE_BODY, app_state.settings.max_rows
        async with app_state.turn_of(large=large):
            labels = await _off_loop(large, partial(labels_of_json, max_rows=most), body, app_state.streams.model)
            result = await app_state.streams.label(stream, labels, sender_of(request, body))
        if not result.repeated:
            app_state.metrics.labelled(stream, result.known)
        return json_response(result)

    @router.delete(
        "/v1/streams/{stream}/decisions/{id:path}",
        summary="Erase a decision",
        responses=described(create_model("Erased", erased=int), 404, description="How many decisions were erased."),
    )
    async def erase(request: Request, stream: Stream, id: DecisionId, type: IdType = "text") -> Response:  # noqa: A002
        erased = await app_state.streams.forget(stream, [id_of(id, type)], sender_of(request))
        if not erased:
            raise UnknownDecisionError(f"no decision of stream {stream!r} has this id", where="id")
        return json_response({"erased": erased})

    return router


async def _off_loop(off: bool, work: Callable[..., Result], *arguments: Any) -> Result:
    """Run some work, in another thread if it is long: other requests would wait for it."""
    return await asyncio.to_thread(work, *arguments) if off else work(*arguments)


def _read(request: Request, body: bytes, app_state: AppState) -> Rows:
    kind, settings, reader = content_type(request), app_state.settings, app_state.reader
    if kind == "application/json":
        return rows_of_json(body, reader, max_rows=settings.max_rows, keep_inputs=settings.store_inputs)
    if kind == "text/csv":
        column = request.query_params.get("id_column")
        return rows_of_csv(
            body, reader, max_rows=settings.max_rows, id_column=column, keep_inputs=settings.store_inputs
        )
    raise UnsupportedTypeError(
        f"Content-Type must be application/json or text/csv, got {kind!r:.80}", where="Content-Type"
    )


def id_of(text: str, kind: str) -> Id:
    """Return the id in a path, or refuse it.

    >>> id_of("7", "text"), id_of("7", "number")
    ('7', 7)
    """
    if "\0" in text:
        raise BadInputError("an id must not contain a NUL character", where="id")
    try:
        with as_bad_input("id"):
            return as_id(text if kind == "text" else int(text))
    except ValueError:
        raise BadInputError(f"an id of type number must be a whole number, got {text!r:.40}", where="id") from None
