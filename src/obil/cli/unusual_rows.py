"""Count what in the rows of a stream was not so in training, and makes their scores worth less."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obil.datasets.table_stream import Columns
from obil.serving.columns import Column


@dataclass(slots=True)
class UnusualRows:
    """Rows without any feature, and cells that no row of the training table was like, in this run.

    >>> unusual = UnusualRows((Column("age"), Column("ward", ("A", "B"))), {"age": (0.0, 120.0)})
    >>> unusual.count({"age": np.array([500.0, np.nan]), "ward": np.array(["Z", np.nan], dtype=object)})
    >>> unusual.without_features, unusual.unseen, unusual.outside
    (1, {'ward': 1}, {'age': 1})
    """

    columns: tuple[Column, ...]
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of numbers; none where not known
    n_rows: int = 0
    without_features: int = 0
    unseen: dict[str, int] = field(default_factory=dict)  # categories, by column
    outside: dict[str, int] = field(default_factory=dict)  # numbers far outside the training table, by column

    def __post_init__(self) -> None:
        self.columns = tuple(sorted(self.columns, key=lambda column: column.is_category))  # numbers tell at once

    def count(self, rows: Columns) -> None:
        """Count rows that are decided."""
        empty = np.ones(len(next(iter(rows.values()))), dtype=bool)  # of all features looked at so far
        self.n_rows += len(empty)
        for column in self.columns:
            values = rows[column.name]
            if column.levels is not None:
                self._count_unseen(column.name, column.levels, values)
            elif column.name in self.limits:
                self._count_outside(column.name, *self.limits[column.name], values)
            if empty.any():
                empty &= [not isinstance(cell, str) for cell in values] if column.is_category else np.isnan(values)
        self.without_features += int(empty.sum())

    def _count_unseen(self, name: str, levels: tuple[str, ...], values: Any) -> None:
        n_unseen = sum(cell not in levels for cell in values.tolist() if isinstance(cell, str))
        if n_unseen:
            self.unseen[name] = self.unseen.get(name, 0) + n_unseen

    def _count_outside(self, name: str, low: float, high: float, values: Any) -> None:
        n_outside = int(np.count_nonzero(values < low) + np.count_nonzero(values > high))
        if n_outside:
            self.outside[name] = self.outside.get(name, 0) + n_outside

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "without_features": self.without_features,
            "unseen_categories": dict(self.unseen),
            "far_outside": dict(self.outside),
        }

    def lines(self) -> list[str]:
        """Return a line for each finding."""
        found = []
        if self.without_features:
            found.append(
                f"{self.without_features:,} of the {self.n_rows:,} rows of this run have no feature at all: what the "
                "model makes of missing values decides them, and they are left out of the prior"
            )
        found += [
            f"column {name!r:.60} has a category that the training table did not have, or not often, in {count:,} of "
            f"the {self.n_rows:,} rows of this run"
            for name, count in self.unseen.items()
        ]
        found += [
            f"column {name!r:.60} is far outside the training table (below {self.limits[name][0]:.4g} or above "
            f"{self.limits[name][1]:.4g}) in {count:,} of the {self.n_rows:,} rows of this run: check its unit and its "
            "decimal marks"
            for name, count in self.outside.items()
        ]
        return found
