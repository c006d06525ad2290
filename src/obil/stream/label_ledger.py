"""Remember decisions until their labels come: late, out of order, twice, contradicting, or never."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats, as_log_ratios
from obil.errors import InvalidInputError, InvalidStateError
from obil.stream.decision_ids import WHOLE, Id, RowNames, as_id, as_ids, shown

BoolArray: TypeAlias = npt.NDArray[np.bool_]

STATE_FORMAT = 1
KIND = "label_ledger"
LARGEST_HORIZON = 10_000_000
LARGEST_FIRST_ROW = 2**53
LARGEST_NUMBER = 2**63  # of rows and of counts in a state; no stream counts there from LARGEST_FIRST_ROW
SMALLEST_PROPENSITY = 1e-9  # a label that stands for more rows than that is a mistake
SMALLEST_CAPACITY = 16

_FLOAT64 = np.dtype(np.float64)
_REAL = (int, float, np.integer, np.floating)


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """A decision that left the horizon, where silence means a class: with its label, or with that of silence."""

    row: int
    id: Id
    log_ratios: FloatArray  # (K,)
    alert: bool
    label: int
    propensity: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """A label with the decision it is about, and the label it takes the place of."""

    row: int
    log_ratios: FloatArray  # (K,)
    alert: bool
    label: int
    propensity: float  # the one that counts: of a repeated label, the one it came with first
    replaced: int | None = None  # the earlier label, which is to be taken back
    replaced_propensity: float | None = None  # what the earlier label came with
    repeated: bool = False  # the same label came before: nothing is to be done


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What became of the decisions and of the labels so far."""

    labelled: int = 0  # decisions that got a label
    unknown: int = 0  # labels for no decision that is remembered
    repeated: int = 0  # labels that said the same again
    replaced: int = 0  # labels that contradicted an earlier one
    silent: int = 0  # decisions that left the horizon unlabelled, where silence means a class
    superseded: int = 0  # decisions whose id a newer one took over within the horizon
    pending: int = 0  # decisions that a label may still reach and none has


