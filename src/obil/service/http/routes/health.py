"""Say whether the service lives, is ready, and what it has counted."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from obil.service.http.app_state import HttpEdge, json_answer
from obil.service.http.documents import StateAnswer, refusals
from obil.service.refusals import NotStoredError, RefusedError


def health_routes(edge: HttpEdge) -> APIRouter:
    """Return the routes that machines watch."""
    router = APIRouter(tags=["health"], default_response_class=Response)

    @router.get("/healthz", summary="Does the process live?", responses={200: {"model": StateAnswer}, **refusals()})
    async def live() -> Response:
        return json_answer({"status": "ok"})

    @router.get(
        "/readyz", summary="Can decisions be taken and kept?", responses={200: {"model": StateAnswer}, **refusals()}
    )
    async def ready() -> Response:
        if not await edge.streams.ready():
            raise NotStoredError("the store cannot be written to")
        return json_answer({"status": "ready"})

    @router.get(
        "/metrics",
        summary="Figures for Prometheus",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals()},
    )
    async def metrics() -> Response:
        try:
            summaries = await edge.streams.changed_since(dict.fromkeys(edge.metrics.named, -1))
        except RefusedError:  # the counters are worth most when the store is away
            summaries = ()
        return Response(edge.metrics.text(summaries), media_type=CONTENT_TYPE_LATEST)

    return router
