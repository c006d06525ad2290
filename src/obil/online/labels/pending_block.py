"""Write the decisions that wait for their labels as one block of bytes, and read it back, refusing a damaged one."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision_ids import SMALLEST_PROPENSITY, Id, as_id
from obil.trackers.input_expert import FARTHEST_INPUT

LARGEST_NUMBER = 2**62  # of rows and of counts; no stream counts there from the largest first row


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What became of the decisions and of the labels so far."""

    labelled: int = 0  # decisions that got a label
    unknown: int = 0  # labels for no decision that is remembered
    repeated: int = 0  # labels that said the same again
    replaced: int = 0  # labels that contradicted an earlier one
    unlabeled: int = 0  # decisions that left the horizon unlabelled, where unlabeled_as means a class
    superseded: int = 0  # decisions whose id a newer one took over within the horizon
    pending: int = 0  # decisions that a label may still reach and none has


COUNTED = tuple(name for name in asdict(LabelCounts()) if name != "pending")  # those follow from the rows
NONE = -1  # next row before the first one
N_HEAD = 5 + len(COUNTED)  # next row, rows, inputs, labels, bytes of ids, counts


class Pending(NamedTuple):
    """What a ledger remembers of its last n rows."""

    next_row: int | None  # None before the first row
    log_ratios: FloatArray  # (n, K)
    inputs: npt.NDArray[np.float32]  # (n, J)
    alerts: BoolArray  # (n,)
    ids: Mapping[int, Id]  # row: its id, where that is not the number of the row
    came: Mapping[int, tuple[int, float]]  # row: label, propensity
    counts: Mapping[str, int]

    @property
    def rows(self) -> range:
        """The numbers of the rows."""
        n = len(self.alerts)
        return range(0) if self.next_row is None else range(self.next_row - n, self.next_row)


def write_pending(pending: Pending) -> bytes:
    """Return the block of bytes: numbers little-endian, ids as JSON."""
    first, came = pending.rows.start, sorted(pending.came.items())
    ids = (
        json.dumps([[row - first, name] for row, name in sorted(pending.ids.items())]).encode() if pending.ids else b""
    )
    next_row = NONE if pending.next_row is None else pending.next_row
    counts = [pending.counts[name] for name in COUNTED]
    sizes = len(pending.alerts), pending.inputs.shape[1], len(came), len(ids)
    head = np.array([next_row, *sizes, *counts], dtype="<i8")
    labels = np.array([[row - first, label] for row, (label, _) in came], dtype="<i8")
    propensities = np.array([propensity for _, (_, propensity) in came], dtype="<f8")
    ratios, inputs = pending.log_ratios[:, 1:].astype("<f8"), pending.inputs.astype("<f4")
    parts = (head, ratios, inputs, labels, propensities, np.packbits(pending.alerts))
    return b"".join(part.tobytes() for part in parts) + ids


def read_pending(data: bytes, *, n_classes: int) -> Pending:
    """Return what a block holds."""
    try:
        head, rest = _taken(data, "<i8", N_HEAD)
        next_row, n_rows, n_inputs, n_labels, n_id_bytes, *counted = head.tolist()
        started = 0 <= next_row < LARGEST_NUMBER
        _require(
            (started or next_row == NONE) and 0 <= n_rows <= max(next_row, 0), "its rows are not those of a stream"
        )
        _require(min(counted) >= 0 and max(counted) < LARGEST_NUMBER, "its counts are not counts")
        sizes = (n_rows, n_inputs, n_labels, n_id_bytes)
        _require(min(sizes) >= 0 and max(sizes) <= len(data), "its length is not that of its rows")
        ratios, rest = _taken(rest, "<f8", n_rows * (n_classes - 1))
        inputs, rest = _taken(rest, "<f4", n_rows * n_inputs)
        labels, rest = _taken(rest, "<i8", 2 * n_labels)
        propensities, rest = _taken(rest, "<f8", n_labels)
        alerts, rest = _taken(rest, "u1", -(-n_rows // 8))
        _require(len(rest) == n_id_bytes, "its length is not that of its rows")
        names = json.loads(rest) if n_id_bytes else []
        first = next_row - n_rows
        came = _labels(labels.reshape(-1, 2), propensities, first, n_rows, n_classes)
        ids = _ids(names, first, n_rows)
        counts = dict(zip(COUNTED, counted, strict=True))
        _require(counts["labelled"] >= len(came), "its counts are smaller than its labels")
        _require(counts["superseded"] >= len(ids) - len(set(ids.values())), "its counts are smaller than its rows show")
        _require(bool(np.isfinite(ratios).all()), "its log ratios must be finite")
        _require(bool((np.abs(inputs) <= FARTHEST_INPUT).all()), f"its inputs must lie within +-{FARTHEST_INPUT:g}")
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise InvalidStateError(f"the decisions of this state that wait for labels are damaged: {error}") from None
    log_ratios = np.zeros((n_rows, n_classes))
    log_ratios[:, 1:] = ratios.reshape(n_rows, n_classes - 1)
    flags = np.unpackbits(alerts, count=n_rows).view(np.bool_)
    own = inputs.reshape(n_rows, n_inputs).astype(np.float32)
    return Pending(next_row if started else None, log_ratios, own, flags, ids, came, counts)


def _taken(data: bytes, kind: str, count: int) -> tuple[npt.NDArray[Any], bytes]:
    values = np.frombuffer(data, dtype=kind, count=count) if count else np.empty(0, dtype=kind)
    return values, data[values.nbytes :]


def _labels(
    labels: npt.NDArray[Any],
    propensities: npt.NDArray[Any],
    first: int,
    n_rows: int,
    n_classes: int,
) -> dict[int, tuple[int, float]]:
    rows, numbers, chances = labels[:, 0].tolist(), labels[:, 1].tolist(), propensities.tolist()
    _require(
        all(one < other for one, other in zip([-1, *rows], [*rows, n_rows], strict=True)), "its labels are not in order"
    )
    _require(all(0 <= number < n_classes for number in numbers), "its labels are not classes")
    _require(all(SMALLEST_PROPENSITY <= one <= 1.0 for one in chances), "its propensities are not in [1e-9, 1]")
    return {first + row: (number, chance) for row, number, chance in zip(rows, numbers, chances, strict=True)}


def _ids(names: object, first: int, n_rows: int) -> dict[int, Id]:
    _require(isinstance(names, list), "its ids are no list")
    found: dict[int, Id] = {}
    last = -1
    for place, name in names:  # type: ignore[attr-defined]  # a list
        _require(type(place) is int and last < place < n_rows, "its ids are not those of its rows")
        try:
            found[first + place] = as_id(name)
        except InvalidInputError as error:
            raise ValueError(str(error)) from None
        last = place
    return found


def _require(holds: bool, wrong: str) -> None:
    if not holds:
        raise ValueError(wrong)
