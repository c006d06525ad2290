"""Check what comes with a label: the user's own id of a decision, which row has it, and the propensity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from obil.arrays import shown
from obil.errors import InvalidInputError

Id: TypeAlias = int | str
WHOLE = (int, np.integer)

LARGEST_ID = 2**128  # a UUID as a number fits
LONGEST_ID = 1_000  # characters; without a limit a horizon would not bound the memory
LARGEST_RANGE = 2**62
SMALLEST_PROPENSITY = 1e-9  # a label that stands for more rows than that is a mistake


class RowNames:
    """Which row has which id; a row whose id is its own number takes no room."""

    __slots__ = ("id_of", "row_of")

    def __init__(self) -> None:
        self.id_of: dict[int, Id] = {}  # of the remembered rows, those whose id is not their number
        self.row_of: dict[Id, int] = {}  # the newest row with that id

    def copied(self) -> "RowNames":
        """Return these names, independent of them."""
        names = RowNames()
        names.id_of, names.row_of = dict(self.id_of), dict(self.row_of)
        return names

    def give(self, row: int, name: Id, oldest: int) -> int | None:
        """Give a new row its id; return the row, of those from `oldest` on, that had it until now."""
        if name == row:
            return self.row_of.pop(name, None)
        older = self.find(name, oldest, row)
        self.id_of[row] = name
        self.row_of[name] = row
        return older

    def find(self, name: Id, oldest: int, end: int) -> int | None:
        """Return the row with that id, of those from `oldest` to before `end`."""
        row = self.row_of.get(name)
        if row is None and isinstance(name, int) and oldest <= name < end and name not in self.id_of:
            return name
        return row

    def forget(self, row: int) -> Id:
        """Forget a row; return its id."""
        name = self.id_of.pop(row, None)
        if name is None:
            return row
        if self.row_of.get(name) == row:  # not if a newer row took it over
            del self.row_of[name]
        return name


def erased_id(row: int) -> str:
    """Return the id of a row that was to be forgotten; no label finds it."""
    return f"\0erased {row}"


def as_ids(ids: Iterable[Any]) -> Sequence[Id]:
    """Return ids as plain whole numbers and texts, or say which cannot be one; a range stays a range.

    >>> as_ids(np.array([7, 8]))
    [7, 8]
    """
    if isinstance(ids, range) and max(abs(ids.start), abs(ids.stop)) < LARGEST_RANGE:
        return ids
    if isinstance(ids, str | bytes | Mapping):
        raise InvalidInputError(f"ids must be a sequence with one id per row, got {shown(ids, 80)}")
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iuU":  # dates would become numbers
        ids = ids.tolist()
    try:
        names: list[Any] = list(ids)
    except (TypeError, OverflowError):
        raise InvalidInputError(f"ids must be a sequence with one id per row, got {shown(ids, 80)}") from None
    kinds = set(map(type, names))
    if kinds == {int} and min(names) > -LARGEST_ID and max(names) < LARGEST_ID:
        return names
    if kinds == {str} and all(map(str.isascii, names)) and max(map(len, names)) <= LONGEST_ID:
        return names
    return [as_id(name) for name in names]


def as_id(id: Any) -> Id:  # noqa: A002  # the name users know
    """Return an id as a plain whole number or text: what comes back from JSON as it was.

    >>> as_id(np.int64(7)), as_id("order 7")
    (7, 'order 7')
    """
    if isinstance(id, str):
        if len(id) <= LONGEST_ID and (id.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in id)):
            return str(id)
        raise InvalidInputError(f"an id must be at most {LONGEST_ID} characters of proper Unicode, got {shown(id, 80)}")
    if isinstance(id, WHOLE) and not isinstance(id, bool):
        number = int(id)
        if -LARGEST_ID < number < LARGEST_ID:
            return number
        raise InvalidInputError(f"an id that is a number must have at most 128 bits, got {number.bit_length()}")
    raise InvalidInputError(f"an id must be a text or a whole number, got {type(id).__name__} {shown(id, 80)}")


def as_propensity(value: object) -> float:
    """Return the probability that a label was asked for as a plain number, or say that it is none.

    >>> as_propensity(1)
    1.0
    """
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not SMALLEST_PROPENSITY <= value <= 1:  # type: ignore[operator]  # a number by now
        raise InvalidInputError(f"propensity must be a probability in [1e-9, 1], got {shown(value)}")
    return float(value)  # type: ignore[arg-type]
