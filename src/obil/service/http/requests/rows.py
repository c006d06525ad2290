"""Read the rows of a request: one or many, by column name or as bare arrays, in JSON or CSV."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from obil.errors import InvalidInputError
from obil.online.decision_ids import Id, as_ids, shown
from obil.service.http.requests.row_reader import RowReader, plain_cells
from obil.service.http.requests.strict_json import read_json
from obil.service.refusals import BadInputError, NotUnderstoodError, TooLargeError
from obil.service.streams.operations import Rows

if TYPE_CHECKING:
    import pandas as pd


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
            f"the body must hold rows and ids, or row and id, and nothing else, got {sorted(request)!r:.120}",
            where=name[:128],
        )
    rows = [request[one]] if one == "row" else request[one]
    if type(rows) is not list or not rows:
        raise BadInputError(f"rows must be an array of at least one row, got {shown(rows)}", where="rows")
    _require_few(len(rows), max_rows)
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
            raise BadInputError(f"ids must be an array with one id a row, got {shown(given)}", where="ids")
        ids = checked_ids(given, where=many)
        if len(ids) != len(rows):
            raise BadInputError(f"ids must name every row ({len(rows)}), got {len(ids)}", where="ids")
    return Rows(table, len(rows), ids, rows if keep_inputs else None, reader.model)


def rows_of_csv(
    body: bytes, reader: RowReader, *, max_rows: int, id_column: str | None = None, keep_inputs: bool = False
) -> Rows:
    """Return the rows below a header line; `id_column` names the one that holds ids, which stay text."""
    if body[:2] == b"\x1f\x8b" or body[:4] == b"PAR1":  # what is packed would get past the limit on the body
        raise NotUnderstoodError("CSV must be plain text, got packed bytes")
    if b"\0" in body:
        raise NotUnderstoodError(f"CSV must be text, got a zero byte at {body.index(0)}")
    if body.count(b"\n") + body.count(b"\r") > 2 * max_rows + 2:
        _require_few(max(body.count(b"\n"), body.count(b"\r")) - 1, max_rows)
    frame = _read_csv(body, reader.words, id_column)
    _require_few(len(frame), max_rows)
    ids = None
    if id_column is not None:
        if frame[id_column].isna().any():
            raise BadInputError("every row must have an id, got one without", where=id_column[:128])
        ids = checked_ids(frame.pop(id_column).tolist(), where=id_column[:128])
        if frame.columns.empty:
            raise BadInputError("a row must have a feature besides its id, got none", where=id_column[:128])
    table = reader.of_frame(frame)
    if not keep_inputs:
        return Rows(table, len(frame), ids, read_for=reader.model)
    cells = zip(*(plain_cells(frame[name]) for name in frame.columns), strict=True)
    inputs = [dict(zip(frame.columns, row, strict=True)) for row in cells]
    return Rows(table, len(frame), ids, inputs, reader.model)


def _read_csv(body: bytes, words: Sequence[str], id_column: str | None) -> "pd.DataFrame":
    """Return a table whose words and ids are kept letter for letter."""
    from obil.datasets.tables import read_table  # noqa: PLC0415  # only a service that is sent CSV pays for it

    text = [*words, *([] if id_column is None else [id_column])]
    try:
        body.decode()
        return read_table(io.BytesIO(body), text=text)
    except UnicodeDecodeError as error:
        raise NotUnderstoodError(f"CSV must be UTF-8, got another byte at {error.start}") from None
    except InvalidInputError as error:
        reason = str(error)
    try:
        names = read_table(io.BytesIO(body)).columns
    except InvalidInputError:
        raise NotUnderstoodError(reason) from None
    for name in text:  # it is a table, and lacks a column that it must have
        if name not in names:
            where = "id_column" if name == id_column and name not in words else name[:128]
            raise BadInputError(f"the column {name!r:.80} is missing in the header", where=where)
    raise NotUnderstoodError(reason)


def checked_ids(ids: list[Any], *, where: str) -> Sequence[Id]:
    """Return ids as they came, or refuse them."""
    try:
        names = as_ids(ids)
    except InvalidInputError as error:
        raise BadInputError(str(error), where=where) from None
    if any("\0" in name for name in names if type(name) is str):  # which a database does not keep
        raise BadInputError("an id must hold no zero character, got one", where=where)
    return names


def _require_few(n_rows: int, max_rows: int) -> None:
    if n_rows > max_rows:
        raise TooLargeError(f"a request may bring {max_rows:,} rows, got {n_rows:,}", where="rows")
