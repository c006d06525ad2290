"""Read the state of a label ledger back, and refuse one that no ledger could have left."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, as_integer, is_count, shown
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision_ids import Id, as_id, as_propensity
from obil.trackers.input_expert import FARTHEST_INPUT

STATE_FORMAT = 2
KIND = "label_ledger"
FIELDS = {
    "format", "kind", "n_classes", "horizon", "unlabeled_as", "n_inputs", "next_row", "log_ratios", "inputs", "alerts",
    "ids", "labels", "counts",
}  # fmt: skip
LARGEST_NUMBER = 2**63  # of rows and of counts in a state; no stream counts there from the largest first row


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


class SavedLedger(NamedTuple):
    """What a ledger remembers of its n rows."""

    rows: range | None  # their numbers; None before the first row, empty after it where the horizon is 0
    log_ratios: FloatArray  # (n, K)
    inputs: npt.NDArray[np.float32]  # (n, J)
    alerts: BoolArray  # (n,)
    ids: list[Id]  # (n,)
    came: dict[int, tuple[int, float]]  # row: label, propensity
    counts: dict[str, int]


def require_ledger_state(state: Any) -> None:
    """Refuse what is not the state of a label ledger, or not of this version."""
    if not isinstance(state, Mapping) or state.get("kind") != KIND:
        raise InvalidStateError("this is not the state of a label ledger")
    if type(state.get("format")) is not int or state["format"] != STATE_FORMAT:
        raise InvalidStateError(f"this version reads state format {STATE_FORMAT}, got {shown(state.get('format'))}")
    if set(state) != FIELDS:
        raise InvalidStateError(f"the state of a label ledger holds {sorted(FIELDS)}, got {shown(list(state), 200)}")


def as_text(inputs: npt.NDArray[np.float32]) -> str:
    """Return inputs (n, J) as text, bit for bit: as decimal numbers they would be four times as long."""
    return base64.b64encode(inputs.astype("<f4").tobytes()).decode()


def read_ledger(
    state: Mapping[str, Any], *, n_classes: int, horizon: int, unlabeled_as: int | None, n_inputs: int
) -> SavedLedger:
    """Return what the ledger with these settings remembered when it made `state`."""
    started, numbers, ratios, alerts = _rows(state, n_classes, horizon)
    inputs = _inputs(state["inputs"], len(alerts), n_inputs)
    ids = _ids(state["ids"], numbers)
    came = _labels(state["labels"], numbers, n_classes)
    counts = state["counts"]
    is_whole = isinstance(counts, Mapping) and set(counts) == set(COUNTED)
    if not is_whole or not all(is_count(one, LARGEST_NUMBER) for one in counts.values()):
        _damaged(f"counts must be whole numbers for {list(COUNTED)}, got {shown(counts, 120)}")
    if counts["labelled"] < len(came) or counts["superseded"] < len(ids) - len(set(ids)):
        _damaged(f"counts are smaller than what the rows show, got {shown(dict(counts), 120)}")
    if unlabeled_as is None and counts["unlabeled"]:
        _damaged("unlabeled_as means nothing, so that no decision can count as unlabeled")
    counted = {name: counts[name] for name in COUNTED}
    return SavedLedger(numbers if started else None, ratios, inputs, alerts, ids, came, counted)


def _inputs(text: Any, n: int, n_inputs: int) -> npt.NDArray[np.float32]:
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").reshape(n, n_inputs)
    except (TypeError, ValueError, binascii.Error):
        _damaged(f"inputs must be {n * n_inputs} numbers in single precision for {n} rows")
    if not (np.abs(values) <= FARTHEST_INPUT).all():
        _damaged(f"inputs must lie within +-{FARTHEST_INPUT:g}")
    return values.astype(np.float32)


def _rows(state: Mapping[str, Any], n_classes: int, horizon: int) -> tuple[bool, range, FloatArray, BoolArray]:
    """Return whether there was a row at all, the numbers of the remembered ones, their log ratios and alerts."""
    alerts, values, end = state["alerts"], state["log_ratios"], state["next_row"]
    if not isinstance(alerts, str) or set(alerts) - {"0", "1"}:
        _damaged("alerts must be a text of 0 and 1, one per row")
    n = len(alerts)
    if n > horizon:
        _damaged(f"{n} rows are more than the horizon of {horizon}")
    if end is None and n == 0:
        started = False
    elif is_count(end, LARGEST_NUMBER) and n <= end and (n > 0) == (horizon > 0):
        started = True
    else:
        _damaged(f"next_row must be the number after the {n} rows, got {shown(end)}")
    if not _is_list_of(values, int, float) or len(values) != n * (n_classes - 1):
        _damaged(f"log_ratios must be {n * (n_classes - 1)} numbers for {n} rows")
    ratios = np.zeros((n, n_classes))
    try:
        ratios[:, 1:] = np.array(values, dtype=np.float64).reshape(n, n_classes - 1)
    except OverflowError:
        _damaged("log_ratios must be finite")
    if not np.isfinite(ratios).all():
        _damaged("log_ratios must be finite")
    numbers = range(end - n, end) if started else range(0)
    return started, numbers, ratios, np.array([alert == "1" for alert in alerts], dtype=np.bool_)


def _ids(ids: Any, rows: range) -> list[Id]:
    if not _is_list_of(ids, int, str, type(None)) or len(ids) not in (0, len(rows)):
        _damaged(f"ids must be none at all, or one for each of the {len(rows)} rows: a text, a number or null")
    try:
        return [row if name is None else as_id(name) for row, name in zip(rows, ids or [None] * len(rows), strict=True)]
    except InvalidInputError as error:
        _damaged(str(error))


def _labels(labels: Any, rows: range, n_classes: int) -> dict[int, tuple[int, float]]:
    wrong = f"labels must be rows of the {len(rows)} in order, each with its class number and propensity"
    if not _is_list_of(labels, list):
        _damaged(wrong)
    came: dict[int, tuple[int, float]] = {}
    last = -1
    for one in labels:
        if len(one) != 3 or not is_count(one[0]) or not last < one[0] < len(rows):
            _damaged(f"{wrong}, got {shown(one)}")
        try:
            number = as_integer("label", one[1], 0, n_classes - 1)
            came[rows.start + one[0]] = (number, as_propensity(one[2]))
        except InvalidInputError as error:
            _damaged(str(error))
        last = one[0]
    return came


def _is_list_of(values: object, *kinds: type) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= set(kinds)


def _damaged(what: str) -> NoReturn:
    raise InvalidStateError(f"this label ledger is damaged: {what}")
