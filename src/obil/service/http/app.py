"""Put the service together: routes, guard, errors in one shape, and a document of it all."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from obil import __version__
from obil.errors import InvalidInputError
from obil.service.http.app_state import HttpEdge
from obil.service.http.authentication import Authentication
from obil.service.http.error_answers import install_error_answers
from obil.service.http.guard import Guard
from obil.service.http.host_check import HostCheck
from obil.service.http.metrics import ServiceMetrics
from obil.service.http.page_files import page_routes
from obil.service.http.requests.documents import request_schemas
from obil.service.http.routes.decisions import decision_routes
from obil.service.http.routes.events import event_routes
from obil.service.http.routes.fast_path import StraightRoutes
from obil.service.http.routes.health import health_routes
from obil.service.http.routes.labels import label_routes
from obil.service.http.routes.model import model_routes
from obil.service.http.routes.streams import stream_routes
from obil.service.service_settings import ServiceSettings
from obil.service.storage.api_keys import KeyStore
from obil.service.streams.operations import Streams

BUSIEST = ("/v1/streams/{stream}/decisions", "/v1/streams/{stream}/labels")
_ABOUT = (
    "Decisions that stay right when the class balance changes. Every stream follows its own prior; "
    "posting rows decides them and lets them vote."
)


def create_app(streams: Streams, settings: ServiceSettings | None = None, keys: KeyStore | None = None) -> FastAPI:
    """Return the service as an ASGI application.

    Parameters
    ----------
    streams
        What decides and keeps.
    settings
        Those of the environment if None.
    keys
        Where API keys are looked up; needed where the settings require them.
    """
    settings = ServiceSettings() if settings is None else settings
    if settings.needs_keys and keys is None:
        raise InvalidInputError(f"a service bound to {settings.host!r} needs API keys, got no store of them")
    metrics = ServiceMetrics(max_streams=settings.metric_streams)
    edge = HttpEdge(streams, settings, metrics)
    app = FastAPI(
        title="obil",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # it would load its page from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.edge = edge  # the server tells it to stop
    install_error_answers(app)
    makers = (decision_routes, label_routes, stream_routes, model_routes, event_routes, health_routes)
    routers = [make(edge) for make in makers]
    for router in routers:
        app.include_router(router)
    app.include_router(page_routes())
    _document(app, streams, needs_keys=settings.needs_keys)
    app.middleware_stack = Guard(  # before all that the framework puts in front of its routes
        app.build_middleware_stack(),
        hosts=HostCheck(settings.host_names),
        authentication=Authentication(keys, required=settings.needs_keys, cache_seconds=settings.key_cache_seconds),
        metrics=metrics,
        max_body_bytes=settings.max_body_bytes,
        straight=StraightRoutes(routers, BUSIEST),
    )
    return app


def _document(app: FastAPI, streams: Streams, *, needs_keys: bool) -> None:
    """Let the app describe itself in the columns of the model that serves at the time."""
    described: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if described.get("model") is not streams.model:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            parts = found.setdefault("components", {})
            parts.setdefault("schemas", {}).update(request_schemas(streams.model))
            parts["securitySchemes"] = {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "obil keys add makes one: obil_<id>_<secret>",
                }
            }
            found["security"] = [{"key": []}] if needs_keys else [{}, {"key": []}]
            described.update(model=streams.model, document=found)
        document: dict[str, Any] = described["document"]
        return document

    app.openapi = document  # type: ignore[method-assign]  # the way FastAPI documents for an own one
