"""Score rows with frozen linear layers: a linear model has one, a multi-layer perceptron several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from obil.arrays import FloatArray
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.serving.records import JsonFloats
from obil.serving.scorers import OutputScorer, as_matrix, raw_scores

ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda units: np.maximum(units, 0.0),
    "tanh": np.tanh,
    "logistic": expit,
    "identity": lambda units: units,
}


@dataclass(frozen=True, slots=True, eq=False)
class LayerScorer(OutputScorer):
    """Linear layers in float64, as scikit-learn has them, with an activation between them.

    >>> scorer = LayerScorer((np.array([[2.0]]),), (np.array([1.0]),), "identity", "logit", np.array([0.5, 0.5]), 0.0)
    >>> scorer.scores([[1.5]]).tolist()
    [[0.0, 4.0]]
    """

    weights: tuple[FloatArray, ...]  # (inputs, outputs) of each layer
    biases: tuple[FloatArray, ...]  # (outputs,)
    activation: str  # one of ACTIVATIONS
    link: str  # one of LINKS
    training_prior: JsonFloats  # (K,)
    floor: float

    @property
    def batch_invariant(self) -> bool:
        """Whether the bits of a row's scores do not depend on the rows beside it."""
        return len(self.weights) == 1

    @property
    def n_features(self) -> int:
        """The width of a row."""
        return int(self.weights[0].shape[0])

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores with the training prior divided out, (n, K)."""
        units = as_matrix(X, self.n_features)
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

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        super(LayerScorer, self).require_sound()
        n_outputs, n_classes = self.weights[-1].shape[-1] if self.weights else 0, self.training_prior.size
        known = self.activation in ACTIVATIONS
        if (
            not known
            or not layers_fit(self.weights, self.biases)
            or (n_outputs != n_classes and (n_outputs, n_classes) != (1, 2))
        ):
            raise InvalidInputError("the layers of a model are damaged")


def layers_fit(weights: Sequence[npt.NDArray[Any]], biases: Sequence[npt.NDArray[Any]]) -> bool:
    """Return whether layers, (inputs, outputs) and (outputs,), follow on one another and are finite."""
    shapes = [layer.shape for layer in weights]
    return (
        0 < len(weights) == len(biases)
        and all(len(shape) == 2 and min(shape) > 0 for shape in shapes)
        and all(before[1] == after[0] for before, after in pairwise(shapes))
        and all(bias.shape == (shape[1],) for bias, shape in zip(biases, shapes, strict=True))
        and all(bool(np.isfinite(array).all()) for array in (*weights, *biases))
    )


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
