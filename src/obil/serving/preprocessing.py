"""Impute, scale and encode columns as a fitted pipeline does, by one table of what each column of its output is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.dense_network import as_matrix
from obil.serving.layers import LayerScorer
from obil.serving.trees import TreeScorer

# A number x becomes (x - shift) / divisor * scale + offset. Where divisor is 0, x is a category: it becomes the value
# of its key among keys[first:last], else `other`. A missing value becomes `missing`. What is then infinite is refused.
COLUMN = np.dtype(
    [
        ("shift", "f8"), ("divisor", "f8"), ("scale", "f8"), ("offset", "f8"), ("other", "f8"), ("missing", "f8"),
        ("source", "i4"), ("first", "i4"), ("last", "i4"),
    ],
    align=True,
)  # fmt: skip
_INNER: dict[str, type[TreeScorer] | type[LayerScorer]] = {"trees": TreeScorer, "layers": LayerScorer}


@dataclass(frozen=True, slots=True, eq=False)
class Preprocessing:
    """The columns that a pipeline makes, each from one column of the rows."""

    columns: npt.NDArray[np.void]  # (outputs,) of COLUMN
    table: FloatArray  # (2, keys of all columns): keys, increasing within a column, and the value of each
    n_features: int  # the width of a row

    def transform(self, X: Any) -> FloatArray:
        """Return the pipeline's output, (n, outputs)."""
        rows = as_matrix(X)
        if rows.shape[1] != self.n_features:
            raise InvalidInputError(f"a row has {self.n_features} features, got an array of shape {rows.shape}")
        made = np.empty((len(rows), len(self.columns)))
        source = fill_columns(rows, self.columns, self.table, made)
        if source >= 0:
            raise InvalidInputError(
                f"feature {source} must be a finite number or a category known from training, got another"
            )
        return made


@dataclass(frozen=True, slots=True, eq=False)
class PreprocessedScorer:
    """A frozen pipeline: its preprocessing, then its classifier."""

    preprocessing: Preprocessing
    scorer: TreeScorer | LayerScorer

    @property
    def n_features(self) -> int:
        """The width of a row."""
        return self.preprocessing.n_features

    @property
    def batch_invariant(self) -> bool:
        """Whether the bits of a row's scores do not depend on the rows beside it."""
        return self.scorer.batch_invariant

    @property
    def link(self) -> str:
        """What the outputs of the classifier are."""
        return self.scorer.link

    @property
    def training_prior(self) -> FloatArray:
        """The class prior of the rows it was trained on, (K,)."""
        return self.scorer.training_prior

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores with the training prior divided out, (n, K)."""
        return self.scorer.scores(self.preprocessing.transform(X))

    def summary(self) -> str:
        """Return a short text that says what scores."""
        return f"{self.scorer.summary()} on {len(self.preprocessing.columns)} preprocessed columns"

    def describe(self) -> dict[str, Any]:
        """Return what is not an array, as JSON values."""
        inner = next(name for name, kind in _INNER.items() if isinstance(self.scorer, kind))
        return {"n_features": self.n_features, "inner": inner, "scorer": self.scorer.describe()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name."""
        columns = self.preprocessing.columns
        return (
            {f"columns.{name}": columns[name] for name in COLUMN.names or ()}
            | {"table": self.preprocessing.table}
            | {f"scorer.{name}": array for name, array in self.scorer.arrays().items()}
        )

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "PreprocessedScorer":
        """Return the scorer that gave these, checked: a kernel reads the table without asking."""
        own = {name.removeprefix("scorer."): array for name, array in arrays.items() if name.startswith("scorer.")}
        scorer = _INNER[described["inner"]].rebuild(described["scorer"], own)
        fields = {name: arrays[f"columns.{name}"] for name in COLUMN.names or ()}
        table, n_features = arrays["table"].astype(np.float64), described["n_features"]
        columns = np.zeros(scorer.n_features, COLUMN)
        sound = (
            type(n_features) is int
            and table.ndim == 2
            and len(table) == 2
            and all(field.shape == columns.shape for field in fields.values())
        )
        if sound:
            for name, field in fields.items():
                columns[name] = field
            first, last = columns["first"], columns["last"]
            sound = (
                bool(((columns["source"] >= 0) & (columns["source"] < n_features)).all())
                and bool(((first >= 0) & (first <= last) & (last <= table.shape[1])).all())
                and all(np.isfinite(columns[name]).all() for name in ("shift", "divisor", "scale", "offset"))
            )
        if not sound:
            raise InvalidInputError("the preprocessing of a model is damaged")
        return cls(Preprocessing(columns, table, n_features), scorer)


@compiled
def fill_columns(rows: FloatArray, columns: npt.NDArray[np.void], table: FloatArray, made: FloatArray) -> int:
    """Write the output of rows, (n, outputs); return the source of the first value that is refused, or -1."""
    for r in range(rows.shape[0]):
        for c in range(columns.shape[0]):
            column = columns[c]
            x = rows[r, column.source]
            if np.isnan(x):
                value = column.missing
            elif column.divisor != 0.0:
                value = (x - column.shift) / column.divisor * column.scale + column.offset
            else:
                value = column.other
                low, high = column.first, column.last
                while low < high:
                    middle = (low + high) // 2
                    if table[0, middle] < x:
                        low = middle + 1
                    else:
                        high = middle
                if low < column.last and table[0, low] == x:
                    value = table[1, low]
            if np.isinf(value):
                return int(column.source)
            made[r, c] = value
    return -1
