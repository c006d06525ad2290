"""Read request bodies strictly: the rows of JSON or CSV, and labels; no duplicate keys, no NaN, no deep nesting."""

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from fastapi import Request
from pydantic_core import from_json

from obil.arrays import shown
from obil.errors import InvalidInputError
from obil.service.http.access import ANONYMOUS
from obil.service.http.guard import CALLER
from obil.service.http.row_reader import RowReader, plain_cells
from obil.service.refusals import BadInputError, NotUnderstoodError, TooLargeError, UnsupportedTypeError
from obil.service.streams.operations import Label, Rows, Sender, checked_ids, checked_label
from obil.serving.ratio_model import RatioModel

if TYPE_CHECKING:
    import pandas as pd

LARGE_BODY = 4_000  # bytes
MAX_DEPTH = 16  # objects and arrays inside one another
MOST_SETTINGS = 64_000  # bytes of a body that is neither rows nor labels
MORE_CONTAINERS = 1_000  # objects and arrays of a body beside one for each row
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # one without an end goes to the end
_KEY = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_CONTAINERS = frozenset({dict, list})
_LABEL_FIELDS = {"id", "label", "propensity"}


def rows_of_json(body: bytes, reader: RowReader, *, max_rows: int, keep_inputs: bool = False) -> Rows:
    """Return the rows of `{"row": ..., "id": ...}` or `{"rows": [...], "ids": [...]}`."""
    request = read_json(body, max_containers=max_rows + MORE_CONTAINERS)
    if type(request) is not dict:
        raise BadInputError(f"the body must be an object with row or rows, got {shown(request)}")
    one, many = ("row", "id") if "row" in request else ("rows", "ids")
    unknown = request.keys() - {one, many}
    if unknown or one not in request:
        name = min(unknown, default="rows")
        raise BadInputError(
            f"the body must have the fields rows and ids, or row and id, got {sorted(request)!r:.120}", where=name[:128]
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


def _require_at_most(n: int, most: int, what: str = "rows") -> None:
    if n > most:
        raise TooLargeError(f"a request must have at most {most:,} {what}, got {n:,}: send it in parts", where=what)


def labels_of_json(body: bytes, model: RatioModel, *, max_rows: int) -> list[Label]:
    """Return the labels of `{"labels": [{"id", "label", "propensity"}, ...]}`, or of one such object."""
    request = read_json(body, max_containers=max_rows + MORE_CONTAINERS)
    if type(request) is not dict:
        raise BadInputError(f"the body must be an object with labels, got {shown(request)}")
    many = "labels" in request
    if many and len(request) > 1:
        raise BadInputError(f"the body must have the one field labels, got {sorted(request)!r:.120}")
    records = request["labels"] if many else [request]
    if type(records) is not list or not records:
        raise BadInputError(f"labels must be an array of at least one label, got {shown(records)}", where="labels")
    _require_at_most(len(records), max_rows, "labels")
    classes = model.classes_.tolist()
    return [_label(record, classes) for record in records]


def _label(record: Any, classes: list[Any]) -> Label:
    if type(record) is not dict or not {"id", "label"} <= record.keys() <= _LABEL_FIELDS:
        got = shown(sorted(record) if type(record) is dict else record, 120)
        raise BadInputError(f"a label must have the fields id and label, and may have propensity, got {got}")
    return checked_label(Label(record["id"], record["label"], record.get("propensity", 1.0)), classes)


def read_json(body: bytes, *, max_containers: int = MORE_CONTAINERS) -> Any:
    """Return the value of a body, or refuse it; more than `max_containers` objects and arrays are not even read.

    >>> read_json(b'{"rows": [[1.5, null]]}')
    {'rows': [[1.5, None]]}
    """
    if not body:
        raise NotUnderstoodError("the body must be JSON, got an empty one")
    n_opened = _n_opened(body)
    if n_opened > max_containers and _n_opened(_STRING.sub(b"", body)) > max_containers:
        raise TooLargeError(f"JSON must have at most {max_containers:,} objects and arrays, got more: send it in parts")
    try:
        value = _numbers_only(body) if len(body) > LARGE_BODY else None
        value = _DECODER.decode(body.decode()) if value is None else value
    except UnicodeDecodeError as error:
        raise NotUnderstoodError(f"JSON must be UTF-8, got an invalid byte at {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotUnderstoodError(f"the body must be JSON: {error.msg.lower()} at character {error.pos}") from None
    except RecursionError:
        raise NotUnderstoodError(f"JSON must be nested at most {MAX_DEPTH} deep, got more") from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise BadInputError("a number must have at most 4,300 digits, got more") from None
    # as many brackets as levels are needed, so a short body cannot be deep
    if n_opened > MAX_DEPTH and type(value) in (dict, list):
        _require_shallow(value)
    if b"\\" in body and (b"\\ud" in body or b"\\uD" in body):
        _require_unicode(value)
    return value


def _n_opened(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _numbers_only(body: bytes) -> dict[str, Any] | None:
    """Return a large body of one object without strings, in a seventh of the time; None for any other."""
    if body.count(b"{") != 1:
        return None
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None  # the other reader says what is wrong
    keys_once = type(value) is dict and body.count(b'"') == 2 * len(value)
    return value if keys_once else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        times = Counter(name for name, _ in pairs)  # not a search for each name: a body may hold a million
        twice = next(name for name in times if times[name] > 1)
        raise NotUnderstoodError(f"an object must have each key once, got {twice!r:.80} twice", where=twice[:128])
    return found


def _not_a_number(text: str) -> NoReturn:
    raise NotUnderstoodError(f"JSON has no {text}: send null for a missing value")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_not_a_number)


def _require_shallow(value: Any) -> None:
    level = [value]  # the objects and arrays that stand equally deep
    for _ in range(MAX_DEPTH):
        values = list(chain.from_iterable(outer.values() if type(outer) is dict else outer for outer in level))
        if _CONTAINERS.isdisjoint(map(type, values)):  # the usual case, without a step of Python for each value
            return
        level = [inner for inner in values if type(inner) in _CONTAINERS]
    raise NotUnderstoodError(f"JSON must be nested at most {MAX_DEPTH} deep, got more")


def _require_unicode(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise NotUnderstoodError("strings must be valid Unicode, got an unpaired surrogate") from None


def sender_of(request: Request, body: bytes = b"") -> Sender:
    """Return who sends a request, and its idempotency key."""
    keys = request.headers.getlist("idempotency-key")
    by = request.scope.get(CALLER, ANONYMOUS)
    if not keys:
        return Sender(by)
    if len(keys) > 1 or _KEY.fullmatch(keys[0]) is None:
        raise BadInputError(
            f"Idempotency-Key must be one header of 1 to 200 printable ASCII characters, got {keys!r:.80}",
            where="Idempotency-Key",
        )
    # the same bytes read as another type are another request
    context = f"{request.url.path}\n{request.url.query}\n{content_type(request)}\n".encode()
    return Sender(by, keys[0], hashlib.blake2b(context + body, digest_size=16).digest())


def content_type(request: Request) -> str:
    """Return the type of a request's body in lower case, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body(request: Request, *, max_bytes: int | None = MOST_SETTINGS) -> bytes:
    """Return the body of a request whose Content-Type is JSON; only rows and labels may be large."""
    if content_type(request) != "application/json":
        kind = content_type(request)
        raise UnsupportedTypeError(f"Content-Type must be application/json, got {kind!r:.80}", where="Content-Type")
    body = await request.body()
    if max_bytes is not None and len(body) > max_bytes:
        raise TooLargeError(f"this body must have at most {max_bytes:,} bytes, got {len(body):,}")
    return body
