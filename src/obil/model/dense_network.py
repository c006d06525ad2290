"""Run small fully connected networks without the library that trained them, fast for one row and for many."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.model.features import FeatureMap
from obil.model.heads import as_balance, scores_of_outputs
from obil.model.network_kernels import Float32Array, end_layer, stack_row

CHUNK_ROWS = 1_024  # a layer's activations of all members then stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class DenseNetwork:
    """A network of linear layers with ReLU between them.

    >>> twice = DenseNetwork((np.array([[2.0]], dtype=np.float32),), (np.zeros(1, dtype=np.float32),))
    >>> twice.outputs(np.array([[3.0]], dtype=np.float32)).tolist()
    [[6.0]]
    """

    weights: tuple[Float32Array, ...]  # (inputs, outputs) of each layer
    biases: tuple[Float32Array, ...]  # (outputs,)

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of inputs, of units in each hidden layer, and of outputs."""
        return (self.weights[0].shape[0], *(weights.shape[1] for weights in self.weights))

    def outputs(self, inputs: Float32Array) -> Float32Array:
        """Return the outputs of the last layer, (n, outputs)."""
        outputs = np.empty((len(inputs), self.widths[-1]), dtype=np.float32)
        buffers = _buffers(self, len(inputs))
        for start in range(0, len(inputs), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            outputs[chunk] = _layers(self, inputs[chunk], buffers)
        return outputs

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name."""
        named: dict[str, npt.NDArray[Any]] = {}
        for layer, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            named |= {f"weights{layer}": weights, f"biases{layer}": biases}
        return named

    @classmethod
    def rebuild(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "DenseNetwork":
        """Return the network that gave these arrays, checked."""
        n_layers = sum(name.startswith("weights") for name in arrays)
        weights = tuple(arrays[f"weights{layer}"].astype(np.float32) for layer in range(n_layers))
        biases = tuple(arrays[f"biases{layer}"].astype(np.float32) for layer in range(n_layers))
        shapes = [layer.shape for layer in weights]
        fits = (
            n_layers > 0
            and all(len(shape) == 2 and min(shape) > 0 for shape in shapes)
            and all(before[1] == after[0] for before, after in pairwise(shapes))
            and all(bias.shape == (shape[1],) for bias, shape in zip(biases, shapes, strict=True))
        )
        if not fits or not all(np.isfinite(array).all() for array in (*weights, *biases)):
            raise InvalidInputError("the layers of a network do not fit each other or are not finite")
        return cls(weights, biases)


@dataclass(frozen=True, slots=True, eq=False)
class DenseScorer:
    """The scores of one network with the balance it was trained at divided out."""

    features: FeatureMap
    network: DenseNetwork
    head: str  # as in `obil.model.heads`
    balance: FloatArray  # (K,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "balance", as_balance(self.balance, head=self.head))
        wanted = 1 if self.head == "tanh" else len(self.balance)
        if self.network.widths[0] != self.features.n_inputs or self.network.widths[-1] != wanted:
            raise InvalidInputError("the layers of a network do not fit its features or its classes")

    @property
    def n_features(self) -> int | None:
        """The width of a row."""
        return self.features.n_features

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores, (n, K)."""
        outputs = outputs_of_rows(self.features, self.network, as_matrix(X))
        return scores_of_outputs(outputs, head=self.head, balance=self.balance)

    def describe(self) -> dict[str, Any]:
        """Return what is not an array, as JSON values."""
        return {"head": self.head, "balance": self.balance.tolist(), "features": self.features.describe()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name."""
        return {f"features.{name}": array for name, array in self.features.arrays().items()} | self.network.arrays()

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "DenseScorer":
        """Return the scorer that gave these, checked."""
        own = {name.removeprefix("features."): a for name, a in arrays.items() if name.startswith("features.")}
        layers = {name: array for name, array in arrays.items() if not name.startswith("features.")}
        features, network = FeatureMap.rebuild(described["features"], own), DenseNetwork.rebuild(layers)
        return cls(features, network, str(described["head"]), np.asarray(described["balance"], dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class DenseStack:
    """Several binary networks of one shape on the same inputs, and the network that weighs them, in one pass.

    One row goes through a compiled kernel; many go through matrix products.
    """

    features: FeatureMap
    networks: tuple[DenseNetwork, ...]
    fusion: FloatArray  # (2, M) log odds of class 1 in each member's training, and the weights without a weigher
    weigher: DenseNetwork | None  # gives (n, M) logits of the members' weights
    layers: tuple[Float32Array, ...]  # (M, inputs + 1, outputs) the members' layers, biases last
    weigher_layers: tuple[Float32Array, Float32Array]  # (inputs + 1, outputs), empty without a weigher

    @classmethod
    def of(
        cls, scorers: Sequence[DenseScorer], *, weights: FloatArray, weigher: DenseNetwork | None
    ) -> "DenseStack | None":
        """Return the stack of these scorers, or None where they do not share inputs, shape and a binary head."""
        first = scorers[0]
        alike = all(
            scorer.features is first.features
            and scorer.head == "tanh"
            and scorer.network.widths == first.network.widths
            for scorer in scorers
        )
        if not alike or (weigher is not None and len(weigher.weights) != 2):
            return None
        networks = tuple(scorer.network for scorer in scorers)
        log_balances = [np.log(scorer.balance[1] / scorer.balance[0]) for scorer in scorers]
        nothing = np.empty((0, 0), dtype=np.float32)
        own = (nothing, nothing) if weigher is None else _with_biases(weigher)
        return cls(
            features=first.features,
            networks=networks,
            fusion=np.stack([np.array(log_balances), weights]),
            weigher=weigher,
            layers=tuple(np.stack(layer) for layer in zip(*map(_with_biases, networks), strict=True)),
            weigher_layers=(own[0], own[1]),
        )

    def scores(self, X: Any) -> FloatArray:
        """Return the fused raw scores, (n, 2)."""
        rows, features = as_matrix(X), self.features
        if rows.shape[1] != features.n_features:
            raise InvalidInputError(f"a row has {features.n_features} features, got an array of shape {rows.shape}")
        scores = np.zeros((len(rows), 2))
        if len(rows) != 1:
            self._score_many(rows, scores)
            return scores
        score = stack_row(
            rows, features.layout, features.table, features.straight, self.layers, self.fusion, self.weigher_layers
        )
        if not math.isfinite(score):
            raise InvalidInputError("features must be finite numbers, or NaN where one is missing: got infinity")
        scores[0, 1] = score
        return scores

    def _score_many(self, rows: FloatArray, scores: FloatArray) -> None:
        buffers = _buffers(self.networks[0], len(rows))
        weigher_buffers = [] if self.weigher is None else _buffers(self.weigher, len(rows))
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            inputs = self.features.encode(rows[chunk])
            ratios = np.empty((len(inputs), len(self.networks)))
            for m, network in enumerate(self.networks):
                ratios[:, m] = _layers(network, inputs, buffers)[:, 0]
            ratios *= 2.0
            ratios -= self.fusion[0]
            if self.weigher is None:
                scores[chunk, 1] = ratios @ self.fusion[1]
            else:
                weights = softmax_weights(_layers(self.weigher, inputs, weigher_buffers))
                scores[chunk, 1] = np.einsum("nm,nm->n", weights, ratios)


def outputs_of_rows(features: FeatureMap, network: DenseNetwork, rows: FloatArray) -> Float32Array:
    """Return a network's outputs of rows, (n, outputs), a chunk of inputs at a time: rich inputs are many."""
    if len(rows) <= CHUNK_ROWS:
        return network.outputs(features.encode(rows))
    chunks = range(0, len(rows), CHUNK_ROWS)
    return np.concatenate([network.outputs(features.encode(rows[start : start + CHUNK_ROWS])) for start in chunks])


def as_matrix(X: Any) -> FloatArray:
    """Return rows as float64, (n, d)."""
    try:
        matrix = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"features must be numbers, got {str(error).splitlines()[0]:.120}") from None
    if matrix.ndim != 2:
        raise InvalidInputError(f"rows must be a table, (n, d), got an array of shape {matrix.shape}")
    return matrix


def softmax_weights(logits: Float32Array) -> FloatArray:
    """Return weights that sum to 1 in each row, (n, M)."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    raised = np.exp(shifted)
    weights: FloatArray = raised / raised.sum(axis=1, keepdims=True)
    return weights


def _buffers(network: DenseNetwork, n_rows: int) -> list[Float32Array]:
    """Return room for the outputs of each layer of up to a chunk of rows, to be used again and again."""
    return [np.empty((min(n_rows, CHUNK_ROWS), width), dtype=np.float32) for width in network.widths[1:]]


def _layers(network: DenseNetwork, inputs: Float32Array, buffers: list[Float32Array]) -> Float32Array:
    """Return the outputs of a chunk of rows, written into the last buffer."""
    hidden = inputs
    last = len(network.weights) - 1
    for layer, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = np.matmul(hidden, weights, out=buffers[layer][: len(inputs)])
        end_layer(hidden, biases, layer < last)
    return hidden


def _with_biases(network: DenseNetwork) -> list[Float32Array]:
    return [np.vstack([weights, biases]) for weights, biases in zip(network.weights, network.biases, strict=True)]
