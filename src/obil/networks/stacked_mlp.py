"""Hold fully connected networks of one shape in one tensor, so that one matrix product serves all of them.

It needs torch alone: it is measured where nothing else is installed.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class StackedMLP:
    """Networks whose parameters are matrices with biases, layer by layer, and at most a last matrix without.

    That one connects inputs and outputs directly, as in `MLP(skip=True)`. Hidden layers have rectifiers and dropout.

    >>> networks = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(2)]
    >>> stacked = StackedMLP(networks)
    >>> stacked.outputs(stacked.parameters, torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 1])
    """

    def __init__(self, networks: Sequence[nn.Module], device: str | torch.device = "cpu") -> None:
        vectors = [parameters_to_vector(network.parameters()).detach() for network in networks]
        self.parameters = torch.stack(vectors).to(device).requires_grad_()  # (M, P)
        self._shapes = [tuple(parameter.shape) for parameter in networks[0].parameters()]
        self._sizes = [parameter.numel() for parameter in networks[0].parameters()]
        self._dropout = max((layer.p for layer in networks[0].modules() if isinstance(layer, nn.Dropout)), default=0.0)
        matrices = [torch.full((size,), len(shape) > 1) for size, shape in zip(self._sizes, self._shapes, strict=True)]
        self.is_weight = torch.cat(matrices).to(device)  # (P,) True for the entries of matrices, False for biases

    def outputs(self, parameters: Tensor, inputs: Tensor, *, training: bool = False) -> Tensor:
        """Return the pre-activations (M, n, n_outputs) of each network's own inputs, (M, n, n_inputs)."""
        parts = [
            part.unflatten(1, shape)
            for part, shape in zip(parameters.split(self._sizes, dim=1), self._shapes, strict=True)
        ]
        layers = [(parts[i].transpose(1, 2), parts[i + 1].unsqueeze(1)) for i in range(0, len(parts) - 1, 2)]
        hidden = inputs
        for weights, biases in layers[:-1]:
            hidden = relu(torch.baddbmm(biases, hidden, weights))
            if training and self._dropout:
                hidden = dropout(hidden, self._dropout)
        weights, biases = layers[-1]
        outputs = torch.baddbmm(biases, hidden, weights)
        return outputs if len(parts) % 2 == 0 else torch.baddbmm(outputs, inputs, parts[-1].transpose(1, 2))

    def copy_to(self, networks: Sequence[nn.Module], parameters: Tensor) -> None:
        """Give each network its row of `parameters`, (M, P)."""
        for network, own in zip(networks, parameters.detach().cpu(), strict=True):
            vector_to_parameters(own.clone(), network.parameters())  # not a view of all networks' parameters
