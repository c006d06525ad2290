"""Send changes of the streams to subscribers, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from obil.service.http.app_state import AppState
from obil.service.http.guard import STILL_ALLOWED
from obil.service.http.requests.schemas import STREAM_PARAMETER
from obil.service.http.responses import json_bytes
from obil.service.http.routes.streams import After, Alarmed, Limit, Search, require_page
from obil.service.http.schemas import refusals
from obil.service.refusals import BusyError, NoKeyError, RefusedError, UnknownStreamError
from obil.service.streams.operations import as_stream_name

POLL_SECONDS = 1.0
ALIVE_SECONDS = 15.0  # a proxy closes a connection that is idle for longer
_EVENTS: dict[str, Any] = {
    "description": "Events when something changed, at most once per second.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


def event_routes(app_state: AppState) -> APIRouter:
    """Return the routes of events."""
    router = APIRouter(tags=["events"], default_response_class=Response)
    streams = app_state.streams

    @router.get("/v1/events", summary="Subscribe to the changes of streams", responses={200: _EVENTS, **refusals()})
    async def subscribe_all(
        request: Request, after: After = None, limit: Limit = 100, search: Search = None, alarmed: Alarmed = False
    ) -> Response:
        require_page(after, search)
        known: dict[str, int] = {}

        async def changes() -> bytes | None:
            page = await streams.page(after=after, limit=limit, search=search, alarmed=alarmed)
            changed = [one for one in page.streams if known.get(one.name) != one.seq]
            known.clear()
            known.update({one.name: one.seq for one in page.streams})
            return _event("streams", {"streams": changed}) if changed else None

        return _subscription(app_state, request, changes)

    @router.get(
        "/v1/streams/{stream}/events",
        summary="Subscribe to the changes of one stream",
        responses={200: _EVENTS, **refusals(404)},
        openapi_extra={"parameters": [STREAM_PARAMETER]},
    )
    async def subscribe(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        await streams.detail(stream)  # refuses a stream that does not exist
        seq = -1

        async def change() -> bytes | None:
            nonlocal seq
            changed = await streams.changed_since({stream: seq})
            if not changed:
                return None
            seq = changed[0].seq
            return _event("stream", changed[0])

        return _subscription(app_state, request, change)

    return router


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


def _event(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"
