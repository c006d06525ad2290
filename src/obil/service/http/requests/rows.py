"""Read the rows and the labels of a request: one or many; rows by column name or as arrays, in JSON or CSV."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from obil.arrays import shown
from obil.errors import InvalidInputError
from obil.online.decision_ids import Id, as_ids, as_propensity
from obil.service.http.requests.row_reader import RowReader, plain_cells
from obil.service.http.requests.strict_json import read_json
from obil.service.refusals import BadInputError, NotUnderstoodError, TooLargeError
from obil.service.streams.operations import Label, Rows
from obil.serving.ratio_model import RatioModel

if TYPE_CHECKING:
    import pandas as pd

_LABEL_FIELDS = {"id", "label", "propensity"}


def rows_of_json(body: bytes, reader: RowReader, *, max_rows: int, keep_inputs: bool = False) -> Rows:
    """Return the rows of `{"row": ..., "id": ...}` or `{"rows": [...], "ids": [...]}`."""
    request = read_json(body)
    if type(request) is not dict:
        raise BadInputError(f"the body must be an object with row or rows, got {shown(request)}")
    one, many = ("row", "id") if "row" in request else ("rows", "ids")
    unknown = request.keys() - {one, many}
    if unknown or one not in request:
        name = min(unknown, default="rows")
        raise BadInputError(
            f"the body must have the fields rows and ids, or row and id, got {sorted(request)!r:.120}",
            where=name[:128],
        )
    rows = [request[one]] if one == "row" else request[one]
    if type(rows) is not list or not rows:
        raise BadInputError(f"rows must be an array of at least one row, got {shown(rows)}", where="rows")
    _require_at_most(len(rows), max_rows)
    kinds = set(map(type, rows))
    if kinds == {dict}:
        table = reader.of_objects(rows)
    elif kinds == {list}:
        table = reader.of_arrays(rows)
    else:
        raise BadInputError("rows must all be objects, or all be arrays", where=one)
    ids = None
    if request.get(many) is not None:
        given = [request[many]] if many == "id" else request[many]
        if type(given) is not list:
            raise BadInputError(f"ids must be an array with one id per row, got {shown(given)}", where="ids")
        ids = checked_ids(given, where=many)
        if len(ids) != len(rows):
            raise BadInputError(f"ids must name every row ({len(rows)}), got {len(ids)}", where="ids")
    return Rows(table, len(rows), ids, rows if keep_inputs else None, reader.model)


def rows_of_csv(
    body: bytes, reader: RowReader, *, max_rows: int, id_column: str | None = None, keep_inputs: bool = False
) -> Rows:
    """Return the rows of a CSV table with a header; `id_column` names the column of ids, which stay text."""
    if body[:2] == b"\x1f\x8b" or body[:4] == b"PAR1":  # compressed, it would get past the limit on the body
        raise NotUnderstoodError("CSV must be plain text, got compressed bytes")
    if b"\0" in body:
        raise NotUnderstoodError(f"CSV must be text, got a NUL byte at {body.index(0)}")
    if body.count(b"\n") + body.count(b"\r") > 2 * max_rows + 2:
        _require_at_most(max(body.count(b"\n"), body.count(b"\r")) - 1, max_rows)
    frame = _read_csv(body, reader.categorical_names, id_column)
    _require_at_most(len(frame), max_rows)
    ids = None
    if id_column is not None:
        if frame[id_column].isna().any():
            raise BadInputError(
                f"every row must have an id, got an empty cell in column {id_column!r:.80}", where=id_column[:128]
            )
        ids = checked_ids(frame.pop(id_column).tolist(), where=id_column[:128])
        if frame.columns.empty:
            raise BadInputError("a row must have at least one feature besides its id", where=id_column[:128])
    table = reader.of_frame(frame)
    if not keep_inputs:
        return Rows(table, len(frame), ids, read_for=reader.model)
    cells = zip(*(plain_cells(frame[name]) for name in frame.columns), strict=True)
    inputs = [dict(zip(frame.columns, row, strict=True)) for row in cells]
    return Rows(table, len(frame), ids, inputs, reader.model)


def _read_csv(body: bytes, categorical_names: Sequence[str], id_column: str | None) -> "pd.DataFrame":
    """Return a table whose categories and ids are kept as text."""
    from obil.datasets.tables import read_table  # noqa: PLC0415  # only a service that gets CSV pays for it

    text = [*categorical_names, *([] if id_column is None else [id_column])]
    try:
        body.decode()
        return read_table(io.BytesIO(body), text=text)
    except UnicodeDecodeError as error:
        raise NotUnderstoodError(f"CSV must be UTF-8, got an invalid byte at {error.start}") from None
    except InvalidInputError as error:
        reason = str(error)
    try:
        names = read_table(io.BytesIO(body)).columns
    except InvalidInputError:
        raise NotUnderstoodError(reason) from None
    for name in text:  # it is a table that lacks a required column
        if name not in names:
            where = "id_column" if name == id_column and name not in categorical_names else name[:128]
            raise BadInputError(f"column {name!r:.80} is missing in the header", where=where)
    raise NotUnderstoodError(reason)


def checked_ids(ids: list[Any], *, where: str) -> Sequence[Id]:
    """Return ids unchanged, or refuse them."""
    try:
        names = as_ids(ids)
    except InvalidInputError as error:
        raise BadInputError(str(error), where=where) from None
    if any("\0" in name for name in names if type(name) is str):  # PostgreSQL cannot store it
        raise BadInputError("an id must not contain a NUL character", where=where)
    return names


def _require_at_most(n_rows: int, max_rows: int) -> None:
    if n_rows > max_rows:
        raise TooLargeError(
            f"a request must have at most {max_rows:,} rows, got {n_rows:,}: send it in parts", where="rows"
        )


def labels_of_json(body: bytes, model: RatioModel, *, max_rows: int) -> list[Label]:
    """Return the labels of `{"labels": [{"id", "label", "propensity"}, ...]}`, or of one such object."""
    request = read_json(body)
    if type(request) is not dict:
        raise BadInputError(f"the body must be an object with labels, got {shown(request)}")
    many = "labels" in request
    if many and len(request) > 1:
        raise BadInputError(f"the body must have the one field labels, got {sorted(request)!r:.120}")
    records = request["labels"] if many else [request]
    if type(records) is not list or not records:
        raise BadInputError(f"labels must be an array of at least one label, got {shown(records)}", where="labels")
    if len(records) > max_rows:
        raise TooLargeError(
            f"a request must have at most {max_rows:,} labels, got {len(records):,}: send it in parts", where="labels"
        )
    classes = model.classes_.tolist()
    return [_label(record, classes) for record in records]


def as_class(value: Any, classes: list[Any], *, where: str) -> Any:
    """Return the class that a JSON value names; true is not 1.

    >>> as_class(1.0, [0, 1], where="label")
    1
    """
    if isinstance(value, str | int | float):
        for known in classes:
            if value == known and isinstance(value, bool) == isinstance(known, bool):
                return known
    raise BadInputError(f"{where} must be one of the classes {classes!r:.200}, got {shown(value)}", where=where)


def _label(record: Any, classes: list[Any]) -> Label:
    if type(record) is not dict or not {"id", "label"} <= record.keys() <= _LABEL_FIELDS:
        got = shown(sorted(record) if type(record) is dict else record, 120)
        raise BadInputError(f"a label must have the fields id and label, and may have propensity, got {got}")
    name = checked_ids([record["id"]], where="id")[0]
    label = as_class(record["label"], classes, where="label")
    try:
        return Label(name, label, as_propensity(record.get("propensity", 1.0)))
    except InvalidInputError as error:
        raise BadInputError(str(error), where="propensity") from None
