"""Score rows with a frozen network: its outputs, read by its head, with the training_prior divided out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError, ModelFileError
from obil.serving.graph_network import GraphNetwork
from obil.serving.heads import as_training_prior, scores_of_outputs

NETWORK = "network."  # before the names of its tensors


@dataclass(frozen=True, slots=True, eq=False)
class GraphScorer:
    """The raw scores of a network that torch trained, computed without it."""

    network: GraphNetwork
    head: str  # "tanh", "softmax" or "one_vs_rest"
    training_prior: FloatArray  # (K,) the class shares it was trained at, costs included

    def __post_init__(self) -> None:
        object.__setattr__(self, "training_prior", as_training_prior(self.training_prior, head=self.head))
        width = 1 if self.head == "tanh" else self.training_prior.size
        if self.network.output_shape != (width,) and not (width == 1 and self.network.output_shape == ()):
            raise InvalidInputError(
                f"a {self.head} head of {self.training_prior.size} classes reads {width} outputs a row, "
                f"got the shape {self.network.output_shape}"
            )

    @property
    def n_features(self) -> int | None:
        """None: the network knows the shape of its rows and checks it itself."""
        return None

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores of rows, (n, K)."""
        return scores_of_outputs(self.network.outputs(X), head=self.head, training_prior=self.training_prior)

    def describe(self) -> dict[str, Any]:
        """Return what a model file's JSON has to keep."""
        return {"head": self.head, "network": self.network.describe()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a model file's tensors have to keep."""
        return {"training_prior": self.training_prior} | {
            NETWORK + name: values for name, values in self.network.arrays().items()
        }

    @classmethod
    def rebuild(cls, described: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> "GraphScorer":
        """Return the scorer that `describe` and `arrays` told of, or refuse what a file holds instead."""
        tensors = {name.removeprefix(NETWORK): values for name, values in arrays.items() if name.startswith(NETWORK)}
        if not isinstance(described, Mapping) or "training_prior" not in arrays or len(tensors) != len(arrays) - 1:
            raise ModelFileError("the description of a network's scorer is incomplete")
        network = GraphNetwork.rebuild(described.get("network"), tensors)
        try:
            return cls(network, str(described.get("head")), np.asarray(arrays["training_prior"]))
        except InvalidInputError as error:
            raise ModelFileError(f"this is no scorer: {error}") from None
