"""Show and reload the model, and report the health and the metrics of the service."""

from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from obil.service.http.app_state import AppState, sender_of
from obil.service.http.responses import json_response
from obil.service.http.schemas import HealthResponse, refusals
from obil.service.refusals import NotStoredError, RefusedError

_CARD: dict[str, Any] = {
    "description": "The model card: version, classes, columns, the deployment gate's verdict, reliability diagram.",
    "content": {"application/json": {"schema": {"type": "object", "required": ["version", "classes"]}}},
}
_HEALTH: dict[int | str, dict[str, Any]] = {200: {"model": HealthResponse}, **refusals()}


def service_routes(app_state: AppState) -> APIRouter:
    """Return the routes about the service itself."""
    router = APIRouter(default_response_class=Response)

    @router.get("/v1/model", summary="Show the model", tags=["model"], responses={200: _CARD, **refusals()})
    async def card() -> Response:
        return json_response(app_state.streams.model_card)

    @router.post(
        "/v1/model/reload",
        summary="Read the model folder again",
        tags=["model"],
        responses={200: _CARD, **refusals(409)},
    )
    async def reload(request: Request) -> Response:
        return json_response(await app_state.streams.reload_model(sender_of(request)))

    @router.get("/healthz", summary="Is the process alive?", tags=["health"], responses=_HEALTH)
    async def live() -> Response:
        return json_response({"status": "ok"})

    @router.get("/readyz", summary="Can decisions be made and stored?", tags=["health"], responses=_HEALTH)
    async def ready() -> Response:
        if not await app_state.streams.ready():
            raise NotStoredError("the store cannot be written to: check its disk or its server")
        return json_response({"status": "ready"})

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        tags=["health"],
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals()},
    )
    async def metrics() -> Response:
        try:
            summaries = await app_state.streams.changed_since(dict.fromkeys(app_state.metrics.named, -1))
        except RefusedError:  # the counters matter most when the store is unavailable
            summaries = ()
        return Response(app_state.metrics.text(summaries), media_type=CONTENT_TYPE_LATEST)

    return router
