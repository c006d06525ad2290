"""Run small fully connected networks without the library that trained them, fast for one row and for many."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.features import FeatureMap
from obil.serving.networks.heads import as_training_prior, scores_of_outputs
from obil.serving.networks.layers import layers_fit
from obil.serving.networks.network_kernels import Float32Array, end_layer
from obil.serving.records import JsonFloats
from obil.serving.scorers import as_matrix

CHUNK_ROWS = 1_024  # a layer's activations of all members then stay in the cache
FEW_ROWS = 32  # are scored one at a time: matrix products round a row by its place among others


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
        buffers = layer_buffers(self, len(inputs))
        step = 1 if len(inputs) <= FEW_ROWS else CHUNK_ROWS
        for start in range(0, len(inputs), step):
            chunk = slice(start, start + step)
            outputs[chunk] = run_layers(self, inputs[chunk], buffers)
        return outputs

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        if not layers_fit(self.weights, self.biases):
            raise InvalidInputError("the layers of a network do not fit each other or are not finite")


@dataclass(frozen=True, slots=True, eq=False)
class DenseScorer:
    """The scores of one network with its training prior divided out."""

    features: FeatureMap
    network: DenseNetwork
    head: str  # as in `obil.serving.networks.heads`
    training_prior: JsonFloats  # (K,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "training_prior", as_training_prior(self.training_prior, head=self.head))
        wanted = 1 if self.head == "tanh" else len(self.training_prior)
        if self.network.widths[0] != self.features.n_inputs or self.network.widths[-1] != wanted:
            raise InvalidInputError("the layers of a network do not fit its features or its classes")

    @property
    def n_features(self) -> int | None:
        """The width of a row."""
        return self.features.n_features

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.training_prior.size

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores, (n, K)."""
        outputs = outputs_of_rows(self.features, self.network, as_matrix(X))
        return scores_of_outputs(outputs, head=self.head, training_prior=self.training_prior)


def outputs_of_rows(features: FeatureMap, network: DenseNetwork, rows: FloatArray) -> Float32Array:
    """Return a network's outputs of rows, (n, outputs), a chunk of rows at a time: a row may have many inputs."""
    if len(rows) <= CHUNK_ROWS:
        return network.outputs(features.encode(rows))
    chunks = range(0, len(rows), CHUNK_ROWS)
    return np.concatenate([network.outputs(features.encode(rows[start : start + CHUNK_ROWS])) for start in chunks])


def softmax_weights(logits: Float32Array) -> FloatArray:
    """Return weights that sum to 1 in each row, (n, M)."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    raised = np.exp(shifted)
    weights: FloatArray = raised / raised.sum(axis=1, keepdims=True)
    return weights


def layer_buffers(network: DenseNetwork, n_rows: int) -> list[Float32Array]:
    """Return buffers for the outputs of each layer, of up to a chunk of rows."""
    return [np.empty((min(n_rows, CHUNK_ROWS), width), dtype=np.float32) for width in network.widths[1:]]


def run_layers(network: DenseNetwork, inputs: Float32Array, buffers: list[Float32Array]) -> Float32Array:
    """Return the outputs of a chunk of rows, written into the last buffer."""
    hidden = inputs
    last = len(network.weights) - 1
    for layer, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = np.matmul(hidden, weights, out=buffers[layer][: len(inputs)])
        end_layer(hidden, biases, layer < last)
    return hidden
