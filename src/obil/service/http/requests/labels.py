"""Read late labels: one or many, in the model's own classes."""

from typing import Any

from obil.errors import InvalidInputError
from obil.online.decision_ids import shown
from obil.online.labels.label_values import as_propensity
from obil.service.http.requests.rows import checked_ids
from obil.service.http.requests.strict_json import read_json
from obil.service.refusals import BadInputError, TooLargeError
from obil.service.streams.operations import Label
from obil.serving.ratio_model import RatioModel

_FIELDS = {"id", "label", "propensity"}


def labels_of_json(body: bytes, model: RatioModel, *, max_rows: int) -> list[Label]:
    """Return the labels of `{"labels": [{"id", "label", "propensity"}, ...]}`, or of one such object."""
    request = read_json(body)
    if type(request) is not dict:
        raise BadInputError(f"the body must be an object with labels, got {shown(request)}")
    many = "labels" in request
    if many and len(request) > 1:
        raise BadInputError(f"the body must hold labels and nothing else, got {sorted(request)!r:.120}")
    records = request["labels"] if many else [request]
    if type(records) is not list or not records:
        raise BadInputError(f"labels must be an array of at least one label, got {shown(records)}", where="labels")
    if len(records) > max_rows:
        raise TooLargeError(f"a request may bring {max_rows:,} labels, got {len(records):,}", where="labels")
    classes = model.classes_.tolist()
    return [_label(record, classes) for record in records]


def as_class(value: Any, classes: list[Any], *, where: str) -> Any:
    """Return the class that a JSON value is; true is not 1.

    >>> as_class(1.0, [0, 1], where="label")
    1
    """
    if isinstance(value, str | int | float):
        for known in classes:
            if value == known and isinstance(value, bool) == isinstance(known, bool):
                return known
    raise BadInputError(f"{where} must be one of the classes {classes!r:.200}, got {shown(value)}", where=where)


def _label(record: Any, classes: list[Any]) -> Label:
    if type(record) is not dict or not {"id", "label"} <= record.keys() <= _FIELDS:
        got = shown(sorted(record) if type(record) is dict else record, 120)
        raise BadInputError(f"a label must have id and label, may have propensity, nothing else, got {got}")
    name = checked_ids([record["id"]], where="id")[0]
    label = as_class(record["label"], classes, where="label")
    try:
        return Label(name, label, as_propensity(record.get("propensity", 1.0)))
    except InvalidInputError as error:
        raise BadInputError(str(error), where="propensity") from None
