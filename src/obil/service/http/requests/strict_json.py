"""Read JSON strictly: no duplicate keys, no NaN, no deep nesting."""

import json
from collections import Counter
from typing import Any, NoReturn

from pydantic_core import from_json

from obil.service.refusals import BadInputError, NotUnderstoodError

LARGE_BODY = 4_000  # bytes
MAX_DEPTH = 16  # objects and arrays inside one another


def read_json(body: bytes) -> Any:
    """Return the value of a body, or refuse it.

    >>> read_json(b'{"rows": [[1.5, null]]}')
    {'rows': [[1.5, None]]}
    """
    if not body:
        raise NotUnderstoodError("the body must be JSON, got an empty one")
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
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and type(value) in (dict, list):
        _require_shallow(value)
    if b"\\ud" in body or b"\\uD" in body:
        _require_unicode(value)
    return value


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
        inside = (outer.values() if type(outer) is dict else outer for outer in level)
        level = [inner for values in inside for inner in values if type(inner) is dict or type(inner) is list]
        if not level:
            return
    raise NotUnderstoodError(f"JSON must be nested at most {MAX_DEPTH} deep, got more")


def _require_unicode(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise NotUnderstoodError("strings must be valid Unicode, got an unpaired surrogate") from None
