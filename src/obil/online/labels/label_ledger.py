"""Remember decisions until their labels come: late, out of order, twice, contradicting, or never."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, as_integer, as_log_ratio_row, as_log_ratios, shown
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision_ids import WHOLE, Id, RowNames, as_id, as_ids, as_propensity, erased_id
from obil.online.labels.pending_block import COUNTED, LabelCounts, Pending, read_pending, write_pending

LARGEST_HORIZON = 10_000_000
LARGEST_FIRST_ROW = 2**53
SMALLEST_CAPACITY = 16
SingleArray: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRow:
    """A decision with its label: one that came, or where it left the horizon the class that `unlabeled_as` names."""

    row: int
    id: Id
    log_ratios: FloatArray  # (K,)
    alert: bool
    label: int
    propensity: float = 1.0  # the one that counts: of a repeated label, the one it came with first
    replaced: int | None = None  # the earlier label, which is to be taken back
    replaced_propensity: float = 1.0  # what the earlier label came with
    inputs: SingleArray | None = None  # (J,) what the tracker wants to know of the row beside its log ratios
    repeated: bool = False  # the same label came before: nothing is to be done


class LabelLedger:
    """The last `horizon` decisions, found by id when their labels come.

    Rows are numbered without gaps, from whichever row comes first. A row's id is the user's own text or
    whole number, or the row number itself, which takes no room. Where two remembered decisions have the same id,
    the newest has it: the older one gets no label any more, not even that of `unlabeled_as`. A ledger has one writer.

    With a horizon of 0 nothing is remembered and every label is unknown. A row keeps `n_inputs` numbers in single
    precision beside its log ratios, for a tracker that wants them with the label. `unlabeled_as` is the class number
    that a missing label means (chargebacks: the negative one), or None where it means nothing.

    >>> ledger = LabelLedger(2, horizon=2, unlabeled_as=0)
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
    LabelCounts(labelled=1, unknown=1, repeated=0, replaced=1, unlabeled=1, superseded=0, pending=1)
    """

    def __init__(
        self, n_classes: int, *, horizon: int = 10_000, unlabeled_as: int | None = None, n_inputs: int = 0
    ) -> None:
        self.n_classes = as_integer("n_classes", n_classes, 2, LARGEST_HORIZON)
        self.horizon = as_integer("horizon", horizon, 0, LARGEST_HORIZON)
        self.unlabeled_as: int | None = None
        if unlabeled_as is not None:
            self.unlabeled_as = as_integer("unlabeled_as", unlabeled_as, 0, self.n_classes - 1)
            if self.horizon == 0:
                raise InvalidInputError("horizon must be at least 1 where unlabeled_as names a class, got 0")
        self.n_inputs = as_integer("n_inputs", n_inputs, 0, LARGEST_HORIZON)
        self._origin: int | None = None  # the row in slot 0 of a ring that has not wrapped yet
        self.next_row: int | None = None  # the row that comes next; None before the first
        self._full_at: float = 0  # the row for which the ring has to grow
        self._ratios: FloatArray = np.empty((0, self.n_classes))  # (capacity, K), a ring once full
        self._alerts: BoolArray = np.empty(0, dtype=bool)  # (capacity,)
        self._inputs: SingleArray = np.empty((0, self.n_inputs), dtype=np.float32)  # (capacity, J)
        self._names = RowNames()
        self._came: dict[int, tuple[int, float]] = {}  # row: label, propensity
        self._stale: set[int] = set()  # unlabelled rows whose id a newer row took over, or that were erased
        self._tally = dict.fromkeys(COUNTED, 0)

    @property
    def counts(self) -> LabelCounts:
        """What became of the decisions and of the labels so far."""
        pending = len(self._rows()) - len(self._came) - len(self._stale)
        return LabelCounts(**self._tally, pending=pending)

    def remember(
        self,
        first_row: int,
        ids: Sequence[Any],
        log_ratios: npt.ArrayLike,
        alerts: npt.ArrayLike,
        inputs: SingleArray | None = None,
    ) -> list[LabelledRow]:
        """Remember rows first_row ... first_row + n - 1; with `unlabeled_as`, return those that leave for them.

        `inputs`, (n, J), are 0 if None.

        They come oldest first, each with the label that came for it or else with that of unlabeled_as: all are known at
        the same age, so that positives, which are reported, do not count before negatives, which are not.
        """
        row = self._checked_row(first_row)
        names = as_ids(ids)
        ratios = as_log_ratios(log_ratios, n_classes=self.n_classes)
        n = len(ratios)
        if len(names) != n:
            raise InvalidInputError(f"ids must name every row ({n}), got {len(names)}")
        flags = _as_array(alerts)
        if flags.shape != (n,) or (n and flags.dtype != bool):
            raise InvalidInputError(f"alerts must be {n} booleans, got dtype {flags.dtype} in shape {flags.shape}")
        if inputs is not None and inputs.shape != (n, self.n_inputs):
            raise InvalidInputError(f"inputs must have shape {(n, self.n_inputs)}, got {inputs.shape}")
        if n == 0:
            return []
        self._make_room(row, n)
        numbers = range(row, row + n)
        if not self._names.id_of and names[0] == row and (names == numbers or names == list(numbers)):
            return self._remember_numbered(row, ratios, flags, inputs)
        left = [
            self._record(row + i, name, ratios[i], alert, None if inputs is None else inputs[i])
            for i, (name, alert) in enumerate(zip(names, flags.tolist(), strict=True))
        ]
        return [one for one in left if one is not None]

    def remember_one(
        self,
        row: int,
        id: Any,  # noqa: A002  # the name users know
        log_ratios: npt.ArrayLike,
        alert: bool,
        inputs: SingleArray | None = None,
    ) -> LabelledRow | None:
        """Remember one row, its log ratios (K,) and inputs (J,); with `unlabeled_as`, return the row that leaves."""
        if type(row) is not int or row != self.next_row:
            row = self._checked_row(row)
        name = id if type(id) is int and id == row else as_id(id)
        ratios = as_log_ratio_row(log_ratios, n_classes=self.n_classes)
        if alert is not True and alert is not False and not isinstance(alert, np.bool_):
            raise InvalidInputError(f"alert must be True or False, got {shown(alert)}")
        if inputs is not None and inputs.size != self.n_inputs:
            raise InvalidInputError(f"inputs must be {self.n_inputs} numbers, got {inputs.size}")
        if row >= self._full_at:
            self._make_room(row, 1)
        return self._record(row, name, ratios, alert, inputs)

    def label(self, id: Any, label: int, *, propensity: float = 1.0) -> LabelledRow | None:  # noqa: A002  # users know it
        """Return the decision a label is about, or None if it is unknown: never decided, or beyond the horizon.

        `propensity` is the probability that this label was asked for. A label that contradicts an earlier one
        replaces it; one that repeats it changes nothing, its propensity included.
        """
        name = as_id(id)
        number = as_integer("label", label, 0, self.n_classes - 1)
        chance = as_propensity(propensity)
        rows = self._rows()
        row = self._names.find(name, rows.start, rows.stop)
        if row is None or name == erased_id(row):
            self._tally["unknown"] += 1
            return None
        ratios, alert, inputs = self._recalled(row)
        before = self._came.get(row)
        if before is not None and before[0] == number:
            self._tally["repeated"] += 1
            return LabelledRow(row, name, ratios, alert, number, before[1], repeated=True)
        self._came[row] = (number, chance)
        if before is None:
            self._tally["labelled"] += 1
            return LabelledRow(row, name, ratios, alert, number, chance, inputs=inputs)
        self._tally["replaced"] += 1
        return LabelledRow(row, name, ratios, alert, number, chance, *before, inputs=inputs)

    def forget(self, row: int) -> bool:
        """Erase a remembered row: its id and its scores; a label for it comes too late from now on."""
        rows = self._rows()
        if row not in rows:
            return False
        self._names.forget(row)
        self._names.give(row, erased_id(row), rows.start)
        if row not in self._came:
            self._stale.add(row)
        slot = (row - self._origin) % len(self._alerts)  # type: ignore[operator]  # it has rows
        self._ratios[slot] = self._inputs[slot] = 0.0
        return True

    def renew_inputs(self, n_inputs: int) -> None:
        """Forget the inputs of the rows so far, which are those of another model; rows to come have so many."""
        self.n_inputs = n_inputs
        self._inputs = np.zeros((len(self._alerts), n_inputs), dtype=np.float32)

    def row_of(self, id: Any) -> int | None:  # noqa: A002  # the name users know
        """Return the row that has an id, of those that are remembered."""
        rows = self._rows()
        return self._names.find(as_id(id), rows.start, rows.stop)

    def state(self) -> bytes:
        """Return everything needed to continue bit for bit, beside the settings."""
        rows = self._rows()
        slots = self._slots(rows)
        named, came = self._names.id_of, self._came
        ratios, inputs, alerts = self._ratios[slots], self._inputs[slots], self._alerts[slots]
        return write_pending(Pending(self.next_row, ratios, inputs, alerts, named, came, self._tally))

    def copied(self) -> Self:
        """Return a ledger that continues like this one, independent of it."""
        ledger = copy.copy(self)
        ledger._ratios, ledger._alerts, ledger._inputs = self._ratios.copy(), self._alerts.copy(), self._inputs.copy()
        ledger._names, ledger._tally = self._names.copied(), dict(self._tally)
        ledger._came, ledger._stale = dict(self._came), set(self._stale)
        return ledger

    def with_horizon(self, horizon: int) -> Self:
        """Return a ledger without rows that remembers so many, with the other settings of this one."""
        return type(self)(self.n_classes, horizon=horizon, unlabeled_as=self.unlabeled_as, n_inputs=self.n_inputs)

    def restored(self, state: bytes, *, n_rows: int | None = None) -> Self:
        """Return a ledger with these settings that continues where the one that made `state` stopped.

        A shorter horizon forgets the oldest rows. `n_rows` is how many rows the stream has, where that is known.
        """
        ledger = self.with_horizon(self.horizon)
        saved = read_pending(state, n_classes=self.n_classes)
        if self.unlabeled_as is None and saved.counts["unlabeled"]:
            raise InvalidStateError("unlabeled_as means nothing, so that no decision can count as unlabeled")
        if saved.inputs.shape[1] != self.n_inputs:
            raise InvalidStateError(
                f"this state is damaged: its labels keep {saved.inputs.shape[1]} inputs of a row, its tracker takes "
                f"{self.n_inputs}"
            )
        if n_rows is not None and saved.next_row not in (None, n_rows):
            raise InvalidStateError(f"this state is damaged: its labels saw {saved.next_row} rows, the stream {n_rows}")
        if n_rows is not None and self.horizon == 0:  # a stream numbers its rows itself, and tells no such ledger
            saved = saved._replace(next_row=None)
        if saved.next_row is not None:
            kept = saved.rows[-self.horizon :] if self.horizon else range(saved.next_row, saved.next_row)
            n, first = len(kept), kept.start
            ledger._make_room(first, n)
            ledger.next_row = saved.next_row
            if n:
                ledger._ratios[:n], ledger._alerts[:n] = saved.log_ratios[-n:], saved.alerts[-n:]
                ledger._inputs[:n] = saved.inputs[-n:]
            ledger._came = {row: known for row, known in saved.came.items() if row >= first}
            for row in kept if saved.ids else ():
                name = saved.ids.get(row, row)
                if name != row or ledger._names.id_of:
                    ledger._give_name(row, name, first)
                if name == erased_id(row) and row not in ledger._came:
                    ledger._stale.add(row)
        ledger._tally = dict(saved.counts)
        return ledger

    def _rows(self) -> range:
        """Return the row numbers that are remembered."""
        if self.next_row is None or self._origin is None:
            return range(0)
        return range(max(self._origin, self.next_row - self.horizon), self.next_row)

    def _slots(self, rows: range) -> npt.NDArray[np.int64]:
        """Return where these rows lie in the ring, (n,); from offsets, since a row number may be huge."""
        start = 0 if self._origin is None else rows.start - self._origin
        return np.arange(start, start + len(rows)) % max(len(self._alerts), 1)

    def _recalled(self, row: int) -> tuple[FloatArray, bool, SingleArray | None]:
        slot = (row - self._origin) % len(self._alerts)  # type: ignore[operator]  # a remembered row has an origin
        ratios = self._ratios[slot].copy()
        ratios[0] = 0.0  # it may be -0.0, and a state does not hold it
        return ratios, bool(self._alerts[slot]), self._inputs[slot].copy() if self.n_inputs else None

    def _checked_row(self, row: object) -> int:
        if self.next_row is None:
            return as_integer("the first row", row, 0, LARGEST_FIRST_ROW)
        if isinstance(row, bool) or not isinstance(row, WHOLE) or row != self.next_row:
            raise InvalidInputError(f"rows are remembered in order, the next one is {self.next_row}, got {shown(row)}")
        return self.next_row

    def _make_room(self, first_row: int, n: int) -> None:
        """Grow the ring by doubling, up to the horizon; below it nothing has wrapped, so slots stay as they are."""
        origin = first_row if self._origin is None else self._origin
        capacity = len(self._alerts)
        needed = min(first_row - origin + n, self.horizon)
        if needed > capacity:
            larger = min(max(needed, 2 * capacity, SMALLEST_CAPACITY), self.horizon)
            ratios, alerts = np.zeros((larger, self.n_classes)), np.zeros(larger, dtype=bool)
            ratios[:capacity], alerts[:capacity] = self._ratios, self._alerts
            inputs = np.zeros((larger, self.n_inputs), dtype=np.float32)
            inputs[:capacity] = self._inputs
            self._ratios, self._alerts, self._inputs = ratios, alerts, inputs
        self._origin = origin
        self._full_at = math.inf if len(self._alerts) == self.horizon else origin + len(self._alerts)

    def _record(
        self, row: int, name: Id, ratios: FloatArray, alert: bool, inputs: SingleArray | None
    ) -> LabelledRow | None:
        """Remember one checked row for which there is room, letting go of the one that leaves."""
        self.next_row = row + 1
        horizon = self.horizon
        if horizon == 0:
            return None
        offset = row - self._origin  # type: ignore[operator]  # _make_room set it
        forgetful = self.unlabeled_as is None and not (self._came or self._names.id_of)  # nothing hangs on what leaves
        left = None if forgetful or offset < horizon else self._let_go(row - horizon)
        slot = offset % len(self._alerts)
        self._ratios[slot] = ratios
        self._alerts[slot] = alert
        if self.n_inputs:
            self._inputs[slot] = 0.0 if inputs is None else inputs
        if name != row or self._names.id_of:
            self._give_name(row, name, row - min(offset, horizon - 1))
        return left

    def _let_go(self, row: int) -> LabelledRow | None:
        name = self._names.forget(row) if self._names.id_of else row
        came = self._came.pop(row, None) if self._came else None
        if self._stale and row in self._stale:
            self._stale.remove(row)
            return None
        if self.unlabeled_as is None:
            return None
        if came is None:
            self._tally["unlabeled"] += 1
        ratios, alert, inputs = self._recalled(row)
        return LabelledRow(row, name, ratios, alert, *(came or (self.unlabeled_as, 1.0)), inputs=inputs)

    def _give_name(self, row: int, name: Id, oldest: int) -> None:
        older = self._names.give(row, name, oldest)
        if older is not None:
            self._tally["superseded"] += 1
            if older not in self._came:
                self._stale.add(older)

    def _remember_numbered(
        self, row: int, ratios: FloatArray, alerts: BoolArray, inputs: SingleArray | None
    ) -> list[LabelledRow]:
        """Remember rows whose ids are their numbers, where all the others' are too: what `_record` does, in bulk."""
        before, end = self._rows(), row + len(ratios)
        first_kept = max(row, end - self.horizon)
        gone = [self._let_go(one) for one in range(before.start, min(before.stop, end - self.horizon))]
        left = [one for one in gone if one is not None]
        if self.unlabeled_as is not None and first_kept > row:  # the head of a batch beyond the horizon leaves at once
            head = ratios[: first_kept - row].copy()
            head[:, 0] = 0.0
            flags, own = alerts.tolist(), [None] * len(head) if inputs is None else inputs[: len(head)].copy()
            left += [
                LabelledRow(row + i, row + i, one, flags[i], self.unlabeled_as, inputs=own[i])
                for i, one in enumerate(head)
            ]
            self._tally["unlabeled"] += len(head)
        self.next_row = end
        slots = self._slots(range(first_kept, end))
        self._ratios[slots] = ratios[first_kept - row :]
        self._alerts[slots] = alerts[first_kept - row :]
        if self.n_inputs:
            self._inputs[slots] = 0.0 if inputs is None else inputs[first_kept - row :]
        return left


def _as_array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # rows of unequal length
        return np.asarray(None)
