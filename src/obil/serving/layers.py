"""Score rows with frozen linear layers: a linear model has one, a multi-layer perceptron several."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.dense_network import as_matrix
from obil.serving.scorers import FrozenScorer, raw_scores

ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda units: np.maximum(units, 0.0),
    "tanh": np.tanh,
    "logistic": expit,
    "identity": lambda units: units,
}


@dataclass(frozen=True, slots=True, eq=False)
class LayerScorer(FrozenScorer):
    """Linear layers in float64, as scikit-learn has them, with an activation between them.

    >>> scorer = LayerScorer((np.array([[2.0]]),), (np.array([1.0]),), "identity", "logit", np.array([0.5, 0.5]), 0.0)
    >>> scorer.scores([[1.5]]).tolist()
    [[0.0, 4.0]]
    """

    weights: tuple[FloatArray, ...]  # (inputs, outputs) of each layer
    biases: tuple[FloatArray, ...]  # (outputs,)
    activation: str  # one of ACTIVATIONS
    link: str  # one of LINKS
    training_prior: FloatArray  # (K,)
    floor: float

    @property
    def batch_invariant(self) -> bool:
        """Whether the bits of a row's scores do not depend on the rows beside it."""
        return len(self.weights) == 1

    @property
    def n_features(self) -> int:  # type: ignore[override]  # the first layer knows it
        """The width of a row."""
        return int(self.weights[0].shape[0])

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores with the training prior divided out, (n, K)."""
        units = as_matrix(X)
        if units.shape[1] != self.n_features:
            raise InvalidInputError(f"a row has {self.n_features} features, got an array of shape {units.shape}")
        if not np.isfinite(units).all():
            raise InvalidInputError("features must be finite numbers, got NaN or infinity: this model takes neither")
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            for weights, biases in zip(self.weights[:-1], self.biases[:-1], strict=True):
                units = ACTIVATIONS[self.activation](units @ weights + biases)
            if len(self.weights) == 1:  # not `@`, which adds in another order for one row than for many
                outputs = linear_outputs(units, self.weights[0], self.biases[0])
            else:
                outputs = units @ self.weights[-1] + self.biases[-1]
        return raw_scores(outputs, self.link, self.training_prior, self.floor)

    def summary(self) -> str:
        """Return a short text that says what scores."""
        if len(self.weights) == 1:
            return "a linear model"
        return f"a multi-layer perceptron with {len(self.weights) - 1} hidden layers"

    def describe(self) -> dict[str, Any]:
        """Return what is not an array, as JSON values."""
        return self.describe_output() | {"activation": self.activation}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name."""
        layers = zip(self.weights, self.biases, strict=True)
        return {
            name: array
            for layer, pair in enumerate(layers)
            for name, array in zip((f"weights{layer}", f"biases{layer}"), pair, strict=True)
        }

    @classmethod
    def rebuild(cls, described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "LayerScorer":
        """Return the scorer that gave these, checked."""
        n_layers = sum(name.startswith("weights") for name in arrays)
        weights = tuple(arrays[f"weights{layer}"].astype(np.float64) for layer in range(n_layers))
        biases = tuple(arrays[f"biases{layer}"].astype(np.float64) for layer in range(n_layers))
        output = cls.read_output(described)
        n_features, n_classes = output.pop("n_features"), output["training_prior"].size
        shapes = [layer.shape for layer in weights]
        sound = (
            n_layers > 0
            and described["activation"] in ACTIVATIONS
            and all(len(shape) == 2 and min(shape) > 0 for shape in shapes)
            and all(before[1] == after[0] for before, after in pairwise(shapes))
            and all(bias.shape == (shape[1],) for bias, shape in zip(biases, shapes, strict=True))
            and all(np.isfinite(array).all() for array in (*weights, *biases))
            and shapes[0][0] == n_features
            and (shapes[-1][1] == n_classes or (shapes[-1][1], n_classes) == (1, 2))
        )
        if not sound:
            raise InvalidInputError("the layers of a model are damaged")
        return cls(weights, biases, str(described["activation"]), **output)


@compiled
def linear_outputs(rows: FloatArray, weights: FloatArray, biases: FloatArray) -> FloatArray:
    """Return rows @ weights + biases, (n, outputs), each row by itself."""
    outputs = np.empty((rows.shape[0], weights.shape[1]))
    for r in range(rows.shape[0]):
        outputs[r] = biases
        for j in range(rows.shape[1]):
            for k in range(weights.shape[1]):
                outputs[r, k] += rows[r, j] * weights[j, k]
    return outputs
