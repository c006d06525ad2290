"""Create, read, change and delete streams, and send their changes to subscribers as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from obil.service.http.decision_routes import AppState
from obil.service.http.event_cache import EventCache, event
from obil.service.http.guard import STILL_ALLOWED
from obil.service.http.note_request import note_of_json
from obil.service.http.openapi import KEY_PARAMETER, Stream, described, request_body
from obil.service.http.request_bodies import json_body, sender_of
from obil.service.http.responses import json_response
from obil.service.http.stream_settings import policy_of_json, settings_of_json
from obil.service.records import SettingsChange, StreamDetail, StreamEvent, StreamHistory, StreamPage
from obil.service.refusals import BadInputError, BusyError, NoKeyError, RefusedError, UnknownStreamError
from obil.service.streams.operations import as_stream_name

POLL_SECONDS = 1.0
ALIVE_SECONDS = 15.0  # a proxy closes a connection that is idle for longer
Time = Annotated[float | None, Query(ge=0.0, le=1e11, allow_inf_nan=False, description="Seconds since 1970.")]
After = Annotated[str | None, Query(max_length=128, description="The `next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Search = Annotated[str | None, Query(max_length=128, description="A part of the name.")]
Alarmed = Annotated[bool, Query(description="Only streams whose monitor has raised an alarm.")]
_CREATED = described(StreamDetail, 400, 409, 415, description="The stream exists with these settings.")
_CREATED[201] = {"model": StreamDetail, "description": "The stream was created."}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`streams`: summaries of those that changed, at most once per second. Of one stream, after a "
        "change: `points`, the newest of its history, and `stream`, the stream in detail, at most every three seconds.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
_DELETED = {status: one for status, one in described(None, 404).items() if status != 200}


def stream_routes(app_state: AppState) -> APIRouter:
    """Return the routes of streams."""
    router = APIRouter(tags=["streams"], default_response_class=Response)
    events = APIRouter(tags=["events"], default_response_class=Response)
    streams, cache = app_state.streams, EventCache(app_state.streams)

    @router.get("/v1/streams", summary="List streams", responses=described(StreamPage))
    async def page(
        after: After = None, limit: Limit = 100, search: Search = None, alarmed: Alarmed = False
    ) -> Response:
        _require_page(after, search)
        return json_response(await streams.page(after=after, limit=limit, search=search, alarmed=alarmed))

    @router.put(
        "/v1/streams/{stream}",
        summary="Create a stream with settings of its own",
        status_code=201,
        responses=_CREATED,
        openapi_extra={"requestBody": request_body("StreamRequest", required=False)},
    )
    async def create(request: Request, stream: Stream) -> Response:
        has_body = "content-type" in request.headers or await request.body()
        body = await json_body(request) if has_body else b""
        settings = settings_of_json(body, streams.model)
        try:
            await streams.detail(stream)
            status = 200
        except UnknownStreamError:
            status = 201
        return json_response(await streams.create(stream, settings, sender_of(request)), status)

    @router.get("/v1/streams/{stream}", summary="Show one stream in detail", responses=described(StreamDetail, 404))
    async def detail(stream: Stream) -> Response:
        return json_response(await streams.detail(stream))

    @router.get(
        "/v1/streams/{stream}/history", summary="Show one stream over time", responses=described(StreamHistory, 404)
    )
    async def history(
        stream: Stream, start: Time = None, end: Time = None, points: Annotated[int, Query(ge=2, le=5_000)] = 300
    ) -> Response:
        if start is not None and end is not None and start > end:
            raise BadInputError(f"start must not come after end, got {start} and {end}", where="start")
        return json_response(await streams.history(stream, start=start, end=end, points=points))

    @router.put(
        "/v1/streams/{stream}/settings",
        summary="Set costs or a policy from the next row on",
        responses=described(SettingsChange, 400, 404, 415),
        openapi_extra={"requestBody": request_body("SettingsRequest")},
    )
    async def change(request: Request, stream: Stream) -> Response:
        policy = policy_of_json(await json_body(request))
        return json_response(await streams.change(stream, policy, sender_of(request)))

    @router.post(
        "/v1/streams/{stream}/monitor/restart",
        summary="Start a new monitoring run, without the evidence so far",
        responses=described(StreamDetail, 404),
    )
    async def restart(request: Request, stream: Stream) -> Response:
        return json_response(await streams.restart_monitor(stream, sender_of(request)))

    @router.post(
        "/v1/streams/{stream}/notes",
        summary="Keep a note on a stream, or acknowledge its alarm",
        responses=described(StreamEvent, 400, 404, 409, 415),
        openapi_extra={"requestBody": request_body("NoteRequest"), "parameters": [KEY_PARAMETER]},
    )
    async def note(request: Request, stream: Stream) -> Response:
        body = await json_body(request)
        text, acknowledge = note_of_json(body)
        return json_response(await streams.note(stream, text, sender_of(request, body), acknowledge=acknowledge))

    @router.delete("/v1/streams/{stream}", summary="Delete a stream", status_code=204, responses=_DELETED)
    async def delete(request: Request, stream: Stream) -> Response:
        await streams.delete(stream, sender_of(request))
        app_state.metrics.forget(stream)
        return Response(status_code=204)

    @events.get("/v1/events", summary="Subscribe to the changes of streams", responses=described(None) | _EVENTS)
    async def subscribe_all(
        request: Request, after: After = None, limit: Limit = 100, search: Search = None, alarmed: Alarmed = False
    ) -> Response:
        _require_page(after, search)
        known: dict[str, int] = {}

        async def changes() -> bytes | None:
            page = await cache.page(after=after, limit=limit, search=search, alarmed=alarmed)
            changed = [one for one in page.streams if known.get(one.name) != one.seq]
            known.clear()
            known.update({one.name: one.seq for one in page.streams})
            return event("streams", {"streams": changed}) if changed else None

        return _subscription(app_state, request, changes)

    @events.get(
        "/v1/streams/{stream}/events",
        summary="Subscribe to the changes of one stream",
        responses=described(None, 404) | _EVENTS,
    )
    async def subscribe(request: Request, stream: Stream) -> Response:
        await cache.stream(stream)  # refuses a stream that does not exist
        seq = -1

        async def change() -> bytes | None:
            nonlocal seq
            news = await cache.stream(stream)
            is_new, seq = news.seq != seq, news.seq
            return news.content if is_new else None

        return _subscription(app_state, request, change)

    both = APIRouter()
    for part in (router, events):
        both.include_router(part)
    return both


async def event_lines(
    next_event: Callable[[], Any],
    *,
    stopping: Callable[[], bool] = lambda: False,
    poll_seconds: float = POLL_SECONDS,
    alive_seconds: float = ALIVE_SECONDS,
) -> AsyncIterator[bytes]:
    """Yield events as they come, and a comment where none came for a while."""
    idle_seconds = 0.0
    while not stopping():
        try:
            event = await next_event()
        except (UnknownStreamError, NoKeyError):  # it was erased; the key was revoked or has expired
            return
        except RefusedError:  # the store is unavailable: the subscriber waits
            event = None
        if event is not None or idle_seconds >= alive_seconds:
            yield b": alive\n\n" if event is None else event
            idle_seconds = 0.0
        await asyncio.sleep(poll_seconds)
        idle_seconds += poll_seconds


def _subscription(app_state: AppState, request: Request, next_event: Callable[[], Any]) -> Response:
    if app_state.n_subscribers >= app_state.settings.max_subscribers:
        raise BusyError(
            f"{app_state.n_subscribers} event streams are open, as many as max_subscribers allows: try again later"
        )

    async def authorized_event() -> Any:
        await request.scope[STILL_ALLOWED]()
        return await next_event()

    async def lines() -> AsyncIterator[bytes]:
        app_state.n_subscribers += 1
        try:
            async for line in event_lines(authorized_event, stopping=lambda: app_state.stopping):
                yield line
        finally:
            app_state.n_subscribers -= 1

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _require_page(after: str | None, search: str | None) -> None:
    """Refuse query parameters that no page of streams has."""
    if after is not None:
        try:
            as_stream_name(after)
        except BadInputError as error:
            raise BadInputError(str(error), where="after") from None
    if search is not None and not search.isprintable():
        raise BadInputError(f"search must be printable text, got {search!r:.80}", where="search")
