"""Write what happened to a stream as bytes, and read it back exactly."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidStateError
from obil.online.decision_ids import Id

CREATED, DECIDED, LABELLED, SETTINGS, MODEL, RESTARTED, FORGOTTEN = (
    "created", "decided", "labelled", "settings", "model", "restarted", "forgotten",
)  # fmt: skip
_HEADER = struct.Struct("<IHHBI")  # rows, classes, views, flags, bytes of the ids
_HAS_ANSWER, _HAS_THRESHOLDS, _SAME_FLAGS = 1, 2, 4


class StoredEvent(NamedTuple):
    """One line of a stream's log."""

    seq: int
    at: float  # seconds since 1970
    kind: str
    sender: str
    retry_key: str | None
    digest: bytes | None
    first_row: int
    n_rows: int
    payload: bytes


class DecidedRows(NamedTuple):
    """The rows of one request: what a replay needs, and what a retry is answered with."""

    ids: Sequence[Id] | None
    log_ratios: FloatArray  # (n, K)
    views: FloatArray | None  # (n, V, K), of single precision
    numbers: npt.NDArray[np.int64]  # (n,) the classes decided
    flags: npt.NDArray[np.uint8]  # (n,) 1: trusted, 2: reachable
    answer: "Answer | None" = None  # where the request may be retried


class Answer(NamedTuple):
    """What of an answer does not follow from the rows alone."""

    model: str  # the version
    priors: FloatArray  # (n, K)
    thresholds: FloatArray | None  # (n,)


def write_rows(rows: DecidedRows, *, inputs: Sequence[Any] | None = None) -> bytes:
    """Return decided rows as bytes; `inputs`, as they were sent, are kept where given."""
    n, n_classes = rows.log_ratios.shape
    n_views = 0 if rows.views is None else rows.views.shape[1]
    named: dict[str, Any] = {} if rows.ids is None else {"ids": list(rows.ids)}
    if inputs is not None:
        named["inputs"] = list(inputs)
    if rows.answer is not None:
        named["model"] = rows.answer.model
    text = json.dumps(named, separators=(",", ":")).encode() if named else b""
    same = n > 0 and bool((rows.flags == rows.flags[0]).all())
    flags = _SAME_FLAGS if same else 0
    marks = rows.flags[:1] if same else rows.flags
    parts = [
        rows.log_ratios[:, 1:].tobytes(), rows.numbers.astype(_kind_of_numbers(n_classes)).tobytes(), marks.tobytes(),
    ]  # fmt: skip
    if rows.views is not None:
        parts.append(rows.views[:, :, 1:].astype("<f4").tobytes())
    if rows.answer is not None:
        _, priors, thresholds = rows.answer
        flags |= _HAS_ANSWER | (_HAS_THRESHOLDS if thresholds is not None else 0)
        parts += [priors.tobytes(), b"" if thresholds is None else thresholds.tobytes()]
    return b"".join([_HEADER.pack(n, n_classes, n_views, flags, len(text)), text, *parts])


def read_rows(payload: bytes) -> DecidedRows:
    """Return the rows that were written, bit for bit."""
    try:
        n, n_classes, n_views, flags, n_text = _HEADER.unpack_from(payload)
        place = _HEADER.size + n_text
        named = json.loads(payload[_HEADER.size : place]) if n_text else {}

        def take(dtype: str, *shape: int) -> npt.NDArray[Any]:
            nonlocal place
            size = int(np.prod(shape))
            values = np.frombuffer(payload, dtype=dtype, count=size, offset=place).reshape(shape)
            place += values.nbytes
            return values

        log_ratios = np.zeros((n, n_classes))
        log_ratios[:, 1:] = take("<f8", n, n_classes - 1)
        numbers = take(_kind_of_numbers(n_classes), n).astype(np.int64)
        marks = np.repeat(take("u1", 1), n) if flags & _SAME_FLAGS else take("u1", n)
        views = None
        if n_views:
            views = np.zeros((n, n_views, n_classes))
            views[:, :, 1:] = take("<f4", n, n_views, n_classes - 1)
        answer = None
        if flags & _HAS_ANSWER:
            priors = take("<f8", n, n_classes)
            answer = Answer(named["model"], priors, take("<f8", n) if flags & _HAS_THRESHOLDS else None)
    except (struct.error, ValueError, KeyError) as error:
        raise InvalidStateError(f"an event of the log is damaged: {error}") from None
    return DecidedRows(named.get("ids"), log_ratios, views, numbers, marks, answer)


def _kind_of_numbers(n_classes: int) -> str:
    return "u1" if n_classes <= 256 else "<u2"


def inputs_of(payload: bytes) -> list[Any] | None:
    """Return the rows as they were sent, where they were kept."""
    n_text = _HEADER.unpack_from(payload)[4]
    named = json.loads(payload[_HEADER.size : _HEADER.size + n_text]) if n_text else {}
    found: list[Any] | None = named.get("inputs")
    return found


def write_record(record: Mapping[str, Any]) -> bytes:
    """Return anything else that happened as bytes."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def read_record(payload: bytes) -> dict[str, Any]:
    """Return what was written."""
    record: dict[str, Any] = json.loads(payload)
    return record
