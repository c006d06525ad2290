"""Run several networks on the same columns, and their gating network, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.serving.features import FeatureMap
from obil.serving.networks.dense_network import (
    CHUNK_ROWS,
    FEW_ROWS,
    DenseNetwork,
    DenseScorer,
    layer_buffers,
    run_layers,
    softmax_weights,
)
from obil.serving.networks.network_kernels import (
    CURVE,
    LARGEST_INPUT,
    LEVEL,
    MISSING,
    Float32Array,
    first_layer_of_rows,
    stack_rows,
)
from obil.serving.scorers import as_matrix

LARGEST_TABLE = 16_000_000  # cells; networks on more columns than that are faster without


class KnotTable(NamedTuple):
    """The first layer of networks: what each column adds to every unit, at each of the column's knots."""

    kinds: IntArray  # (d,) CURVE or LEVEL
    starts: IntArray  # (d + 1,) where the knots of each column begin
    knots: FloatArray  # (knots of all columns,) increasing in each; codes where the kind is LEVEL
    ends: FloatArray  # (d, 2) what a number is clipped to
    units: Float32Array  # (knots + d + 1, units) at each knot; where each column is missing; the biases


def knot_table(features: FeatureMap, weights: Float32Array, biases: Float32Array) -> KnotTable | None:
    """Return the table of a first layer, (inputs, units) and (units,), or None where it has none or a huge one.

    Between two knots every input of a column is a straight line, and so is what the column adds to a unit. A row then
    costs one search and one interpolation per column, whatever the number of inputs made from it.
    """
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
    return KnotTable(np.array(kinds, dtype=np.int64), starts, np.concatenate(knots), np.array(ends), units)


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


@dataclass(frozen=True, slots=True, eq=False)
class NetworkStack:
    """Binary networks of one shape: their first layers in one table, the others in a kernel or as matrix products.

    A few rows go through a compiled kernel one by one; many go through matrix products.
    """

    table: KnotTable  # first layers of the members, then that of the gating network
    rest: tuple[DenseNetwork, ...]  # the members without their first layers
    fusion: FloatArray  # (2, M) log odds of class 1 in each member's training, and the weights without a gating network
    gating: DenseNetwork | None  # without its first layer; gives (n, M) logits of the members' weights
    layers: tuple[Float32Array, ...]  # (M, inputs + 1, outputs) the members' other layers, biases last
    gating_layer: Float32Array  # (inputs + 1, M), empty without a gating network

    @classmethod
    def of(
        cls, scorers: Sequence[DenseScorer], *, weights: FloatArray, gating: DenseNetwork | None
    ) -> "NetworkStack | None":
        """Return the stack of these scorers, or None where their inputs and shapes differ or a head is not binary."""
        first = scorers[0]
        alike = all(
            scorer.features is first.features
            and scorer.head == "tanh"
            and scorer.network.widths == first.network.widths
            for scorer in scorers
        )
        deep = len(first.network.weights) > 1  # a single layer has nothing to stack on its table
        if not alike or not deep or (gating is not None and len(gating.weights) != 2):
            return None
        everyone = [scorer.network for scorer in scorers] + ([] if gating is None else [gating])
        table = knot_table(
            first.features,
            np.hstack([network.weights[0] for network in everyone]),
            np.concatenate([network.biases[0] for network in everyone]),
        )
        if table is None:
            return None
        rest = tuple(_beyond_first(scorer.network) for scorer in scorers)
        log_priors = [np.log(scorer.training_prior[1] / scorer.training_prior[0]) for scorer in scorers]
        gating_rest = None if gating is None else _beyond_first(gating)
        return cls(
            table=table,
            rest=rest,
            fusion=np.stack([np.array(log_priors), weights]),
            gating=gating_rest,
            layers=tuple(np.stack(layer) for layer in zip(*map(_with_biases, rest), strict=True)),
            gating_layer=(np.empty((0, 0), dtype=np.float32) if gating_rest is None else _with_biases(gating_rest)[0]),
        )

    @property
    def n_features(self) -> int:
        """The width of a row."""
        return len(self.table.kinds)

    def scores(self, X: Any) -> FloatArray:
        """Return the fused raw scores, (n, 2)."""
        rows, table = as_matrix(X, self.n_features), self.table
        scores = np.zeros((len(rows), 2))
        if len(rows) > FEW_ROWS:
            sound = self._score_many(rows, scores)
        else:
            sound = stack_rows(rows, *table, self.layers, self.fusion, self.gating_layer, scores)
        if not sound:
            raise InvalidInputError("features must be finite numbers, or NaN where one is missing: got infinity")
        return scores

    def _score_many(self, rows: FloatArray, scores: FloatArray) -> bool:
        """Write the scores of rows; return whether every number was finite or missing."""
        table, n_members = self.table, self.fusion.shape[1]
        n_gating = max(len(self.gating_layer) - 1, 0)
        width = (table.units.shape[1] - n_gating) // n_members
        first = np.empty((min(len(rows), CHUNK_ROWS), table.units.shape[1]), dtype=np.float32)
        buffers = layer_buffers(self.rest[0], len(rows))
        gating_buffers = [] if self.gating is None else layer_buffers(self.gating, len(rows))
        for start in range(0, len(rows), CHUNK_ROWS):
            part = rows[start : start + CHUNK_ROWS]
            hidden = first[: len(part)]
            if not first_layer_of_rows(part, *table, hidden):
                return False
            ratios = np.empty((len(part), n_members))
            for m in range(n_members):
                own = hidden[:, m * width : (m + 1) * width]
                ratios[:, m] = run_layers(self.rest[m], own, buffers)[:, 0]
            ratios *= 2.0
            ratios -= self.fusion[0]
            fused = scores[start : start + len(part), 1]
            if self.gating is None:
                fused[:] = ratios @ self.fusion[1]
            else:
                weights = softmax_weights(run_layers(self.gating, hidden[:, n_members * width :], gating_buffers))
                fused[:] = np.einsum("nm,nm->n", weights, ratios)
        return True


def _beyond_first(network: DenseNetwork) -> DenseNetwork:
    return DenseNetwork(network.weights[1:], network.biases[1:])


def _with_biases(network: DenseNetwork) -> list[Float32Array]:
    return [np.vstack([weights, biases]) for weights, biases in zip(network.weights, network.biases, strict=True)]
