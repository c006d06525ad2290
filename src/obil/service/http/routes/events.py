"""Tell whoever watches which streams have changed, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from obil.service.http.answers import json_bytes, summary_record
from obil.service.http.app_state import HttpEdge
from obil.service.http.documents import refusals
from obil.service.http.guard import STILL_ALLOWED
from obil.service.http.requests.documents import STREAM_PARAMETER
from obil.service.http.routes.streams import After, Alarmed, Limit, Search, require_page
from obil.service.refusals import BusyError, NoKeyError, RefusedError, UnknownStreamError
from obil.service.streams.stream_names import as_stream_name

POLL_SECONDS = 1.0
ALIVE_SECONDS = 15.0  # a proxy closes what is unlabeled for longer
_EVENTS: dict[str, Any] = {
    "description": "Events, once a second at most, when something changed.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


def event_routes(edge: HttpEdge) -> APIRouter:
    """Return the routes of events."""
    router = APIRouter(tags=["events"], default_response_class=Response)
    streams = edge.streams

    @router.get("/v1/events", summary="Watch streams", responses={200: _EVENTS, **refusals()})
    async def watch_all(
        request: Request, after: After = None, limit: Limit = 100, search: Search = None, alarmed: Alarmed = False
    ) -> Response:
        require_page(after, search)
        known: dict[str, int] = {}

        async def changes() -> bytes | None:
            page = await streams.page(after=after, limit=limit, search=search, alarmed=alarmed)
            changed = [one for one in page.streams if known.get(one.name) != one.seq]
            known.clear()
            known.update({one.name: one.seq for one in page.streams})
            return _event("streams", {"streams": [summary_record(one) for one in changed]}) if changed else None

        return _watched(edge, request, changes)

    @router.get(
        "/v1/streams/{stream}/events",
        summary="Watch one stream",
        responses={200: _EVENTS, **refusals(404)},
        openapi_extra={"parameters": [STREAM_PARAMETER]},
    )
    async def watch_one(request: Request) -> Response:
        stream = as_stream_name(request.path_params["stream"])
        await streams.detail(stream)  # one that does not exist is refused here
        seq = -1

        async def change() -> bytes | None:
            nonlocal seq
            changed = await streams.changed_since({stream: seq})
            if not changed:
                return None
            seq = changed[0].seq
            return _event("stream", summary_record(changed[0]))

        return _watched(edge, request, change)

    return router


async def event_lines(
    news: Callable[[], Any],
    *,
    stopping: Callable[[], bool] = lambda: False,
    poll_seconds: float = POLL_SECONDS,
    alive_seconds: float = ALIVE_SECONDS,
) -> AsyncIterator[bytes]:
    """Yield what there is of news, and now and then a sign of life."""
    unlabeled = 0.0
    while not stopping():
        try:
            event = await news()
        except (UnknownStreamError, NoKeyError):  # it was erased; the key was revoked, or has expired
            return
        except RefusedError:  # the store is away: the watcher waits with us
            event = None
        if event is not None or unlabeled >= alive_seconds:
            yield b": alive\n\n" if event is None else event
            unlabeled = 0.0
        await asyncio.sleep(poll_seconds)
        unlabeled += poll_seconds


def _watched(edge: HttpEdge, request: Request, news: Callable[[], Any]) -> Response:
    if edge.watchers >= edge.settings.max_watchers:
        raise BusyError(f"at most {edge.settings.max_watchers} may watch at once")

    async def allowed_news() -> Any:
        await request.scope[STILL_ALLOWED]()
        return await news()

    async def lines() -> AsyncIterator[bytes]:
        edge.watchers += 1
        try:
            async for line in event_lines(allowed_news, stopping=lambda: edge.stopping):
                yield line
        finally:
            edge.watchers -= 1

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _event(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"
