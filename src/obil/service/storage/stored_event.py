"""Encode the events of a stream as bytes, and decode them exactly."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidStateError
from obil.online.decision_ids import Id

CREATED, DECIDED, LABELLED, SETTINGS, MODEL, RESTARTED, FORGOTTEN, NOTED = (
    "created", "decided", "labelled", "settings", "model", "restarted", "forgotten", "noted",
)  # fmt: skip
_HEADER = struct.Struct("<IHHBI")  # rows, classes, 1 + views or 0, flags, bytes of the ids
_HAS_THRESHOLDS = 1
_SAME_FLAGS, _SAME_PRIORS, _SAME_THRESHOLDS = 2, 4, 8  # all rows have them, and they are stored once


class StoredEvent(NamedTuple):
    """One event of a stream's log."""

    seq: int
    at: float  # seconds since 1970
    kind: str
    sender: str
    retry_key: bytes | None  # the keyed digest of an idempotency key
    digest: bytes | None  # of the body, keyed; None once the event was erased in part
    first_row: int
    n_rows: int
    payload: bytes


class DecidedRows(NamedTuple):
    """The rows of one event: what a replay needs, and what they were decided with, for a retry and for who asks why."""

    ids: Sequence[Id] | None
    log_ratios: FloatArray  # (n, K)
    evidence: FloatArray | None  # (n, 1 + V + D, K); None where it is the log ratios
    numbers: npt.NDArray[np.int64]  # (n,) of the classes decided
    flags: npt.NDArray[np.uint8]  # (n,) 1: trusted, 2: reachable
    model: str  # the version
    priors: FloatArray  # (n, K) the effective ones; NaN where a row was erased
    thresholds: FloatArray | None  # (n,)


def write_rows(rows: DecidedRows, *, inputs: Sequence[Any] | None = None) -> bytes:
    """Return decided rows as bytes; `inputs`, the rows as sent, are included if given."""
    n, n_classes = rows.log_ratios.shape
    n_sources = 0 if rows.evidence is None else rows.evidence.shape[1]
    header: dict[str, Any] = {"model": rows.model}
    if rows.ids is not None:
        header["ids"] = list(rows.ids)
    if inputs is not None:
        header["inputs"] = list(inputs)
    text = json.dumps(header, separators=(",", ":")).encode()
    marks, flags = _once(rows.flags, _SAME_FLAGS)
    priors, same_priors = _once(rows.priors, _SAME_PRIORS)
    flags |= same_priors
    parts = [
        rows.log_ratios[:, 1:].tobytes(), rows.numbers.astype(_number_type(n_classes)).tobytes(), marks.tobytes(),
    ]  # fmt: skip
    if rows.evidence is not None:
        parts.append(rows.evidence[:, :, 1:].tobytes())
    parts.append(priors.tobytes())
    if rows.thresholds is not None:
        thresholds, same_thresholds = _once(rows.thresholds, _SAME_THRESHOLDS)
        flags |= _HAS_THRESHOLDS | same_thresholds
        parts.append(thresholds.tobytes())
    return b"".join([_HEADER.pack(n, n_classes, n_sources, flags, len(text)), text, *parts])


def read_rows(payload: bytes) -> DecidedRows:
    """Return the rows that were written, bit for bit."""
    try:
        n, n_classes, n_sources, flags, n_text = _HEADER.unpack_from(payload)
        offset = _HEADER.size + n_text
        header = json.loads(payload[_HEADER.size : offset])

        def take(dtype: str, *shape: int, same: int = 0) -> npt.NDArray[Any]:
            nonlocal offset
            if flags & same:
                return np.repeat(take(dtype, 1, *shape[1:]), n, axis=0)
            size = int(np.prod(shape))
            values = np.frombuffer(payload, dtype=dtype, count=size, offset=offset).reshape(shape)
            offset += values.nbytes
            return values

        log_ratios = np.zeros((n, n_classes))
        log_ratios[:, 1:] = take("<f8", n, n_classes - 1)
        numbers = take(_number_type(n_classes), n).astype(np.int64)
        marks = take("u1", n, same=_SAME_FLAGS)
        evidence = None
        if n_sources:
            evidence = np.zeros((n, n_sources, n_classes))
            evidence[:, :, 1:] = take("<f8", n, n_sources, n_classes - 1)
        priors = take("<f8", n, n_classes, same=_SAME_PRIORS)
        thresholds = take("<f8", n, same=_SAME_THRESHOLDS) if flags & _HAS_THRESHOLDS else None
        model = header["model"]
    except (struct.error, ValueError, KeyError) as error:
        raise InvalidStateError(f"an event of the log is damaged: {error}") from None
    return DecidedRows(header.get("ids"), log_ratios, evidence, numbers, marks, model, priors, thresholds)


def _once(values: npt.NDArray[Any], flag: int) -> tuple[npt.NDArray[Any], int]:
    """Return the first of rows and the flag where all rows are the same, bit for bit; else the rows and 0."""
    same = len(values) > 0 and values.tobytes() == values[:1].tobytes() * len(values)
    return (values[:1], flag) if same else (values, 0)


def _number_type(n_classes: int) -> str:
    return "u1" if n_classes <= 256 else "<u2"


def inputs_of(payload: bytes) -> list[Any] | None:
    """Return the rows as they were sent, if they were stored."""
    n_text = _HEADER.unpack_from(payload)[4]
    found: list[Any] | None = json.loads(payload[_HEADER.size : _HEADER.size + n_text]).get("inputs")
    return found


def ids_of(event: StoredEvent) -> list[Id]:
    """Return the ids that an event names: of its rows, or of its labels."""
    if event.kind == LABELLED:
        return [one[0] for one in read_record(event.payload)["labels"]]
    if event.kind != DECIDED:
        return []
    ids = read_rows(event.payload).ids
    return list(range(event.first_row, event.first_row + event.n_rows) if ids is None else ids)


def write_record(record: Mapping[str, Any]) -> bytes:
    """Return any other event as bytes."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode()


def read_record(payload: bytes) -> dict[str, Any]:
    """Return what was written."""
    record: dict[str, Any] = json.loads(payload)
    return record
