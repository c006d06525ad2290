"""Create, read, change and delete streams."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from obil.service.http.app_state import AppState, json_body, sender_of
from obil.service.http.requests.schemas import STREAM_PARAMETER, json_request
from obil.service.http.requests.settings import policy_of_json, settings_of_json
from obil.service.http.responses import json_response
from obil.service.http.schemas import ChangeResponse, DetailResponse, HistoryResponse, PageResponse, refusals
from obil.service.refusals import BadInputError, UnknownStreamError
from obil.service.streams.operations import as_stream_name

Time = Annotated[float | None, Query(ge=0.0, le=1e11, allow_inf_nan=False, description="Seconds since 1970.")]
After = Annotated[str | None, Query(max_length=128, description="The `next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Search = Annotated[str | None, Query(max_length=128, description="A part of the name.")]
Alarmed = Annotated[bool, Query(description="Only streams whose monitor has raised an alarm.")]
_STREAM_PATH = {"parameters": [STREAM_PARAMETER]}


def stream_routes(app_state: AppState) -> APIRouter:
    """Return the routes of streams."""
    router = APIRouter(tags=["streams"], default_response_class=Response)
    streams = app_state.streams

    @router.get("/v1/streams", summary="List streams", responses={200: {"model": PageResponse}, **refusals()})
    async def page(
        after: After = None, limit: Limit = 100, search: Search = None, alarmed: Alarmed = False
    ) -> Response:
        require_page(after, search)
        return json_response(await streams.page(after=after, limit=limit, search=search, alarmed=alarmed))

    @router.put(
        "/v1/streams/{stream}",
        summary="Create a stream with settings of its own",
        status_code=201,
        responses={
            200: {"model": DetailResponse, "description": "The stream exists with these settings."},
            201: {"model": DetailResponse, "description": "The stream was created."},
            **refusals(400, 409, 415),
        },
        openapi_extra={**_STREAM_PATH, "requestBody": json_request("StreamRequest", required=False)},
    )
    async def create(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        has_body = "content-type" in request.headers or await request.body()
        body = await json_body(request) if has_body else b""
        settings = settings_of_json(body, streams.model)
        try:
            await streams.detail(stream)
            status = 200
        except UnknownStreamError:
            status = 201
        return json_response(await streams.create(stream, settings, sender_of(request)), status)

    @router.get(
        "/v1/streams/{stream}",
        summary="Show one stream in detail",
        responses={200: {"model": DetailResponse}, **refusals(404)},
        openapi_extra=_STREAM_PATH,
    )
    async def detail(request: Request) -> Response:
        return json_response(await streams.detail(as_stream_name(request.path_params["stream"])))

    @router.get(
        "/v1/streams/{stream}/history",
        summary="Show one stream over time",
        responses={200: {"model": HistoryResponse}, **refusals(404)},
        openapi_extra=_STREAM_PATH,
    )
    async def history(
        request: Request, start: Time = None, end: Time = None, points: Annotated[int, Query(ge=2, le=5_000)] = 300
    ) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        if start is not None and end is not None and start > end:
            raise BadInputError(f"start must not come after end, got {start} and {end}", where="start")
        return json_response(await streams.history(stream, start=start, end=end, points=points))

    @router.put(
        "/v1/streams/{stream}/settings",
        summary="Set costs or a policy from the next row on",
        responses={200: {"model": ChangeResponse}, **refusals(400, 404, 415)},
        openapi_extra={**_STREAM_PATH, "requestBody": json_request("SettingsRequest")},
    )
    async def change(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        policy = policy_of_json(await json_body(request))
        return json_response(await streams.change(stream, policy, sender_of(request)))

    @router.post(
        "/v1/streams/{stream}/monitor/restart",
        summary="Start a new monitoring run, without the evidence so far",
        responses={200: {"model": DetailResponse}, **refusals(404)},
        openapi_extra=_STREAM_PATH,
    )
    async def restart(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        return json_response(await streams.restart_monitor(stream, sender_of(request)))

    @router.delete(
        "/v1/streams/{stream}",
        summary="Delete a stream",
        status_code=204,
        responses=refusals(404),
        openapi_extra=_STREAM_PATH,
    )
    async def delete(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        await streams.delete(stream, sender_of(request))
        app_state.metrics.forget(stream)
        return Response(status_code=204)

    return router


def require_page(after: str | None, search: str | None) -> None:
    """Refuse query parameters that no page of streams has."""
    if after is not None:
        try:
            as_stream_name(after)
        except BadInputError as error:
            raise BadInputError(str(error), where="after") from None
    if search is not None and not search.isprintable():
        raise BadInputError(f"search must be printable text, got {search!r:.80}", where="search")
