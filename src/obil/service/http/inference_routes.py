"""Implement the Open Inference Protocol (V2, JSON): health, the model's tensors, and decisions as inference."""

from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response

from obil.arrays import shown
from obil.service.http.decision_routes import AppState
from obil.service.http.openapi import described
from obil.service.http.request_bodies import MORE_CONTAINERS, content_type, json_body, read_json, sender_of
from obil.service.http.responses import json_response
from obil.service.refusals import BadInputError, NotStoredError, UnknownModelError
from obil.service.streams.operations import Decided, Rows, as_stream_name, checked_ids
from obil.serving.ratio_model import RatioModel

MODEL = "obil"  # the one model of a service
_ANY = described(None, 404)
_ANY[200] = {"description": "Successful Response", "content": {"application/json": {"schema": {"type": "object"}}}}
_INFER = described(None, 400, 404, 415) | {200: _ANY[200]}
_BODY = {
    "type": "object",
    "required": ["inputs", "parameters"],
    "properties": {
        "id": {"type": "string"},
        "parameters": {
            "type": "object",
            "required": ["stream"],
            "properties": {"stream": {"type": "string"}, "id": {"type": ["string", "integer"]}},
        },
        "inputs": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name", "shape", "data"]}},
    },
}


class Inference(NamedTuple):
    """What a request asks for."""

    stream: str
    rows: Rows
    id: str | None  # of the request


def inference_routes(app_state: AppState) -> APIRouter:
    """Return the routes under /v2."""
    router = APIRouter(prefix="/v2", tags=["inference protocol"], default_response_class=Response)
    streams = app_state.streams

    def require(name: str) -> None:
        if name != MODEL:
            raise UnknownModelError(f"there is no model {name!r:.80}: this service has the one model {MODEL!r}")

    async def require_ready() -> None:
        if not await streams.ready():
            raise NotStoredError("the store cannot be written to: check its disk or its server")

    @router.get("/health/live", summary="Is the process alive?", responses=_ANY)
    async def live() -> Response:
        return json_response({"live": True})

    @router.get("/health/ready", summary="Can decisions be made and stored?", responses=_ANY)
    async def ready() -> Response:
        await require_ready()
        return json_response({"ready": True})

    @router.get("/models/{name}", summary="Show the model's tensors", responses=_ANY)
    async def metadata(name: str) -> Response:
        require(name)
        return json_response(metadata_of(streams.model, streams.model_card.version))

    @router.get("/models/{name}/ready", summary="Is the model ready?", responses=_ANY)
    async def model_ready(name: str) -> Response:
        require(name)
        await require_ready()
        return json_response({"name": name, "ready": True})

    @router.post(
        "/models/{name}/infer",
        summary="Decide rows of a stream, and update the prior with them",
        responses=_INFER,
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}}},
    )
    async def infer(request: Request, name: str) -> Response:
        require(name)
        if "inference-header-content-length" in request.headers:
            raise BadInputError(
                "tensors must be JSON, got binary data: send binary_data=False", where="Inference-Header-Content-Length"
            )
        # Triton's client sends no Content-Type
        body = await (json_body(request, max_bytes=None) if content_type(request) else request.body())
        asked = inference_of(body, app_state)
        decided = await streams.decide(asked.stream, asked.rows, sender_of(request))
        app_state.metrics.decided(decided)
        return json_response(answer_of(decided, asked.id))

    return router


def metadata_of(model: RatioModel, version: str) -> dict[str, Any]:
    """Return the tensors of a model: one for each column, or one for all features if they have no names."""
    if model.columns is not None:
        inputs = [_tensor(one.name, "FP64" if one.levels is None else "BYTES", -1) for one in model.columns]
    elif model.feature_names is not None:
        inputs = [_tensor(name, "FP64", -1) for name in model.feature_names]
    else:
        inputs = [_tensor("x", "FP64", -1, -1 if model.n_features is None else model.n_features)]
    n_classes = len(model.classes_)
    outputs = [_tensor("label", "BYTES", -1), _tensor("probability", "FP64", -1)]
    outputs += [_tensor(name, "FP64", -1, n_classes) for name in ("posterior", "effective_prior")]
    return {"name": MODEL, "versions": [version], "platform": "obil", "inputs": inputs, "outputs": outputs}


