"""The fully connected architecture, and the gating network w_phi(x) that is fitted with it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from obil.arrays import FloatArray
from obil.serving.networks.dense_network import DenseNetwork
from obil.serving.networks.network_kernels import Float32Array

GATING_HIDDEN, GATING_EPOCHS, GATING_BATCH = 32, 60, 512


class MLP(nn.Module):
    """Gives pre-activations z, (n, n_outputs): of a tanh unit, of K logits, or of K tanh units.

    With `skip` a linear layer also connects inputs and outputs directly: where there are no rows of the rare class, the
    log ratio extrapolates as a linear model's would instead of going flat.

    >>> MLP(7, n_outputs=3)(torch.zeros(5, 7)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        *,
        hidden: Sequence[int] = (64, 32),
        dropout: float = 0.2,
        skip: bool = False,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise((n_inputs, *hidden)):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear((n_inputs, *hidden)[-1], n_outputs))
        self.skip = nn.Linear(n_inputs, n_outputs, bias=False) if skip else None
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        if self.skip is not None:
            nn.init.zeros_(self.skip.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return pre-activations, (n, n_outputs), of inputs (n, n_inputs)."""
        outputs: Tensor = self.layers(inputs)
        return outputs if self.skip is None else outputs + self.skip(inputs)

    def start_at(self, outputs: FloatArray) -> None:
        """Make the network give these outputs, (n_outputs,), whatever the row; training begins there."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)  # by construction
        with torch.no_grad():
            last.weight.zero_()
            last.bias.copy_(torch.from_numpy(outputs))

    def frozen(self, *, scale: float = 1.0) -> DenseNetwork:
        """Return the network that serves; `scale` multiplies its outputs.

        The skip connection passes the layers in two units per output, one for each sign: s = relu(s) - relu(-s).
        """
        linear = [layer for layer in self.layers if isinstance(layer, nn.Linear)]
        weights, biases = [_array(layer.weight).T for layer in linear], [_array(layer.bias) for layer in linear]
        if self.skip is not None and len(linear) == 1:
            weights[0] = weights[0] + _array(self.skip.weight).T
        elif self.skip is not None:
            straight = _array(self.skip.weight).T  # (inputs, outputs)
            n, both = straight.shape[1], np.eye(2 * straight.shape[1], dtype=np.float32)
            ends = np.vstack([np.eye(n), -np.eye(n)])
            weights = [
                np.hstack([weights[0], straight, -straight]),
                *(_beside(layer, both) for layer in weights[1:-1]),
                np.vstack([weights[-1], ends]),
            ]
            biases = [*(np.append(layer, np.zeros(2 * n)) for layer in biases[:-1]), biases[-1]]
        weights[-1], biases[-1] = scale * weights[-1], scale * biases[-1]
        return DenseNetwork(tuple(map(_contiguous, weights)), tuple(map(_contiguous, biases)))


def fit_gating_network(inputs: Float32Array, weights: FloatArray) -> DenseNetwork:
    """Return the network whose softmax is closest (in Kullback-Leibler) to the weights (n, M) of rows.

    Call it inside `reproducible`.
    """
    data, targets = torch.from_numpy(inputs), torch.from_numpy(weights).float()
    network = MLP(inputs.shape[1], weights.shape[1], hidden=(GATING_HIDDEN,), dropout=0.0)
    network.start_at(np.log(weights.mean(axis=0).clip(1e-6)))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3, fused=True)
    for _ in range(GATING_EPOCHS):
        for batch in torch.randperm(len(data)).split(GATING_BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss = -(targets[batch] * log_softmax(network(data[batch]), dim=1)).sum(dim=1).mean()
            loss.backward()
            optimizer.step()
    return network.frozen()


def _beside(first: Float32Array, second: Float32Array) -> Float32Array:
    """Return the block-diagonal matrix of two."""
    block = np.zeros((first.shape[0] + second.shape[0], first.shape[1] + second.shape[1]), dtype=np.float32)
    block[: first.shape[0], : first.shape[1]] = first
    block[first.shape[0] :, first.shape[1] :] = second
    return block


def _contiguous(values: npt.NDArray[Any]) -> Float32Array:
    return np.ascontiguousarray(values, dtype=np.float32)


def _array(parameter: Tensor) -> Float32Array:
    values: Float32Array = parameter.detach().cpu().numpy().copy()  # not a view that training would change
    return values
