"""Encode named columns of numbers and words as a numeric matrix, the same way at fit and in service."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError

MOST_LEVELS = 50  # the rest of a column's words count as "other"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a number, or a word out of `levels` (code 0, 1, ...; any other word is the next code)."""

    name: str
    levels: tuple[str, ...] | None = None

    @property
    def is_category(self) -> bool:
        """Whether the column holds words."""
        return self.levels is not None


@dataclass(frozen=True, slots=True)
class ColumnEncoder:
    """Turns a table into a matrix (n, d): numbers as they are, words as codes, what is missing as NaN.

    >>> encoder = ColumnEncoder((Column("age"), Column("ward", ("A", "B"))))
    >>> encoder.encode({"age": [61.0, 40.0], "ward": ["B", "Z"]})
    array([[61.,  1.],
           [40.,  2.]])
    """

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the matrix."""
        return tuple(column.name for column in self.columns)

    @property
    def categories(self) -> list[int]:
        """Which columns of the matrix are codes of words."""
        return [i for i, column in enumerate(self.columns) if column.is_category]

    def encode(self, table: Any) -> FloatArray:
        """Encode a DataFrame, or a mapping from name to values; further columns are ignored."""
        present = list(table.columns) if hasattr(table, "columns") else list(table)
        missing = [name for name in self.names if name not in present]
        if missing:
            raise InvalidInputError(
                f"columns are missing: {', '.join(missing)}; there are {', '.join(map(str, present))}"
            )
        encoded = [_encode(column, np.asarray(table[column.name])) for column in self.columns]
        return np.stack(encoded, axis=1) if encoded else np.empty((0, 0))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the columns as JSON values."""
        return [{"name": c.name, "levels": None if c.levels is None else list(c.levels)} for c in self.columns]

    @classmethod
    def from_json(cls, columns: Sequence[Mapping[str, Any]]) -> "ColumnEncoder":
        """Return the encoder that wrote these JSON values."""
        for column in columns:
            words = [column["name"], *(column["levels"] or ())]
            if not all(isinstance(word, str) for word in words):
                raise InvalidInputError(f"the names and levels of columns must be text, got {words!r:.60}")
        names = [column["name"] for column in columns]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"the names of columns must be distinct, got {names!r:.80}")
        return cls(tuple(Column(c["name"], None if c["levels"] is None else tuple(c["levels"])) for c in columns))

    @classmethod
    def fit(cls, table: Any, *, names: Iterable[str] | None = None) -> "ColumnEncoder":
        """Learn from a DataFrame which columns are numbers and which words the others hold."""
        chosen = list(table.columns) if names is None else list(names)
        return cls(tuple(_learn(str(name), np.asarray(table[name])) for name in chosen))


def _learn(name: str, values: Any) -> Column:
    if values.dtype.kind in "fiub":
        return Column(name)
    present = [value for value in values if not _is_missing(value)]
    if all(_as_number(value) is not None for value in present):
        return Column(name)
    words, counts = np.unique(np.array([str(value) for value in present]), return_counts=True)
    most_common = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return Column(name, tuple(sorted(str(words[i]) for i in most_common)))


def _encode(column: Column, values: Any) -> FloatArray:
    if column.levels is not None:
        codes = {level: float(code) for code, level in enumerate(column.levels)}
        other = float(len(column.levels))
        return np.array([np.nan if _is_missing(value) else codes.get(str(value), other) for value in values])
    encoded = values.astype(np.float64) if values.dtype.kind in "fiub" else np.empty(len(values))
    if values.dtype.kind in "fiub" and not np.isinf(encoded).any():
        return encoded
    for row, value in enumerate(values):
        number = np.nan if _is_missing(value) else _as_number(value)
        if number is None or np.isinf(number):
            raise InvalidInputError(f"column {column.name!r} holds numbers, got {value!r:.40} in row {row}")
        encoded[row] = number
    return encoded


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas', without importing it
        return True
    return bool(np.isnan(value)) if isinstance(value, float | np.floating) else value == ""


def _as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