class LabelLedger:
    """The last `horizon` decisions, found by id when their labels come.

    Rows are numbered without gaps, from whichever row comes first. A row's id is the user's own text or
    whole number, or the row number itself, which takes no room. Where two remembered decisions have the same id,
    the newest has it: the older one gets no label any more, and its silence means nothing. A ledger has one writer.

    Parameters
    ----------
    n_classes
        The number of classes, K.
    horizon
        How many decisions are remembered; with 0, none is and every label is unknown.
    silence
        The class that silence means (chargebacks: the negative one), or None where it means nothing.

    >>> ledger = LabelLedger(2, horizon=2, silence=0)
    >>> ledger.remember(0, ["a", "b"], np.array([[0.0, 1.5], [0.0, -2.0]]), np.array([True, False]))
    []
    >>> ledger.label("b", 1, propensity=0.5).row
    1
    >>> ledger.label("b", 0).replaced
    1
    >>> ledger.remember_one(2, "c", np.array([0.0, 0.3]), False).id  # "a" leaves, and nobody said what it was
    'a'
    >>> ledger.label("a", 1) is None
    True
    >>> ledger.counts
    LabelCounts(labelled=1, unknown=1, repeated=0, replaced=1, silent=1, superseded=0, pending=1)
    """

    def __init__(self, n_classes: int, *, horizon: int = 10_000, silence: int | None = None) -> None:
        self._n_classes = _whole_number("n_classes", n_classes, 2, LARGEST_HORIZON)
        self._horizon = _whole_number("horizon", horizon, 0, LARGEST_HORIZON)
        self._silence = None if silence is None else _whole_number("silence", silence, 0, self._n_classes - 1)
        if self._silence is not None and self._horizon == 0:
            raise InvalidInputError("silence means a class only after a horizon of at least 1, got horizon 0")
        self._origin: int | None = None  # the row in slot 0 of a ring that has not wrapped yet
        self._next: int | None = None
        self._full_at: float = 0  # the row for which the ring has to grow
        self._ratios: FloatArray = np.empty((0, self._n_classes))  # (capacity, K), a ring once full
        self._alerts: BoolArray = np.empty(0, dtype=bool)  # (capacity,)
        self._names = RowNames()
        self._came: dict[int, tuple[int, float]] = {}  # row: label, propensity
        self._stale: set[int] = set()  # unlabelled rows whose id a newer row took over
        self._tally = dict.fromkeys(_COUNTED, 0)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self._n_classes

    @property
    def horizon(self) -> int:
        """How many decisions are remembered."""
        return self._horizon

    @property
    def next_row(self) -> int | None:
        """The number of the row that comes next; None before the first."""
        return self._next

    @property
    def silence(self) -> int | None:
        """The class that silence means, or None."""
        return self._silence

    @property
    def counts(self) -> LabelCounts:
        """What became of the decisions and of the labels so far."""
        pending = len(self._rows()) - len(self._came) - len(self._stale)
        return LabelCounts(**self._tally, pending=pending)

    def remember(
        self, first_row: int, ids: Sequence[Any], log_ratios: npt.ArrayLike, alerts: npt.ArrayLike
    ) -> list[Remembered]:
        """Remember rows first_row ... first_row + n - 1; where silence means a class, return those that leave for them.

        They come oldest first, each with the label that came for it or else with that of silence: all are known at
        the same age, so that positives, which are reported, do not count before negatives, which are not.
        """
        row = self._checked_row(first_row)
        names = as_ids(ids)
        ratios = as_log_ratios(log_ratios, n_classes=self._n_classes)
        n = len(ratios)
        if len(names) != n:
            raise InvalidInputError(f"ids must name every row ({n}), got {len(names)}")
        flags = _as_array(alerts)
        if flags.shape != (n,) or (n and flags.dtype != bool):
            raise InvalidInputError(f"alerts must be {n} booleans, got dtype {flags.dtype} in shape {flags.shape}")
        if n == 0:
            return []
        self._make_room(row, n)
        numbers = range(row, row + n)
        if not self._names.id_of and names[0] == row and (names == numbers or names == list(numbers)):
            return self._remember_numbered(row, ratios, flags)
        left = [
            self._record(row + i, name, ratios[i], alert)
            for i, (name, alert) in enumerate(zip(names, flags.tolist(), strict=True))
        ]
        return [one for one in left if one is not None]

    def remember_one(self, row: int, id: Any, log_ratios: npt.ArrayLike, alert: bool) -> Remembered | None:  # noqa: A002
        """Remember one row, its log ratios (K,); where silence means a class, return the row that leaves for it."""
        if type(row) is not int or row != self._next:
            row = self._checked_row(row)
        name = id if type(id) is int and id == row else as_id(id)
        ratios = as_floats(log_ratios, "log_ratios") if type(log_ratios) is not np.ndarray else log_ratios
        if ratios.ndim != 1:
            raise InvalidInputError(f"remember_one takes one row of log ratios, shape (K,), got {ratios.shape}")
        values = ratios.tolist()
        # a finite sum has finite terms; this looks at one row in a tenth of the time the array checks take
        if not (
            ratios.dtype is _FLOAT64
            and len(values) == self._n_classes
            and values[0] == 0.0
            and math.isfinite(sum(values))
        ):
            ratios = as_log_ratios(ratios[None], n_classes=self._n_classes)[0]
        if alert is not True and alert is not False and not isinstance(alert, np.bool_):
            raise InvalidInputError(f"alert must be True or False, got {shown(alert)}")
        if row >= self._full_at:
            self._make_room(row, 1)
        return self._record(row, name, ratios, alert)

    def label(self, id: Any, label: int, *, propensity: float = 1.0) -> Arrived | None:  # noqa: A002
        """Return the decision a label is about, or None if it is unknown: never decided, or beyond the horizon.

        `propensity` is the probability that this label was asked for. A label that contradicts an earlier one
        replaces it; one that repeats it changes nothing, its propensity included.
        """
        name = as_id(id)
        number = _whole_number("label", label, 0, self._n_classes - 1)
        chance = _checked_propensity(propensity)
        rows = self._rows()
        row = self._names.find(name, rows.start, rows.stop)
        if row is None:
            self._tally["unknown"] += 1
            return None
        ratios, alert = self._recalled(row)
        before = self._came.get(row)
        if before is not None and before[0] == number:
            self._tally["repeated"] += 1
            return Arrived(row, ratios, alert, number, before[1], repeated=True)
        self._came[row] = (number, chance)
        if before is None:
            self._tally["labelled"] += 1
            return Arrived(row, ratios, alert, number, chance)
        self._tally["replaced"] += 1
        return Arrived(row, ratios, alert, number, chance, replaced=before[0], replaced_propensity=before[1])

    def state(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit, as plain JSON values."""
        rows = self._rows()
        slots = self._slots(rows)
        ids = [self._names.id_of.get(row) for row in rows] if self._names.id_of else []
        return {
            "format": STATE_FORMAT,
            "kind": KIND,
            "n_classes": self._n_classes,
            "horizon": self._horizon,
            "silence": self._silence,
            "next_row": self._next,
            "log_ratios": self._ratios[slots, 1:].ravel().tolist(),  # row by row, without the column of class 0
            "alerts": "".join("01"[alert] for alert in self._alerts[slots].tolist()),
            "ids": ids,  # None where the id is the row number; empty where all are
            "labels": [[row - rows.start, *self._came[row]] for row in sorted(self._came)],
            "counts": dict(self._tally),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Return a ledger that goes on exactly where the one that made `state` stopped."""
        if not isinstance(state, Mapping) or state.get("kind") != KIND:
            raise InvalidStateError("this is not the state of a label ledger")
        if type(state.get("format")) is not int or state["format"] != STATE_FORMAT:
            raise InvalidStateError(f"this version reads state format {STATE_FORMAT}, got {shown(state.get('format'))}")
        if set(state) != _FIELDS:
            raise InvalidStateError(
                f"the state of a label ledger holds {sorted(_FIELDS)}, got {shown(list(state), 200)}"
            )
        try:
            ledger = cls(state["n_classes"], horizon=state["horizon"], silence=state["silence"])
        except InvalidInputError as error:
            raise InvalidStateError(f"this label ledger is damaged: {error}") from None
        ledger._restore_rows(state)
        ledger._restore_ids(state["ids"])
        ledger._restore_labels(state["labels"], state["counts"])
        return ledger

    def _rows(self) -> range:
        """Return the row numbers that are remembered."""
        if self._next is None or self._origin is None:
            return range(0)
        return range(max(self._origin, self._next - self._horizon), self._next)

    def _slots(self, rows: range) -> npt.NDArray[np.int64]:
        """Return where these rows lie in the ring, (n,); from offsets, since a row number may be huge."""
        start = 0 if self._origin is None else rows.start - self._origin
        return np.arange(start, start + len(rows)) % max(len(self._alerts), 1)

    def _recalled(self, row: int) -> tuple[FloatArray, bool]:
        slot = (row - self._origin) % len(self._alerts)  # type: ignore[operator]  # a remembered row has an origin
        ratios = self._ratios[slot].copy()
        ratios[0] = 0.0  # it may be -0.0, and a state does not hold it
        return ratios, bool(self._alerts[slot])

    def _checked_row(self, row: object) -> int:
        if self._next is None:
            return _whole_number("the first row", row, 0, LARGEST_FIRST_ROW)
        if isinstance(row, bool) or not isinstance(row, WHOLE) or row != self._next:
            raise InvalidInputError(f"rows are remembered in order, the next one is {self._next}, got {shown(row)}")
        return self._next

    def _make_room(self, first_row: int, n: int) -> None:
        """Grow the ring by doubling, up to the horizon; below it nothing has wrapped, so slots stay as they are."""
        origin = first_row if self._origin is None else self._origin
        capacity = len(self._alerts)
        needed = min(first_row - origin + n, self._horizon)
        if needed > capacity:
            larger = min(max(needed, 2 * capacity, SMALLEST_CAPACITY), self._horizon)
            ratios, alerts = np.zeros((larger, self._n_classes)), np.zeros(larger, dtype=bool)
            ratios[:capacity], alerts[:capacity] = self._ratios, self._alerts
            self._ratios, self._alerts = ratios, alerts
        self._origin = origin
        self._full_at = math.inf if len(self._alerts) == self._horizon else origin + len(self._alerts)

    def _record(self, row: int, name: Id, ratios: FloatArray, alert: bool) -> Remembered | None:
        """Remember one checked row for which there is room, letting go of the one that leaves."""
        self._next = row + 1
        horizon = self._horizon
        if horizon == 0:
            return None
        offset = row - self._origin  # type: ignore[operator]  # _make_room set it
        forgetful = self._silence is None and not (self._came or self._names.id_of)  # nothing hangs on what leaves
        left = None if forgetful or offset < horizon else self._let_go(row - horizon)
        slot = offset % len(self._alerts)
        self._ratios[slot] = ratios
        self._alerts[slot] = alert
        if name != row or self._names.id_of:
            self._give_name(row, name, row - min(offset, horizon - 1))
        return left

    def _let_go(self, row: int) -> Remembered | None:
        name = self._names.forget(row) if self._names.id_of else row
        came = self._came.pop(row, None) if self._came else None
        if self._stale and row in self._stale:
            self._stale.remove(row)
            return None
        if self._silence is None:
            return None
        if came is None:
            self._tally["silent"] += 1
        return Remembered(row, name, *self._recalled(row), *(came or (self._silence, 1.0)))

    def _give_name(self, row: int, name: Id, oldest: int) -> None:
        older = self._names.give(row, name, oldest)
        if older is not None:
            self._tally["superseded"] += 1
            if older not in self._came:
                self._stale.add(older)

    def _remember_numbered(self, row: int, ratios: FloatArray, alerts: BoolArray) -> list[Remembered]:
        """Remember rows whose ids are their numbers, where all the others' are too: what `_record` does, in bulk."""
        before, end = self._rows(), row + len(ratios)
        first_kept = max(row, end - self._horizon)
        gone = [self._let_go(one) for one in range(before.start, min(before.stop, end - self._horizon))]
        left = [one for one in gone if one is not None]
        if self._silence is not None and first_kept > row:  # a batch larger than the horizon: its head leaves at once
            head = ratios[: first_kept - row].copy()
            head[:, 0] = 0.0
            flags = alerts.tolist()
            left += [Remembered(row + i, row + i, one, flags[i], self._silence) for i, one in enumerate(head)]
            self._tally["silent"] += len(head)
        self._next = end
        slots = self._slots(range(first_kept, end))
        self._ratios[slots] = ratios[first_kept - row :]
        self._alerts[slots] = alerts[first_kept - row :]
        return left

    def _restore_rows(self, state: Mapping[str, Any]) -> None:
        alerts, values, end = state["alerts"], state["log_ratios"], state["next_row"]
        if not isinstance(alerts, str) or set(alerts) - {"0", "1"}:
            _damaged("alerts must be a text of 0 and 1, one a row")
        n = len(alerts)
        if n > self._horizon:
            _damaged(f"{n} rows are more than the horizon of {self._horizon}")
        if end is None and n == 0:
            started = False
        elif _is_count(end) and n <= end and (n > 0) == (self._horizon > 0):
            started = True
        else:
            _damaged(f"next_row must be the number after the {n} rows, got {shown(end)}")
        if not _is_list_of(values, int, float) or len(values) != n * (self._n_classes - 1):
            _damaged(f"log_ratios must be {n * (self._n_classes - 1)} numbers for {n} rows")
        try:
            ratios = np.array(values, dtype=np.float64).reshape(n, self._n_classes - 1)
        except OverflowError:
            _damaged("log_ratios must be finite")
        if not np.isfinite(ratios).all():
            _damaged("log_ratios must be finite")
        if started:
            self._make_room(end - n, n)
            self._next = end
            self._ratios[:n, 1:] = ratios
            self._alerts[:n] = [alert == "1" for alert in alerts]

    def _restore_ids(self, ids: Any) -> None:
        rows = self._rows()
        if not _is_list_of(ids, int, str, type(None)) or len(ids) not in (0, len(rows)):
            _damaged(f"ids must be none at all, or one for each of the {len(rows)} rows: a text, a number or null")
        given = ids or [None] * len(rows)
        try:
            names = [row if name is None else as_id(name) for row, name in zip(rows, given, strict=True)]
        except InvalidInputError as error:
            _damaged(str(error))
        for row, name in zip(rows, names, strict=True):
            if name != row or self._names.id_of:
                self._give_name(row, name, rows.start)

    def _restore_labels(self, labels: Any, counts: Any) -> None:
        rows = self._rows()
        wrong = f"labels must be rows of the {len(rows)} in order, each with its class number and propensity"
        if not _is_list_of(labels, list):
            _damaged(wrong)
        last = -1
        for one in labels:
            if len(one) != 3 or not _is_count(one[0]) or not last < one[0] < len(rows):
                _damaged(f"{wrong}, got {shown(one)}")
            try:
                number = _whole_number("label", one[1], 0, self._n_classes - 1)
                self._came[rows.start + one[0]] = (number, _checked_propensity(one[2]))
            except InvalidInputError as error:
                _damaged(str(error))
            last = one[0]
        self._stale -= self._came.keys()  # a row that lost its id after its label came waits for nothing
        if not isinstance(counts, Mapping) or set(counts) != set(_COUNTED) or not all(map(_is_count, counts.values())):
            _damaged(f"counts must be whole numbers for {list(_COUNTED)}, got {shown(counts, 120)}")
        if counts["labelled"] < len(self._came) or counts["superseded"] < self._tally["superseded"]:
            _damaged(f"counts are smaller than what the rows show, got {shown(dict(counts), 120)}")
        if self._silence is None and counts["silent"]:
            _damaged("silence means nothing, so that no decision can count as silent")
        self._tally = {name: counts[name] for name in _COUNTED}


def _whole_number(name: str, value: object, smallest: int, largest: int) -> int:
    number = int(value) if isinstance(value, WHOLE) and not isinstance(value, bool) else None
    if number is None or not smallest <= number <= largest:
        raise InvalidInputError(f"{name} must be a whole number in {smallest} ... {largest}, got {shown(value)}")
    return number


def _checked_propensity(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, _REAL) or not SMALLEST_PROPENSITY <= value <= 1:
        raise InvalidInputError(f"propensity must be a probability in [1e-9, 1], got {shown(value)}")
    return float(value)


def _as_array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # rows of unequal length
        return np.asarray(None)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_NUMBER


def _is_list_of(values: object, *kinds: type) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= set(kinds)


def _damaged(what: str) -> NoReturn:
    raise InvalidStateError(f"this label ledger is damaged: {what}")


_COUNTED = tuple(name for name in asdict(LabelCounts()) if name != "pending")
_FIELDS = frozenset(LabelLedger(2).state())