def inference_of(body: bytes, app_state: AppState) -> Inference:
    """Return the stream and the rows of a request; `parameters` name the stream and, of a single row, its id."""
    most = app_state.settings.max_rows
    request = read_json(body, max_containers=most + MORE_CONTAINERS)
    if type(request) is not dict or type(request.get("inputs")) is not list or not request["inputs"]:
        raise BadInputError("the body must be an object with inputs, an array of tensors", where="inputs")
    parameters = request.get("parameters", {})
    if type(parameters) is not dict or type(parameters.get("stream")) is not str:
        raise BadInputError("parameters must name the stream", where="parameters")
    stream = as_stream_name(parameters["stream"])
    tensors = [_values(one) for one in request["inputs"]]
    n_rows = len(tensors[0][1])
    if any(len(rows) != n_rows for _, rows in tensors) or not 1 <= n_rows <= most:
        raise BadInputError(f"all inputs must have the same number of rows, from 1 to {most:,}", where="inputs")
    if len({name for name, _ in tensors}) != len(tensors):
        raise BadInputError("each input must be there once", where="inputs")
    reader = app_state.reader
    wide = len(tensors) == 1 and (len(tensors[0][1][0]) != 1 or tensors[0][0] == "x")
    if wide:
        table = reader.of_arrays(tensors[0][1])
    elif any(len(row) != 1 for _, rows in tensors for row in rows):
        raise BadInputError("an input of one column must have the shape [rows] or [rows, 1]", where="inputs")
    else:
        table = reader.of_objects([{name: rows[i][0] for name, rows in tensors} for i in range(n_rows)])
    ids = None
    if parameters.get("id") is not None:
        if n_rows != 1:
            raise BadInputError(f"id names one row, got {n_rows}: send one row, or none and no id", where="id")
        ids = checked_ids([parameters["id"]], where="id")
    given = request.get("id")
    return Inference(stream, Rows(table, n_rows, ids, read_for=reader.model), given if type(given) is str else None)


def answer_of(decided: Decided, request_id: str | None) -> dict[str, Any]:
    """Return the tensors of decisions."""
    found = decided.decisions
    chosen = found.numbers if found.positive is None else found.positive
    n_rows = len(found)
    columns = {
        "probability": found.posteriors[np.arange(n_rows), chosen],
        "posterior": found.posteriors,
        "effective_prior": found.effective_priors,
    }
    outputs = [{"name": "label", "datatype": "BYTES", "shape": [n_rows], "data": [str(one) for one in found.labels]}]
    for name, values in columns.items():
        outputs.append({"name": name, "datatype": "FP64", "shape": list(values.shape), "data": values.ravel().tolist()})
    known = {} if request_id is None else {"id": request_id}
    parameters = {"stream": decided.stream, "repeated": decided.repeated}
    answer = {"model_name": MODEL, "model_version": decided.model, "parameters": parameters, "outputs": outputs}
    return known | answer


def _tensor(name: str, datatype: str, *shape: int) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape)}


def _values(tensor: Any) -> tuple[str, list[list[Any]]]:
    """Return the name of a tensor and its rows; data may be flat or nested."""
    if type(tensor) is not dict or type(tensor.get("name")) is not str:
        raise BadInputError(
            f"an input must be an object with name, shape and data, got {shown(tensor)}", where="inputs"
        )
    name, shape, data = tensor["name"], tensor.get("shape"), tensor.get("data")
    where = name[:128]
    if type(shape) is not list or not 1 <= len(shape) <= 2 or any(type(n) is not int or n < 1 for n in shape):
        raise BadInputError(f"shape must be [rows] or [rows, columns], got {shown(shape)}", where=where)
    if type(data) is not list:
        raise BadInputError(f"data must be an array, got {shown(data)}", where=where)
    flat = [cell for row in data for cell in row] if data and all(type(row) is list for row in data) else data
    width = shape[1] if len(shape) == 2 else 1
    if len(flat) != shape[0] * width:
        raise BadInputError(f"data must have as many values as the shape {shape}, got {len(flat):,}", where=where)
    return name, [flat[first : first + width] for first in range(0, len(flat), width)]
