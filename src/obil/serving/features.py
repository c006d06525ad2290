"""Turn a matrix of numbers, category codes and missing values into the inputs of a network."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.serving.networks.network_kernels import CURVE, LEVEL, MISSING, Float32Array, encode_rows

Curve = tuple[FloatArray, FloatArray]  # knots, increasing, and the value at each


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap:
    """Maps each column to inputs: a number through piecewise-linear curves, a code to one input per level.

    A curve is constant, or extrapolates linearly, beyond its last knots. A missing value is 0 in all of them, and 1
    in an input of its own where the column had missing values in training. A code that was not seen in training is 0
    in every level.

    >>> curve = FeatureMap.of_columns([[(np.array([0.0, 10.0]), np.array([-1.0, 1.0]))]], straight=True)
    >>> curve.encode(np.array([[5.0], [20.0], [np.nan]])).ravel().tolist()
    [0.0, 3.0, 0.0]
    """

    layout: IntArray  # (inputs, 4) of each: its column, CURVE, LEVEL or MISSING, its first knot, the one past its last
    curves: FloatArray  # (2, knots of all inputs): knots and values; the knot of a level is its code
    straight: bool  # whether curves extrapolate beyond their last knots
    n_features: int  # the width of a row
    table: FloatArray = field(init=False)  # (3, knots of all inputs): the curves, and their slope in x/2 from each knot

    def __post_init__(self) -> None:
        if self.curves.ndim != 2 or len(self.curves) != 2:
            raise InvalidInputError(f"the curves of a network are damaged: they have the shape {self.curves.shape}")
        knots, values = self.curves
        # from one input's last knot to the next's first the slope means nothing and is not used
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slopes = np.append(np.diff(values) / np.diff(0.5 * knots), 0.0) if knots.size else np.empty(0)
        slopes[~np.isfinite(slopes)] = 0.0  # knots too close for a slope
        object.__setattr__(self, "table", np.stack([knots, values, slopes]))

    @property
    def n_inputs(self) -> int:
        """The number of inputs that are made of a row."""
        return len(self.layout)

    @classmethod
    def of_columns(
        cls, columns: Sequence[Sequence[Curve] | FloatArray], *, straight: bool, missing: Collection[int] = ()
    ) -> "FeatureMap":
        """Return the map of columns: each has curves, or as an array the codes of its levels."""
        layout: list[tuple[int, int, int, int]] = []
        knots: list[FloatArray] = [np.empty(0)]
        values: list[FloatArray] = [np.empty(0)]
        end = 0
        for j, column in enumerate(columns):
            kind = LEVEL if isinstance(column, np.ndarray) else CURVE
            curves = [(np.array([code]), np.zeros(1)) for code in column] if kind == LEVEL else column
            for own_knots, own_values in curves:
                layout.append((j, kind, end, end + len(own_knots)))
                knots.append(own_knots)
                values.append(own_values)
                end += len(own_knots)
            if j in missing:
                layout.append((j, MISSING, 0, 0))
        table = np.array(layout, dtype=np.int64).reshape(-1, 4)
        return cls(table, np.stack([np.concatenate(knots), np.concatenate(values)]), straight, len(columns))

    def encode(self, matrix: npt.ArrayLike) -> Float32Array:
        """Return the inputs of rows, (n, n_inputs)."""
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise InvalidInputError(f"a row has {self.n_features} features, got an array of shape {rows.shape}")
        inputs = np.empty((len(rows), self.n_inputs), dtype=np.float32)
        if not encode_rows(rows, self.layout, self.table, self.straight, inputs):
            raise InvalidInputError("features must be finite numbers, or NaN where one is missing: got infinity")
        return inputs

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold: a kernel does not check it again."""
        layout, curves, n_features = self.layout, self.curves, self.n_features
        sound = layout.ndim == 2 and layout.shape[1:] == (4,) and len(layout) > 0
        if sound:
            columns, kinds, first, last = layout.T
            least = np.select([kinds == CURVE, kinds == LEVEL], [2, 1], 0)
            sound = (
                bool(((columns >= 0) & (columns < n_features)).all())
                and bool(np.isin(kinds, (CURVE, LEVEL, MISSING)).all())
                and bool(((first >= 0) & (first <= last) & (last <= curves.shape[1]) & (last - first >= least)).all())
                and bool(np.isfinite(curves).all())
                and all(_increases(curves[0, a:b]) for a, b in zip(first, last, strict=True))
            )
        if not sound:
            raise InvalidInputError("the feature map of a network is damaged")


def _increases(knots: FloatArray) -> bool:
    """Return whether knots increase; compared one by one, for a difference of the largest numbers is infinite."""
    return bool((knots[1:] > knots[:-1]).all())
