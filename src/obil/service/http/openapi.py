"""Describe the request bodies that the routes read themselves, and refusals, for the OpenAPI document."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator

from obil.service.http.note_request import LONGEST_NOTE
from obil.service.http.problems import CONTENT_TYPE, Problem
from obil.service.streams.operations import NAME_PATTERN, as_stream_name
from obil.serving.ratio_model import RatioModel

Stream = Annotated[
    str, AfterValidator(as_stream_name), Path(json_schema_extra={"pattern": NAME_PATTERN}, examples=["shop-7"])
]
KEY_PARAMETER = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "description": "A retry with the same key and body gets the same response, and counts once.",
    "schema": {"type": "string", "pattern": "^[!-~]([ -~]{0,198}[!-~])?$"},
}  # fmt: skip
ID_COLUMN_PARAMETER = {
    "name": "id_column", "in": "query", "required": False,
    "description": "The column of a CSV body that holds the ids.", "schema": {"type": "string"},
}  # fmt: skip
_ID = {"anyOf": [{"type": "string", "maxLength": 1000, "pattern": "^[^\\u0000]*$"}, {"type": "integer"}]}
_POLICY = {
    "anyOf": [
        {"type": "string", "enum": ["cost", "f1", "fbeta:2", "gmean", "recall:0.9", "precision:0.8", "budget:0.01"]},
        {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    ]
}
_PROBLEM = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_DESCRIPTIONS = {
    400: "The body is not the JSON or CSV that its Content-Type says.",
    401: "No API key, or one that is wrong, expired or revoked.",
    403: "The key lacks the scope, or Host or Origin is not this service's.",
    404: "There is no such stream, decision or model.",
    409: "It conflicts with what is stored.",
    408: "The head or the body did not arrive in time.",
    410: "The decision, or the request of this idempotency key, was stored and erased since.",
    413: "More bytes or rows than the service accepts.",
    415: "The service does not read this content type.",
    422: "A value breaks a rule; `where` names the column or field.",
    429: "The key has as many requests in progress as a key may have: wait for them.",
    503: "Nothing of this request was stored: try again.",
}


def described(model: Any, *refused: int, description: str = "Successful Response") -> dict[int | str, dict[str, Any]]:
    """Return what a route responds: a record, or refusals by status, besides those that every route may give."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": model, "description": description}}
    for status in sorted({400, 401, 403, 408, 413, 415, 422, 429, 503, *refused}):
        responses[status] = {"description": _DESCRIPTIONS[status], "content": _PROBLEM}
    return responses


def request_body(name: str, *, required: bool = True, csv: str | None = None) -> dict[str, Any]:
    """Return the description of a body by the name of its schema, and of its CSV form."""
    types = {"application/json": name} | ({} if csv is None else {"text/csv": csv})
    content = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}} for kind, schema in types.items()}
    return {"required": required, "content": content}


def request_schemas(model: RatioModel) -> dict[str, Any]:
    """Return the schemas of the requests, with the columns and classes of a model, and of refusals."""
    row, example = _row(model)
    classes = model.classes_.tolist()
    number, label = {"type": "number"}, {"enum": classes}
    costs = _object(
        dict.fromkeys(("false_positive", "false_negative", "true_positive", "true_negative"), number),
        ["false_positive", "false_negative"],
    )
    propensity = {"type": "number", "minimum": 1e-9, "maximum": 1, "default": 1}
    one_label = _object({"id": _ID, "label": label, "propensity": propensity}, ["id", "label"])
    settings = {
        "policy": _POLICY,
        "costs": costs,
        "tracker": {"type": "string", "enum": ["safe", "bank"]},
        "prior": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "positive": label,
        "horizon": {"type": "integer", "minimum": 0, "maximum": 10_000_000},
        "unlabeled_as": {"enum": [None, "negative", *classes]},
    }
    names = list(example) if isinstance(example, dict) else [f"x{i}" for i in range(len(example))]
    cells = list(example.values()) if isinstance(example, dict) else example
    example_costs = {"false_positive": 1, "false_negative": 20}
    return {
        "Problem": Problem.model_json_schema(),
        "Row": row,
        "DecisionsRequest": {
            "anyOf": [
                _object({"row": row, "id": _ID}, ["row"]),
                _object({"rows": _array(row), "ids": {"type": "array", "items": _ID}}, ["rows"]),
            ],
            "examples": [{"row": example, "id": "order 7"}, {"rows": [example, example], "ids": ["a", 7]}],
        },
        "CsvRows": {"type": "string", "examples": [f"{','.join(names)}\n{','.join(map(str, cells))}\n"]},
        "LabelsRequest": {
            "anyOf": [one_label, _object({"labels": _array(one_label)}, ["labels"])],
            "examples": [{"labels": [{"id": "order 7", "label": classes[-1], "propensity": 0.1}]}],
        },
        "StreamRequest": {**_object(settings), "examples": [{"costs": example_costs, "prior": 0.01}]},
        "SettingsRequest": {
            "anyOf": [_object({"costs": costs}, ["costs"]), _object({"policy": _POLICY}, ["policy"])],
            "examples": [{"policy": "f1"}, {"costs": example_costs}],
        },
        "NoteRequest": {
            **_object(
                {
                    "text": {"type": "string", "maxLength": LONGEST_NOTE, "default": ""},
                    "acknowledge": {"type": "boolean", "default": False},
                }
            ),
            "examples": [{"text": "The new till sends cents, not euros.", "acknowledge": True}],
        },
    }


def example_row(model: RatioModel) -> Any:
    """Return a row that a model takes, as JSON."""
    return _row(model)[1]


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    shape = {"type": "object", "properties": properties, "additionalProperties": False}
    return shape if required is None else shape | {"required": required}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


def _row(model: RatioModel) -> tuple[dict[str, Any], Any]:
    """Return the schema of one row, and an example."""
    number: dict[str, Any] = {"type": ["number", "null"]}
    if model.columns is not None:
        properties = {
            one.name: number if one.levels is None else {"type": ["string", "null"], "examples": one.levels[:3]}
            for one in model.columns
        }
        example = {one.name: 1.5 if one.levels is None else next(iter(one.levels), "") for one in model.columns}
    elif model.feature_names is not None:
        properties = {name: {"type": ["number", "string", "boolean", "null"]} for name in model.feature_names}
        example = dict.fromkeys(model.feature_names, 1.5)
    else:
        width = model.n_features
        limits = {"minItems": 1} if width is None else {"minItems": width, "maxItems": width}
        return {"type": "array", "items": number, **limits}, [1.5] * (width or 1)
    n = len(properties)
    in_order = {"type": "array", "minItems": n, "maxItems": n, "prefixItems": list(properties.values())}
    return {"anyOf": [_object(properties, list(properties)), in_order]}, example
