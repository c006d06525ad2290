"""Show the model that serves, and read a new version of it, over HTTP."""

from typing import Any

from fastapi import APIRouter, Request, Response

from obil.service.http.app_state import HttpEdge, json_answer, sender_of
from obil.service.http.documents import refusals

_CARD: dict[str, Any] = {
    "description": "The model's card: version, classes, columns, the gate's verdict, the reliability diagram.",
    "content": {"application/json": {"schema": {"type": "object", "required": ["version", "classes"]}}},
}


def model_routes(edge: HttpEdge) -> APIRouter:
    """Return the routes of the model."""
    router = APIRouter(tags=["model"], default_response_class=Response)

    @router.get("/v1/model", summary="Look at the model", responses={200: _CARD, **refusals()})
    async def card() -> Response:
        return json_answer(edge.streams.model_card)

    @router.post("/v1/model/reload", summary="Read the model folder again", responses={200: _CARD, **refusals(409)})
    async def reload(request: Request) -> Response:
        return json_answer(await edge.streams.reload_model(sender_of(request)))

    return router
