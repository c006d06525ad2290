"""Impute, scale and encode columns as a fitted pipeline does, by one table of what each column of its output is."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.networks.layers import LayerScorer
from obil.serving.scorers import as_matrix
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


@dataclass(frozen=True, slots=True, eq=False)
class Preprocessing:
    """The columns that a pipeline makes, each from one column of the rows."""

    columns: Annotated[npt.NDArray[np.void], COLUMN]  # (outputs,)
    table: FloatArray  # (2, keys of all columns): keys, increasing within a column, and the value of each
    n_features: int  # the width of a row

    def transform(self, X: Any) -> FloatArray:
        """Return the pipeline's output, (n, outputs)."""
        rows = as_matrix(X, self.n_features)
        made = np.empty((len(rows), len(self.columns)))
        source = fill_columns(rows, self.columns, self.table, made)
        if source >= 0:
            raise InvalidInputError(
                f"feature {source} must be a finite number or a category known from training, got another"
            )
        return made

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold: a kernel reads the table without asking."""
        columns, table = self.columns, self.table
        first, last = columns["first"], columns["last"]
        sound = (
            columns.ndim == table.ndim - 1 == 1
            and len(table) == 2
            and bool(((columns["source"] >= 0) & (columns["source"] < self.n_features)).all())
            and bool(((first >= 0) & (first <= last) & (last <= table.shape[1])).all())
            and all(np.isfinite(columns[name]).all() for name in ("shift", "divisor", "scale", "offset"))
        )
        if not sound:
            raise InvalidInputError("the preprocessing of a model is damaged")


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
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.scorer.n_classes

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

    def require_sound(self) -> None:
        """Refuse a classifier that takes other columns than the preprocessing makes."""
        if self.scorer.n_features != len(self.preprocessing.columns):
            raise InvalidInputError("the preprocessing of a model is damaged: its classifier takes other columns")


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
