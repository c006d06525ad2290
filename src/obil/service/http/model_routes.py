"""Show, upload, activate, compare and delete versions of the model."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from obil.service.http.decision_routes import AppState
from obil.service.http.openapi import Stream, described
from obil.service.http.request_bodies import content_type, sender_of
from obil.service.http.responses import json_response
from obil.service.records import ModelCard, ModelVersions, ShadowComparison
from obil.service.refusals import UnsupportedTypeError, UploadsOffError

TAR = "application/x-tar"
Version = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="The version: a hash of the model's files.")]
Fraction = Annotated[float, Query(gt=0.0, le=1.0, description="Of rows.")]
_ARCHIVE = {
    "required": True,
    "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
    "description": "A model folder that `obil.save` wrote, as an uncompressed tar archive: `tar -cf - -C model .`",
}


def _card(*refused: int) -> dict[int | str, dict[str, Any]]:
    about = "The model card: version, classes, columns, the deployment gate's verdict, reliability diagram."
    return described(ModelCard, *refused, description=about)


_UPLOADED = _card(409)
_UPLOADED[201] = _UPLOADED.pop(200) | {"description": "The model is stored and can be activated."}
_DELETED = {status: one for status, one in described(None, 404, 409).items() if status != 200}


def model_routes(app_state: AppState) -> APIRouter:
    """Return the routes of models."""
    router = APIRouter(tags=["model"], default_response_class=Response)
    streams = app_state.streams

    @router.get("/v1/model", summary="Show the active model", responses=_card())
    async def active() -> Response:
        return json_response(streams.model_card)

    @router.post("/v1/model/reload", summary="Read the model folder again, and activate it", responses=_card(409))
    async def reload(request: Request) -> Response:
        return json_response(await streams.reload_model(sender_of(request)))

    @router.post("/v1/model/rollback", summary="Activate the version before", responses=_card(404, 409))
    async def roll_back(request: Request) -> Response:
        return json_response(await streams.models.roll_back(sender_of(request)))

    @router.get("/v1/models", summary="List the versions of the model", responses=described(ModelVersions))
    async def page() -> Response:
        return json_response(await streams.models.page())

    @router.post(
        "/v1/models",
        summary="Upload a model, without activating it",
        status_code=201,
        responses=_UPLOADED,
        openapi_extra={"requestBody": _ARCHIVE},
    )
    async def upload(request: Request) -> Response:
        if not app_state.settings.upload_bytes:
            raise UploadsOffError("models cannot be uploaded to this service: its operator sets upload_bytes")
        if content_type(request) != TAR:
            raise UnsupportedTypeError(
                f"Content-Type must be {TAR}, got {content_type(request)!r:.80}", where="Content-Type"
            )
        return json_response(await streams.models.upload(await request.body(), sender_of(request)), 201)

    @router.get("/v1/models/{version}", summary="Show one version", responses=_card(404))
    async def card(version: Version) -> Response:
        return json_response(await streams.models.card(version))

    @router.post("/v1/models/{version}/activate", summary="Activate a version", responses=_card(404, 409))
    async def activate(request: Request, version: Version) -> Response:
        return json_response(await streams.models.activate(version, sender_of(request)))

    @router.post(
        "/v1/models/{version}/shadow",
        summary="Compare a version with the active one, on a sample of rows",
        responses=described(ModelVersions, 404, 409),
    )
    async def start_shadow(request: Request, version: Version, fraction: Fraction = 0.1) -> Response:
        return json_response(await streams.models.start_shadow(version, fraction, sender_of(request)))

    @router.delete("/v1/model/shadow", summary="Compare no version", responses=described(ModelVersions))
    async def stop_shadow() -> Response:
        return json_response(await streams.models.stop_shadow())

    @router.get(
        "/v1/streams/{stream}/shadow",
        summary="Show how the shadow model compares with the active one",
        responses=described(ShadowComparison, 404),
    )
    async def compare(stream: Stream) -> Response:
        return json_response(await streams.shadow(stream))

    @router.delete(
        "/v1/models/{version}",
        summary="Delete an uploaded version that was never active",
        status_code=204,
        responses=_DELETED,
    )
    async def remove(version: Version) -> Response:
        await streams.models.remove(version)
        return Response(status_code=204)

    return router
