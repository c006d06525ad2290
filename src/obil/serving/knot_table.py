"""Hold the first layer of networks as a table: what each column adds to every unit, at each of the column's knots.

Between two knots every input of a column is a straight line, and so is what the column adds to a unit. A row then
costs one search and one interpolation per column, whatever the number of inputs made from it.
"""

from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.serving.features import FeatureMap
from obil.serving.network_kernels import CURVE, LARGEST_INPUT, LEVEL, MISSING, Float32Array

LARGEST_TABLE = 16_000_000  # cells; networks on more columns than that are faster without


@dataclass(frozen=True, slots=True, eq=False)
class KnotTable:
    """The units before their activation, as sums over the columns."""

    kinds: IntArray  # (d,) CURVE or LEVEL
    starts: IntArray  # (d + 1,) where the knots of each column begin
    knots: FloatArray  # (knots of all columns,) increasing in each; codes where the kind is LEVEL
    ends: FloatArray  # (d, 2) what a number is clipped to
    units: Float32Array  # (knots + d + 1, units) at each knot; where each column is missing; the biases

    @classmethod
    def of(cls, features: FeatureMap, weights: Float32Array, biases: Float32Array) -> "KnotTable | None":
        """Return the table of a first layer, (inputs, units) and (units,), or None where it has none or a huge one."""
        by_column = [np.flatnonzero(features.layout[:, 0] == j) for j in range(features.n_features)]
        columns = [_column_knots(features, places) for places in by_column]
        if any(column is None for column in columns):
            return None
        kinds, knots, ends = zip(*(column for column in columns if column is not None), strict=True)
        starts = np.concatenate([[0], np.cumsum([len(own) for own in knots])]).astype(np.int64)
        if (starts[-1] + len(knots) + 1) * len(biases) > LARGEST_TABLE:
            return None
        missing = np.full((1, features.n_features), np.nan)
        units = np.empty((starts[-1] + len(knots) + 1, len(biases)), dtype=np.float32)
        units[-1] = biases
        for j, (places, own) in enumerate(zip(by_column, knots, strict=True)):
            rows = np.repeat(missing, len(own) + 1, axis=0)
            rows[:-1, j] = own
            added = features.encode(rows)[:, places].astype(np.float64) @ weights[places].astype(np.float64)
            units[starts[j] : starts[j + 1]] = added[:-1]
            units[starts[-1] + j] = added[-1]
        return cls(np.array(kinds, dtype=np.int64), starts, np.concatenate(knots), np.array(ends), units)


def _column_knots(features: FeatureMap, places: IntArray) -> tuple[int, FloatArray, tuple[float, float]] | None:
    """Return a column's kind, the knots of all its inputs and its ends; None where no table follows its inputs."""
    inputs = [tuple(features.layout[place, 1:].tolist()) for place in places if features.layout[place, 1] != MISSING]
    if not inputs:
        return CURVE, np.empty(0), (0.0, 0.0)
    knots, values = np.concatenate([features.curves[:, first:last] for _, first, last in inputs], axis=1)
    kinds = {kind for kind, _, _ in inputs}
    if len(kinds) > 1 or np.abs(values).max() > LARGEST_INPUT:
        return None
    if kinds == {LEVEL}:
        return LEVEL, np.unique(knots), (0.0, 0.0)
    if not features.straight:
        return CURVE, np.unique(knots), (float(knots.min()), float(knots.max()))
    # several inputs that extrapolate beyond their last knots would each be clipped at another place
    return None if len(knots) > 2 or values[0] == values[1] else (CURVE, knots, _straight_ends(knots, values))


def _straight_ends(knots: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Return where a straight line through two knots reaches the largest inputs; halves never overflow."""
    scale = (0.5 * knots[1] - 0.5 * knots[0]) / (values[1] - values[0])
    with np.errstate(over="ignore"):  # what is clipped to infinity is not clipped
        far = 2.0 * (0.5 * knots[0] + scale * (np.array([-LARGEST_INPUT, LARGEST_INPUT]) - values[0]))
    return float(far.min()), float(far.max())
