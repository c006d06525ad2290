"""Describe the request bodies that the routes read themselves, with examples, for the OpenAPI document."""

from typing import Any

from obil.service.streams.operations import NAME_PATTERN
from obil.serving.ratio_model import RatioModel

_ID = {"anyOf": [{"type": "string", "maxLength": 1000, "pattern": "^[^\\u0000]*$"}, {"type": "integer"}]}
_POLICY = {
    "anyOf": [
        {"type": "string", "enum": ["cost", "f1", "fbeta:2", "gmean", "recall:0.9", "precision:0.8", "budget:0.01"]},
        {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    ]
}
_COSTS = {
    "type": "object",
    "required": ["false_positive", "false_negative"],
    "properties": {
        name: {"type": "number"} for name in ("false_positive", "false_negative", "true_positive", "true_negative")
    },
    "additionalProperties": False,
}

STREAM_PARAMETER = {
    "name": "stream",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": NAME_PATTERN},
    "example": "shop-7",
}
KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A retry with the same key and body gets the same response, and counts once.",
    "schema": {"type": "string", "pattern": "^[!-~]([ -~]{0,198}[!-~])?$"},
}
ID_COLUMN_PARAMETER = {
    "name": "id_column",
    "in": "query",
    "required": False,
    "description": "The column of a CSV body that holds the ids.",
    "schema": {"type": "string"},
}
DECISIONS_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/DecisionsRequest"}},
        "text/csv": {"schema": {"$ref": "#/components/schemas/CsvRows"}},
    },
}


def json_request(name: str, *, required: bool = True) -> dict[str, Any]:
    """Return the description of a body by the name of its schema."""
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def request_schemas(model: RatioModel) -> dict[str, Any]:
    """Return the schemas of the requests, with the columns and classes of a model."""
    row, example = _row(model)
    classes = model.classes_.tolist()
    label = {"enum": classes}
    one_label = {
        "type": "object",
        "required": ["id", "label"],
        "properties": {
            "id": _ID,
            "label": label,
            "propensity": {"type": "number", "minimum": 1e-9, "maximum": 1, "default": 1},
        },
        "additionalProperties": False,
    }
    rows = {"type": "array", "minItems": 1, "items": row}
    many = {"type": "object", "required": ["rows"], "additionalProperties": False}
    single = {"type": "object", "required": ["row"], "additionalProperties": False}
    settings = {
        "policy": _POLICY,
        "costs": _COSTS,
        "tracker": {"type": "string", "enum": ["safe", "bank"]},
        "prior": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "positive": label,
        "horizon": {"type": "integer", "minimum": 0, "maximum": 10_000_000},
        "unlabeled_as": {"enum": [None, "negative", *classes]},
    }
    names = list(example) if isinstance(example, dict) else [f"x{i}" for i in range(len(example))]
    cells = list(example.values()) if isinstance(example, dict) else example
    return {
        "Row": row,
        "DecisionsRequest": {
            "anyOf": [
                single | {"properties": {"row": row, "id": _ID}},
                many | {"properties": {"rows": rows, "ids": {"type": "array", "items": _ID}}},
            ],
            "examples": [{"row": example, "id": "order 7"}, {"rows": [example, example], "ids": ["a", 7]}],
        },
        "CsvRows": {"type": "string", "examples": [f"{','.join(names)}\n{','.join(map(str, cells))}\n"]},
        "LabelsRequest": {
            "anyOf": [
                one_label,
                {
                    "type": "object",
                    "required": ["labels"],
                    "properties": {"labels": {"type": "array", "minItems": 1, "items": one_label}},
                    "additionalProperties": False,
                },
            ],
            "examples": [{"labels": [{"id": "order 7", "label": classes[-1], "propensity": 0.1}]}],
        },
        "StreamRequest": {
            "type": "object",
            "properties": settings,
            "additionalProperties": False,
            "examples": [{"costs": {"false_positive": 1, "false_negative": 20}, "prior": 0.01}],
        },
        "SettingsRequest": {
            "anyOf": [
                {"type": "object", "required": [name], "properties": {name: shape}, "additionalProperties": False}
                for name, shape in (("costs", _COSTS), ("policy", _POLICY))
            ],
            "examples": [{"policy": "f1"}, {"costs": {"false_positive": 1, "false_negative": 20}}],
        },
    }


def _row(model: RatioModel) -> tuple[dict[str, Any], Any]:
    """Return the schema of one row, and an example."""
    number: dict[str, Any] = {"type": ["number", "null"]}
    if model.encoder is not None:
        properties = {
            column.name: number
            if column.levels is None
            else {"type": ["string", "null"], "examples": column.levels[:3]}
            for column in model.encoder.columns
        }
        example = {c.name: 1.5 if c.levels is None else next(iter(c.levels), "") for c in model.encoder.columns}
    elif model.feature_names is not None:
        properties = {name: {"type": ["number", "string", "boolean", "null"]} for name in model.feature_names}
        example = dict.fromkeys(model.feature_names, 1.5)
    else:
        width = model.scorer.n_features
        limits = {"minItems": 1} if width is None else {"minItems": width, "maxItems": width}
        return {"type": "array", "items": number, **limits}, [1.5] * (width or 1)
    names = list(properties)
    by_name = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    in_order = {
        "type": "array",
        "minItems": len(names),
        "maxItems": len(names),
        "prefixItems": list(properties.values()),
    }
    return {"anyOf": [by_name, in_order]}, example
