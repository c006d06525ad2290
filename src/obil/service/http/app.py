"""Put the HTTP application together: routes, guard, errors in one shape, and the OpenAPI document."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from obil import __version__
from obil.errors import InvalidInputError
from obil.service.http.access import Authentication, HostCheck
from obil.service.http.app_state import AppState
from obil.service.http.decision_routes import decision_routes
from obil.service.http.guard import FastPath, Guard
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.openapi import request_schemas
from obil.service.http.responses import install_error_responses
from obil.service.http.service_routes import page_routes, service_routes
from obil.service.http.stream_routes import stream_routes
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import Store
from obil.service.streams.stream_hub import StreamHub

BUSIEST = ("/v1/streams/{stream}/decisions", "/v1/streams/{stream}/labels")
_ABOUT = (
    "Decisions that stay right when the class prior changes (label shift). Each stream tracks its own prior; "
    "posting rows decides them and updates the prior."
)


def create_app(streams: StreamHub, settings: ServiceSettings | None = None, keys: Store | None = None) -> FastAPI:
    """Return the HTTP application over some streams; settings are read from the environment if None.

    `keys` is where API keys are looked up; it is needed if the settings require keys.
    """
    settings = ServiceSettings() if settings is None else settings
    if settings.needs_keys and keys is None:
        raise InvalidInputError(f"a service bound to {settings.host!r} needs API keys, got keys=None")
    metrics = ServiceMetrics(max_streams=settings.metric_streams)
    app_state = AppState(streams, settings, metrics)
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
    routers = [make(app_state) for make in (decision_routes, stream_routes, service_routes)]
    for router in (*routers, page_routes()):
        app.include_router(router)
    _document(app, streams, needs_keys=settings.needs_keys)
    app.middleware_stack = Guard(  # in front of the framework's own middleware
        app.build_middleware_stack(),
        hosts=HostCheck(settings.host_names),
        authentication=Authentication(keys, required=settings.needs_keys, cache_seconds=settings.key_cache_seconds),
        metrics=metrics,
        max_body_bytes=settings.max_body_bytes,
        fast_path=FastPath(routers, BUSIEST),
    )
    return app


def _document(app: FastAPI, streams: StreamHub, *, needs_keys: bool) -> None:
    """Describe the API with the columns and classes of the current model."""
    described: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if described.get("model") is not streams.model:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            parts = found.setdefault("components", {})
            parts.setdefault("schemas", {}).update(request_schemas(streams.model))
            about_keys = "obil keys add makes one: obil_<id>_<secret>"
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": about_keys}}
            found["security"] = [{"key": []}] if needs_keys else [{}, {"key": []}]
            described.update(model=streams.model, document=found)
        document: dict[str, Any] = described["document"]
        return document

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI documents it
