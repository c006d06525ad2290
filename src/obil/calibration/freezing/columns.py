"""Follow a column through the steps of a pipeline: each step changes what the column's values become."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.serving.preprocessing import COLUMN, Preprocessing


class NotFrozenError(Exception):
    """Raised while freezing, with the reason as text; whoever asked keeps the classifier as it is."""


@dataclass(frozen=True, slots=True)
class FrozenColumn:
    """What a step sees of one column: a number, (x - shift) / divisor * scale + offset, or a category's value.

    The four steps are those of scikit-learn's scalers, in their order, so that no bit of a number differs.
    `codes` are those of strings, where the column holds strings: every step until its encoder sees the strings.
    """

    source: int  # the column of the rows
    name: str | None = None  # where the rows are a table
    codes: Mapping[str, float] | None = None
    shift: float = 0.0
    divisor: float = 1.0
    scale: float = 1.0
    offset: float = 0.0
    values: Mapping[float, float] | None = None  # of a category
    other: float = np.inf  # of a category that is not in `values`; infinite where it is refused
    missing: float = np.nan  # of a missing value

    @property
    def is_untouched(self) -> bool:
        """Whether the column is still as it is in the rows."""
        return self == FrozenColumn(self.source, self.name)

    def scaled(
        self, *, shift: float = 0.0, divisor: float = 1.0, scale: float = 1.0, offset: float = 0.0
    ) -> "FrozenColumn":
        """Return the column after (x - shift) / divisor * scale + offset."""
        if self.codes is not None:
            raise NotFrozenError(f"column {self.name!r} holds strings that no encoder turns into numbers")

        def after(value: float) -> float:
            return (value - shift) / divisor * scale + offset

        moved = replace(self, other=after(self.other), missing=after(self.missing))
        if self.values is not None:
            return replace(moved, values={key: after(value) for key, value in self.values.items()})
        if (self.shift, self.divisor, self.scale, self.offset) == (0.0, 1.0, 1.0, 0.0):
            return replace(moved, shift=shift, divisor=divisor, scale=scale, offset=offset)
        # one more scaler: the factor and the offset absorb it
        return replace(moved, scale=self.scale / divisor * scale, offset=after(self.offset))

    def filled(self, fill: float) -> "FrozenColumn":
        """Return the column with this value where one is missing."""
        values = self.values
        if values is not None:
            values = {key: _or_fill(value, fill) for key, value in values.items()}
        return replace(self, values=values, other=_or_fill(self.other, fill), missing=_or_fill(self.missing, fill))

    def indicator(self) -> "FrozenColumn":
        """Return the column that is 1 where this one is missing, else 0."""
        return self.mapped({}, other=0.0, missing=1.0)

    def mapped(self, table: Mapping[float, float], *, other: float, missing: float) -> "FrozenColumn":
        """Return the column after an encoder: `table` holds the value of each category it knows."""

        def after(value: float) -> float:
            return missing if np.isnan(value) else table.get(value, other)

        if self.values is not None:
            values = {key: after(value) for key, value in self.values.items()}
            now = replace(self, values=values, other=np.inf if np.isinf(self.other) else after(self.other))
        elif (self.shift, self.divisor, self.scale, self.offset) == (0.0, 1.0, 1.0, 0.0):
            now = replace(self, values=dict(table), other=other)
        else:
            raise NotFrozenError(f"column {self.source} is scaled before it is encoded")
        return replace(now, name=None, codes=None, missing=after(self.missing))

    def code(self, category: Any) -> float:
        """Return the number that stands for a category here; NaN for a missing value."""
        if category is None or category != category:  # noqa: PLR0124  # NaN
            return np.nan
        if self.codes is None:
            return float(category)
        if category not in self.codes:
            raise NotFrozenError(f"column {self.name!r} has the category {category!r:.40}, unknown from its rows")
        return self.codes[category]


def as_preprocessing(columns: Sequence[FrozenColumn], n_features: int) -> Preprocessing:
    """Return the table of what each column is."""
    packed = np.zeros(len(columns), COLUMN)
    tables: list[FloatArray] = [np.empty((2, 0))]
    end = 0
    for place, column in enumerate(columns):
        if column.codes is not None:
            raise NotFrozenError(f"column {column.name!r} holds strings that no encoder turns into numbers")
        kept = {key: value for key, value in (column.values or {}).items() if value != column.other}
        divisor = column.divisor if column.values is None else 0.0
        packed[place] = (
            column.shift, divisor, column.scale, column.offset, column.other, column.missing,
            column.source, end, end + len(kept),
        )  # fmt: skip
        tables.append(np.array(sorted(kept.items()), dtype=np.float64).reshape(-1, 2).T)
        end += len(kept)
    return Preprocessing(packed, np.concatenate(tables, axis=1), n_features)


def _or_fill(value: float, fill: float) -> float:
    return fill if np.isnan(value) else value
