"""Decide rows over HTTP, and erase what is kept of them."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from obil.errors import InvalidInputError
from obil.online.decision_ids import Id, as_id
from obil.service.http.app_state import HttpEdge, content_type, json_answer, sender_of
from obil.service.http.documents import DecisionsAnswer, ErasedAnswer, refusals
from obil.service.http.requests.documents import DECISIONS_BODY, ID_COLUMN_PARAMETER, KEY_PARAMETER, STREAM_PARAMETER
from obil.service.http.requests.rows import rows_of_csv, rows_of_json
from obil.service.refusals import BadInputError, ModelChangedError, UnknownDecisionError, UnsupportedTypeError
from obil.service.streams.operations import Rows
from obil.service.streams.stream_names import as_stream_name

_LARGE_BODY = 200_000  # bytes; from here on a body is read beside the event loop, not in it
_MANY_ROWS = 2_000
_TRIES = 3  # to decide rows while models are replaced


def decision_routes(edge: HttpEdge) -> APIRouter:
    """Return the routes of decisions.

    The body is read, and the answer written, without the framework's models: on this path they would cost more than
    the decision.
    """
    router = APIRouter(tags=["decisions"])

    @router.post(
        "/v1/streams/{stream}/decisions",
        summary="Decide rows, and let them vote",
        response_class=Response,
        responses={
            200: {
                "model": DecisionsAnswer,
                "description": "The decisions, safe on disk.",
                "content": {"text/csv": {"schema": {"type": "string"}}},
            },
            **refusals(400, 409, 415),
        },
        openapi_extra={
            "requestBody": DECISIONS_BODY,
            "parameters": [STREAM_PARAMETER, KEY_PARAMETER, ID_COLUMN_PARAMETER],
        },
    )
    async def decide(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        body = await request.body()
        sender = sender_of(request, body)
        large = len(body) > _LARGE_BODY
        for tries_left in reversed(range(_TRIES)):
            rows = await asyncio.to_thread(_read, request, body, edge) if large else _read(request, body, edge)
            try:
                decided = await edge.streams.decide(stream, rows, sender)
                break
            except ModelChangedError:  # nothing was kept: read them for the one that serves now
                if not tries_left:
                    raise
        writer = edge.writer
        edge.metrics.decided(decided, writer.positive(decided))
        as_csv = "text/csv" in request.headers.get("accept", "")
        write = writer.csv if as_csv else writer.json
        answer = await asyncio.to_thread(write, decided) if rows.n_rows > _MANY_ROWS else write(decided)
        return Response(answer, media_type="text/csv" if as_csv else "application/json")

    @router.delete(
        "/v1/streams/{stream}/decisions/{id:path}",
        summary="Erase what is kept of a decision",
        response_class=Response,
        responses={200: {"model": ErasedAnswer}, **refusals(404)},
        openapi_extra={"parameters": [STREAM_PARAMETER]},
    )
    async def erase(
        request: Request,
        id: Annotated[str, Path(description="The id the decision was given.")],  # noqa: A002  # the word users know
        type: Annotated[Literal["text", "number"], Query()] = "text",  # noqa: A002  # that of the id
    ) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        erased = await edge.streams.forget(stream, [_id(id, type)], sender_of(request))
        if not erased:
            raise UnknownDecisionError("nothing is kept under this id", where="id")
        return json_answer({"erased": erased})

    return router


def _read(request: Request, body: bytes, edge: HttpEdge) -> Rows:
    kind, settings = content_type(request), edge.settings
    if kind == "application/json":
        return rows_of_json(body, edge.reader, max_rows=settings.max_rows, keep_inputs=settings.store_inputs)
    if kind == "text/csv":
        return rows_of_csv(
            body,
            edge.reader,
            max_rows=settings.max_rows,
            id_column=request.query_params.get("id_column"),
            keep_inputs=settings.store_inputs,
        )
    raise UnsupportedTypeError(
        f"rows must be application/json or text/csv by their Content-Type, got {kind!r:.80}", where="Content-Type"
    )


def _id(text: str, kind: str) -> Id:
    if "\0" in text:
        raise BadInputError("an id must hold no zero character, got one", where="id")
    try:
        return as_id(text if kind == "text" else int(text))
    except InvalidInputError as error:
        raise BadInputError(str(error), where="id") from None
    except ValueError:
        raise BadInputError(f"an id of type number must be a whole number, got {text!r:.40}", where="id") from None
