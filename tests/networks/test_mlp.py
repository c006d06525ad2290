"""The fully connected architecture has the layers that were asked for, and freezes to exactly what it computes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from torch import nn

from obil.networks.mlp import MLP
from tests.serving.stored import arrays_of


def layers(network: MLP, kind: type[nn.Module]) -> list[nn.Module]:
    return [layer for layer in network.layers if isinstance(layer, kind)]


def test_has_the_layers_that_were_asked_for() -> None:
    network = MLP(6, hidden=(128, 64, 32), dropout=0.3)
    shapes = [tuple(layer.weight.shape) for layer in layers(network, nn.Linear)]
    assert shapes == [(128, 6), (64, 128), (32, 64), (1, 32)]
    assert [layer.p for layer in layers(network, nn.Dropout)] == [0.3] * 3
    assert len(layers(network, nn.ReLU)) == 3
    assert isinstance(network.layers[-1], nn.Linear)


def test_with_a_skip_the_inputs_also_reach_the_outputs_in_a_straight_line() -> None:
    torch.manual_seed(0)
    network = MLP(3, 2, hidden=(4,), skip=True).eval()
    inputs = torch.randn(20, 3)
    assert torch.equal(network(inputs), network.layers(inputs))  # it starts without a slope
    with torch.no_grad():
        network.skip.weight.normal_()
    with torch.inference_mode():
        np.testing.assert_allclose(
            network(inputs).numpy(),
            (network.layers(inputs) + inputs @ network.skip.weight.T).numpy(),
            rtol=1e-6,
            atol=1e-6,
        )


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("hidden", [(), (4,), (5, 3, 2)])
@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0])
def test_a_frozen_body_multiplies_its_outputs_by_the_scale(
    hidden: tuple[int, ...], n_outputs: int, scale: float, skip: bool
) -> None:
    torch.manual_seed(0)
    network = MLP(3, n_outputs, hidden=hidden, skip=skip).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    inputs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    with torch.inference_mode():
        expected = scale * network(torch.from_numpy(inputs)).numpy()
    frozen = network.frozen(scale=scale)
    error = abs(frozen.outputs(inputs) - expected) / np.maximum(1.0, abs(expected))
    assert error.max() < 3e-6  # weights of size 1 and their products with the scale round once more
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in arrays_of(frozen).values())


@pytest.mark.parametrize("skip", [False, True])
def test_what_is_frozen_does_not_follow_further_training(skip: bool) -> None:
    network = MLP(2, hidden=(3,), skip=skip)
    frozen = network.frozen()
    before = {name: array.copy() for name, array in arrays_of(frozen).items()}
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    assert all((arrays_of(frozen)[name] == array).all() for name, array in before.items())
