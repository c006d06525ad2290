"""Answer why a row was decided as it was, and page through the log of a stream."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from obil.service.http.decision_routes import AppState, DecisionId, IdType, id_of
from obil.service.http.openapi import Stream, described
from obil.service.http.responses import json_bytes, json_response
from obil.service.records import LogEntry, LogPage, StoredDecision
from obil.service.streams.operations import Decided
from obil.service.streams.stream_log import LoggedPage

After = Annotated[int, Query(ge=0, le=2**53, description="The `next` of the previous page.")]
_PAGE = described(LogPage, 404, description="Events in order: `limit` of them, or fewer if they are large.")


def log_routes(app_state: AppState) -> APIRouter:
    """Return the routes that read the log."""
    router = APIRouter(tags=["log"], default_response_class=Response)
    streams, writer = app_state.streams, app_state.writer

    @router.get(
        "/v1/streams/{stream}/decisions/{id:path}",
        summary="Show a decision, what it was made from, and the labels that came for it",
        responses=described(StoredDecision, 404, 410),
    )
    async def decision(stream: Stream, id: DecisionId, type: IdType = "text") -> Response:  # noqa: A002
        found = await streams.decision(stream, id_of(id, type))
        decided = found.decided
        return json_response(
            {
                "stream": decided.stream,
                "model": decided.model,
                "row": decided.first_row,
                "at": found.at,
                "by": found.by,
                "decision": writer.rows(decided.decisions)[0],
                "true_labels": found.true_labels,
            }
        )

    @router.get("/v1/streams/{stream}/log", summary="Page through the log of a stream", responses=_PAGE)
    async def log(stream: Stream, after: After = 0, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Response:
        page = await streams.log(stream, after=after, limit=limit)
        # in a thread: a page may hold thousands of decisions
        return Response(await asyncio.to_thread(write, page), media_type="application/json")

    def write(page: LoggedPage) -> bytes:
        entries = [
            LogEntry(one.seq, one.at, one.by, one.kind, one.row, one.rows, content_of(one.content))
            for one in page.entries
        ]
        return json_bytes(LogPage(page.stream, entries, page.next))

    def content_of(content: Decided | Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(content, Decided):
            return {"model": content.model, "decisions": writer.rows(content.decisions)}
        return content

    return router
