"""Put the HTTP application together: routes, those of the service itself and its page, guard, OpenAPI document."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.openapi.utils import get_openapi
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import create_model

from obil import __version__
from obil.errors import InvalidInputError
from obil.service.http.access import Authentication, HostCheck
from obil.service.http.bodies import Bodies
from obil.service.http.decision_routes import AppState, decision_routes
from obil.service.http.guard import FastPath, Guard
from obil.service.http.in_progress import InProgress
from obil.service.http.inference_routes import inference_routes
from obil.service.http.log_routes import log_routes
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.model_routes import model_routes
from obil.service.http.openapi import described, request_schemas
from obil.service.http.problems import install_error_responses
from obil.service.http.responses import json_response
from obil.service.http.stream_routes import stream_routes
from obil.service.http.streams_now import StreamsReader
from obil.service.refusals import NotStoredError, RefusedError
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import Store
from obil.service.streams.stream_hub import StreamHub
from obil.service.tracing import open_tracing

MOST_ARRIVING = 4  # models at the same time
BUSIEST = ("/v1/streams/{stream}/decisions", "/v1/streams/{stream}/labels")
_ABOUT = (
    "Decisions that stay right when the class prior changes (label shift). Each stream tracks its own prior; "
    "posting rows decides them and updates the prior."
)
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


def create_app(streams: StreamHub, settings: ServiceSettings | None = None, keys: Store | None = None) -> FastAPI:
    """Return the HTTP application over some streams; settings are read from the environment if None.

    `keys` is where API keys are looked up; it is needed if the settings require keys.
    """
    settings = ServiceSettings() if settings is None else settings
    if settings.needs_keys and keys is None:
        raise InvalidInputError(f"a service bound to {settings.host!r} needs API keys, got keys=None")
    metrics = ServiceMetrics(max_streams=settings.metric_streams)
    app_state = AppState(streams, settings, metrics)
    bodies = Bodies(
        max_bytes=settings.max_body_bytes,
        memory_bytes=settings.body_memory_bytes,
        seconds=settings.body_seconds,
        most=settings.max_requests,
    )
    uploads = None
    if settings.upload_bytes:  # apart from other bodies, which are small beside a model
        most = {"max_bytes": settings.upload_bytes, "memory_bytes": settings.upload_bytes, "most": MOST_ARRIVING}
        remedy = "the operator can raise upload_bytes and upload_seconds"
        uploads = Bodies(seconds=settings.upload_seconds, remedy=remedy, **most)
    in_progress = InProgress(most=settings.max_requests, most_per_key=settings.max_requests_per_key)
    metrics.gauge("obil_requests_in_progress", "Requests that are being answered.", lambda: in_progress.total)
    metrics.gauge("obil_body_bytes", "Bytes of the large bodies in progress.", lambda: bodies.held_bytes)
    metrics.gauge("obil_queue_requests", "Requests that wait to be decided and stored.", lambda: streams.n_waiting)
    metrics.gauge("obil_streams_in_memory", "Streams in memory.", lambda: streams.n_live)
    streams.on_commit(metrics.committed)
    tracing = open_tracing(settings.tracing)
    if tracing is not None:
        streams.on_answer(tracing.record)
    app = FastAPI(
        title="obil",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # it would load its page from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.obil = app_state  # the server sets `stopping`
    install_error_responses(app)
    routers = [
        make(app_state)
        for make in (decision_routes, log_routes, stream_routes, inference_routes, model_routes, service_routes)
    ]
    for router in (*routers, page_routes()):
        app.include_router(router)
    _document(app, streams, needs_keys=settings.needs_keys)
    app.middleware_stack = Guard(  # in front of the framework's own middleware
        app.build_middleware_stack(),
        hosts=HostCheck(settings.host_names),
        authentication=Authentication(keys, required=settings.needs_keys, cache_seconds=settings.key_cache_seconds),
        metrics=metrics,
        bodies=bodies,
        uploads=uploads,
        in_progress=in_progress,
        fast_path=FastPath(routers, BUSIEST),
        tracing=tracing,
    )
    return app


def _document(app: FastAPI, streams: StreamHub, *, needs_keys: bool) -> None:
    """Describe the API with the columns and classes of the current model."""
    cached: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if cached.get("model") is not streams.model:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            parts = found.setdefault("components", {})
            parts.setdefault("schemas", {}).update(request_schemas(streams.model))
            about_keys = "obil keys add makes one: obil_<id>_<secret>"
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": about_keys}}
            found["security"] = [{"key": []}] if needs_keys else [{}, {"key": []}]
            cached.update(model=streams.model, document=found)
        document: dict[str, Any] = cached["document"]
        return document

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI documents it


def service_routes(app_state: AppState) -> APIRouter:
    """Return the routes about the service itself."""
    router = APIRouter(default_response_class=Response)
    reader = StreamsReader(app_state.streams, app_state.metrics)

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
            now = await reader.read()
        except RefusedError:  # the counters matter most when the store is unavailable
            now = None
        return Response(app_state.metrics.text(now), media_type=CONTENT_TYPE_LATEST)

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
