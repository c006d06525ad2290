"""Count what in the rows of a stream was not so in training, and makes their scores worth less."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obil.datasets.table_stream import Columns
from obil.serving.columns import Column


@dataclass(slots=True)
class UnusualRows:
    """Rows without any feature, and cells with a category that training did not have, in this run.

    >>> unusual = UnusualRows((Column("age"), Column("ward", ("A", "B"))))
    >>> unusual.count({"age": np.array([50.0, np.nan]), "ward": np.array(["Z", np.nan], dtype=object)})
    >>> unusual.without_features, unusual.unseen
    (1, {'ward': 1})
    """

    columns: tuple[Column, ...]
    n_rows: int = 0
    without_features: int = 0
    unseen: dict[str, int] = field(default_factory=dict)  # by column

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
            if empty.any():
                empty &= [not isinstance(cell, str) for cell in values] if column.is_category else np.isnan(values)
        self.without_features += int(empty.sum())

    def _count_unseen(self, name: str, levels: tuple[str, ...], values: Any) -> None:
        n_unseen = sum(cell not in levels for cell in values.tolist() if isinstance(cell, str))
        if n_unseen:
            self.unseen[name] = self.unseen.get(name, 0) + n_unseen

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return {"without_features": self.without_features, "unseen_categories": dict(self.unseen)}

    def lines(self) -> list[str]:
        """Return a line for each finding."""
        found = []
        if self.without_features:
            found.append(
                f"{self.without_features:,} of the {self.n_rows:,} rows of this run have no feature at all: what the "
                "model makes of missing values decides them"
            )
        found += [
            f"column {name!r:.60} has a category that the training table did not have, or not often, in {count:,} of "
            f"the {self.n_rows:,} rows of this run"
            for name, count in self.unseen.items()
        ]
        return found
