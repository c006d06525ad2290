"""Turn a few features of a row, and when it came, into the inputs of a recalibration: one number each."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.columns import ColumnEncoder
from obil.serving.records import JsonFloats

MOST_FEATURES = 8
N_WAVES = 8  # of `season_of`
FARTHEST = 3.0  # standard deviations, and log odds


@dataclass(frozen=True, slots=True, eq=False)
class RowInputs:
    """Which features are inputs and how each becomes one number, followed by the season of the row.

    A number is standardised by its training median and standard deviation, a category becomes the log odds of the
    positive class by its training rows, less those of all; both are cut at +-3. What is missing or unknown is 0.

    >>> inputs = RowInputs((1, 0), np.array([5.0, 0.0]), np.array([2.0, 1.0]), (0, 2), np.array([[0, 0], [-0.4, 0.9]]))
    >>> rows, evidence = np.array([[1.0, 7.0], [np.nan, 99.0]]), np.zeros((2, 1, 11, 2))
    >>> inputs.write(rows, None, evidence, 1)
    >>> evidence[:, 0, 1:4, 1].tolist()  # the second feature, the category, and the first wave of a day
    [[1.0, 0.9, 0.0], [3.0, 0.0, 0.0]]
    """

    features: tuple[int, ...]  # J places in the matrix of a row
    centres: JsonFloats  # (J,) of numbers
    scales: JsonFloats  # (J,)
    n_levels: tuple[int, ...]  # (J,) codes of a category; 0 of a number
    effects: FloatArray  # (J, C) of each code
    columns: ColumnEncoder | None = None  # of these features, where rows stay a table with strings
    places: IntArray = field(init=False)
    levels: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", np.array(self.features, dtype=np.int64))
        object.__setattr__(self, "levels", np.array(self.n_levels, dtype=np.int64))

    @property
    def size(self) -> int:
        """The number of inputs, D: of the features and the season."""
        return len(self.features) + N_WAVES

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold: the kernel does not check its indices."""
        n = len(self.features)
        shapes = (self.centres.shape, self.scales.shape, self.levels.shape, self.effects.shape[:1])
        whole = self.effects.ndim == 2 and all(shape == (n,) for shape in shapes) and n <= MOST_FEATURES
        if not whole or len(set(self.features)) != n or min(self.features, default=0) < 0:
            raise InvalidInputError(f"the inputs of a model must be those of its features, got {self.features!r:.80}")
        if min(self.n_levels, default=0) < 0 or max(self.n_levels, default=0) > self.effects.shape[1]:
            raise InvalidInputError(f"the inputs of a model must know each category, got {self.n_levels!r:.80}")
        finite = all(np.isfinite(values).all() for values in (self.centres, self.scales, self.effects))
        if not finite or not (self.scales > 0.0).all():
            raise InvalidInputError("the inputs of a model must be scaled by finite numbers above 0")
        if self.columns is not None and len(self.columns.columns) != n:
            raise InvalidInputError(f"the inputs of a model must have {n} columns, got {len(self.columns.columns)}")

    def write(self, matrix: Any, at: Any, evidence: FloatArray, first: int) -> None:
        """Write the inputs of rows into their evidence, (n, F, S, 2), from a source on: x as [0, x], in each fold."""
        season = first + len(self.features)
        evidence[:, :, season:] = 0.0
        if season > first:
            places = self.places
            if type(matrix) is not np.ndarray or matrix.dtype != np.float64 or not matrix.flags.c_contiguous:
                matrix, places = self._chosen(matrix), np.arange(len(self.features))
            write_features(matrix, places, self.centres, self.scales, self.levels, self.effects, evidence, first)
        if at is not None:
            from obil.serving.season import season_of  # noqa: PLC0415  # most streams give no times

            evidence[:, :, season:, 1] = season_of(at, len(evidence))[:, None]

    def _chosen(self, matrix: Any) -> FloatArray:
        """Return the features as numbers and codes, (n, J)."""
        if not hasattr(matrix, "iloc"):
            return np.ascontiguousarray(np.asarray(matrix)[:, self.places], dtype=np.float64)
        table = matrix.iloc[:, list(self.features)]
        if self.columns is not None:
            return np.ascontiguousarray(self.columns.encode(table))
        return np.ascontiguousarray(table.to_numpy(dtype=np.float64, na_value=np.nan))


@compiled
def write_features(
    matrix: FloatArray,
    places: IntArray,
    centres: FloatArray,
    scales: FloatArray,
    levels: IntArray,
    effects: FloatArray,
    evidence: FloatArray,
    first: int,
) -> None:
    """Write each feature of rows (n, d) into the evidence of every fold, (n, F, S, 2), from a source on."""
    for t in range(matrix.shape[0]):
        for j in range(places.size):
            value = matrix[t, places[j]]
            x = 0.0
            if levels[j] > 0:
                if 0.0 <= value < levels[j]:
                    x = effects[j, int(value)]
            elif not np.isnan(value):
                x = (value - centres[j]) / scales[j]
            x = min(max(x, -FARTHEST), FARTHEST)
            for fold in range(evidence.shape[1]):
                evidence[t, fold, first + j, 0] = 0.0
                evidence[t, fold, first + j, 1] = x
