"""Read columns by name from any table, and encode numbers and categories as one numeric matrix."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

MOST_LEVELS = 50  # the rest of a column's categories count as "other"


def is_table(X: Any) -> bool:
    """Return whether rows have named columns: a pandas, polars or pyarrow table, or a mapping from name to values."""
    # a lazy table would warn if it were asked itself; SciPy's dictionary of keys is a mapping, but no table
    return (isinstance(X, Mapping) and not hasattr(X, "shape")) or hasattr(type(X), "columns")


def column_names(table: Any) -> list[str]:
    """Return the names of a table's columns."""
    return list(table) if isinstance(table, Mapping) else list(_eager(table).columns)


def column_values(table: Any, name: str) -> npt.NDArray[Any]:
    """Return one column of a table as an array, (n,); text stays apart from missing values.

    >>> column_values({"ward": ["A", float("nan")]}, "ward")
    array(['A', nan], dtype=object)
    """
    if not isinstance(table, Mapping):
        return _eager(table)[name].to_numpy()
    values = table[name]
    column = np.asarray(values)
    if column.dtype.kind in "US" and not hasattr(values, "dtype"):  # NaN would have become the text "nan"
        column = np.empty(len(values), dtype=object)
        column[:] = values
    return column


def require_columns(wanted: Iterable[str], table: Any) -> None:
    """Refuse a table that lacks one of the columns."""
    present = column_names(table)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise InvalidInputError(f"columns are missing: {', '.join(missing)}; there are {', '.join(map(str, present))}")


def _eager(table: Any) -> "nw.DataFrame[Any]":
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # rows as arrays or mappings need none of it

    try:
        return nw.from_native(table, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        raise InvalidInputError(f"{type(table).__name__} is not a table that can be read: {error!s:.200}") from None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a number, or one of the categories in `levels` (code 0, 1, ...; any other is the next code)."""

    name: str
    levels: tuple[str, ...] | None = None

    @property
    def is_category(self) -> bool:
        """Whether the column is categorical."""
        return self.levels is not None


@dataclass(frozen=True, slots=True)
class ColumnEncoder:
    """Turns a table into a matrix (n, d): numbers as they are, categories as codes, missing values as NaN.

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
        """Which columns of the matrix are codes of categories."""
        return [i for i, column in enumerate(self.columns) if column.is_category]

    def encode(self, table: Any) -> FloatArray:
        """Encode a table, or a mapping from name to values; further columns are ignored."""
        require_columns(self.names, table)
        encoded = [_encode(column, column_values(table, column.name)) for column in self.columns]
        return np.stack(encoded, axis=1) if encoded else np.empty((0, 0))

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        if len(set(self.names)) != len(self.names):
            raise InvalidInputError(f"the names of columns must be distinct, got {self.names!r:.80}")

    @classmethod
    def fit(cls, table: Any, *, names: Iterable[str] | None = None) -> "ColumnEncoder":
        """Learn from a table which columns are numbers, and the categories of the others."""
        chosen = column_names(table) if names is None else list(names)
        return cls(tuple(_learn(str(name), column_values(table, name)) for name in chosen))


def _learn(name: str, values: Any) -> Column:
    if values.dtype.kind in "fiub":
        return Column(name)
    present = [value for value in values if not _is_missing(value)]
    if all(_as_number(value) is not None for value in present):
        return Column(name)
    categories, counts = np.unique(np.array([str(value) for value in present]), return_counts=True)
    most_common = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return Column(name, tuple(sorted(str(categories[i]) for i in most_common)))


def _encode(column: Column, values: Any) -> FloatArray:
    if column.levels is not None:
        codes = {level: float(code) for code, level in enumerate(column.levels)}

        def code(value: Any) -> float:
            return np.nan if _is_missing(value) else codes.get(str(value), float(len(codes)))

        # most cells are categories seen in training
        return np.array([codes[value] if type(value) is str and value in codes else code(value) for value in values])
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
