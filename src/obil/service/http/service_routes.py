"""Show and reload the model, report the health and the metrics of the service, and serve the files of its page."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import create_model

from obil.service.http.app_state import AppState, sender_of
from obil.service.http.openapi import described
from obil.service.http.responses import json_response
from obil.service.records import ModelCard
from obil.service.refusals import NotStoredError, RefusedError

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
_HEALTH = described(create_model("Health", status=str))
_METRICS = described(None)
_METRICS[200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}


def service_routes(app_state: AppState) -> APIRouter:
    """Return the routes about the service itself."""
    router = APIRouter(default_response_class=Response)

    @router.get("/v1/model", summary="Show the model", tags=["model"], responses=described(ModelCard))
    async def card() -> Response:
        return json_response(app_state.streams.model_card)

    @router.post(
        "/v1/model/reload", summary="Read the model folder again", tags=["model"], responses=described(ModelCard, 409)
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

    @router.get("/metrics", summary="Metrics for Prometheus", tags=["health"], responses=_METRICS)
    async def metrics() -> Response:
        try:
            summaries = await app_state.streams.changed_since(dict.fromkeys(app_state.metrics.named, -1))
        except RefusedError:  # the counters matter most when the store is unavailable
            summaries = []
        return Response(app_state.metrics.text(summaries), media_type=CONTENT_TYPE_LATEST)

    return router


class PageFile(NamedTuple):
    """One file of the page, with the headers it is sent with."""

    content: bytes
    content_type: str
    etag: str  # the hash of the content, so that a browser downloads it once

    def response(self, request: Request) -> Response:
        """Return the file, or 304 if the browser has it already."""
        # files refer to each other without a version: revalidate each time
        headers = {"ETag": self.etag, "Cache-Control": "no-cache"}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if self.etag in known:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.content_type, headers=headers)


def page_files(folder: Traversable | None = None, prefix: str = "") -> dict[str, PageFile]:
    """Return all files of the page by their path.

    >>> page_files()["index.html"].content_type
    'text/html; charset=utf-8'
    """
    found: dict[str, PageFile] = {}
    for entry in (files("obil.service").joinpath("page") if folder is None else folder).iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            found |= page_files(entry, f"{path}/")
        elif kind := next((kind for end, kind in CONTENT_TYPES.items() if entry.name.endswith(end)), None):
            content = entry.read_bytes()  # what an editor or a file system leaves behind is no part of the page
            found[path] = PageFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def page_routes() -> APIRouter:
    """Return the routes `/` and `/static/...`; the files are read once, at start."""
    router = APIRouter(include_in_schema=False)
    known = page_files()

    @router.api_route("/", methods=["GET", "HEAD"])
    def index(request: Request) -> Response:
        return known["index.html"].response(request)

    @router.api_route("/static/{path:path}", methods=["GET", "HEAD"])
    def static(path: str, request: Request) -> Response:
        # looked up among the known names: no path leads out of the folder
        if path not in known:
            raise HTTPException(404, "the page has no such file")
        return known[path].response(request)

    return router
