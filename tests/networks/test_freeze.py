"""What can be frozen is frozen faithfully; what cannot is refused with the reason and a way out."""

import json
import logging
import warnings
from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import Tensor, nn
from torch.nn import functional as F

from obil.networks import freeze as freezing
from obil.networks.freeze import freeze
from obil.networks.numpy_forms import IDENTITIES, NUMPY_FORMS, PYTHON_FORMS
from obil.serving.operations import OPERATIONS
from tests.serving.networks import frozen


class Does(nn.Module):
    """A module of one function, with a parameter so that it is like any other."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.5, -0.5, 2.0, 1.0]))
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x * self.scale)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def test_every_numpy_form_is_an_operation_and_every_torch_name_exists() -> None:
    assert set(NUMPY_FORMS.values()) | set(PYTHON_FORMS.values()) <= set(OPERATIONS)
    assert set(OPERATIONS) == set(NUMPY_FORMS.values()) | set(PYTHON_FORMS.values())
    for name in {*NUMPY_FORMS, *IDENTITIES}:
        packet, overload = name.split(".")
        assert overload in getattr(torch.ops.aten, packet).overloads(), name


def many(x: Tensor) -> Tensor:
    """Most of what modules are written with, in one go: each line adds a number a row."""
    total = x.sum(-1) + x.std(-1) + torch.logsumexp(x, -1) + x.norm(dim=-1) + x.prod(-1).abs().clamp(max=1)
    total = total + F.mish(x).mean(-1) + F.hardswish(x).amin(-1) + F.selu(x).sum(-1) + F.softsign(x).sum(-1)
    total = total + F.logsigmoid(x)[:, 0] + F.glu(x, -1).sum(-1) + F.normalize(x, dim=-1)[:, 1] + F.softplus(x)[..., 2]
    total = total + torch.einsum("ni,ni->n", x, x) + torch.where(x > 0, x, 0.5)[:, 1] + x.max(-1).values
    total = total + F.one_hot(x.argmax(-1), 4).float()[:, 2] + torch.nan_to_num(x)[:, 0] + x.flip(-1).cumsum(-1)[:, 1]
    first, second = x.chunk(2, dim=-1)
    total = total + torch.stack([first, second]).mean((0, 2)) + torch.bmm(first[:, None], second[..., None])[:, 0, 0]
    return total + x.new_ones(x.shape[0]) + torch.zeros(x.shape[0]) + x.view(x.size(0), 2, 2).flatten(1)[:, 3]


def test_most_of_what_modules_are_written_with_can_be_frozen() -> None:
    module, rows = Does(many), torch.randn(5, 4)
    network = freeze(module, rows)
    fresh = torch.randn(33, 4)
    expected = module(fresh).detach().numpy()
    np.testing.assert_allclose(network.outputs(fresh.numpy()), expected, rtol=2e-6, atol=2e-6)
    json.dumps(network.describe(), allow_nan=False)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(2, 3, 3, padding="same", padding_mode="reflect")),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.PReLU(4), nn.AvgPool2d(2, ceil_mode=True)),
        nn.Sequential(
            nn.ZeroPad2d(1), nn.PixelUnshuffle(2), nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Softmax(-1)
        ),
    ],
    ids=["padding", "norm", "shuffle"],
)
def test_layers_of_images_can_be_frozen(module: nn.Module) -> None:
    rows = torch.randn(3, 2, 8, 8)
    network = freeze(module, rows)
    np.testing.assert_allclose(network.outputs(rows.numpy()), module(rows).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_freezing_leaves_the_module_as_it_was_and_says_nothing() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 1))
    module[1].eval()
    before = {name: values.clone() for name, values in module.state_dict().items()}
    level = logging.getLogger("torch").level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        freeze(module, torch.randn(1, 4))  # a single row will do
    assert not caught
    assert logging.getLogger("torch").level == level
    assert [part.training for part in module] == [True, False, True, True]
    assert all(torch.equal(values, before[name]) for name, values in module.state_dict().items())


def test_what_does_not_depend_on_the_rows_is_computed_once() -> None:
    _, network, _ = frozen("GraphConvNet")
    assert {step.op for step in network.steps} <= {"slice", "select", "embedding", "squeeze"}
    assert [values.shape for values in network.tensors.values()] == [(60, 3)]


def test_a_shared_weight_and_a_module_in_double_precision_are_frozen_too() -> None:
    shared = nn.Linear(4, 4)
    module = nn.Sequential(shared, nn.Tanh(), shared).double()
    rows = torch.randn(3, 4, dtype=torch.float64)
    network = freeze(module, rows)
    assert network.input_dtype == "float32"
    assert all(values.dtype == np.float32 for values in network.tensors.values())
    np.testing.assert_allclose(network.outputs(rows.numpy()), module(rows).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.linalg.inv(x[:, :, None] * x[:, None]), r"aten\.linalg_inv.* has no numpy form.*with torch"),
        (lambda x: torch.fft.fft(x).real, "has no numpy form|dense and real"),
        (lambda x: x + torch.rand_like(x), r"aten\.rand.* has no numpy form"),
        (lambda x: F.dropout(x, 0.5, training=True), "has no numpy form"),
        (lambda x: x if x.sum() > 0 else -x, "must not depend on the values"),
        (lambda x: x.reshape(4, -1)[:4] if x.shape[0] == 3 else x, "must not depend on the values or on the number"),
        (lambda x: x - x.mean(0), "alone than among others"),
        (lambda x: (x, x), "one tensor of outputs"),
        (lambda x: torch.ones(3), "computed from its rows|depend on its rows"),
        (lambda x: F.batch_norm(x, None, None, training=True), "has no numpy form|alone than among others"),
        (lambda x: F.conv_transpose1d(x[:, None], torch.ones(1, 1, 2)), "transposed=True has no numpy form"),
    ],
)
def test_what_cannot_be_frozen_is_refused_with_the_reason(function: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        freeze(Does(function), torch.randn(3, 4))


@pytest.mark.parametrize("example", [torch.zeros(0, 4), torch.zeros(4), [[1.0]], None])
def test_an_example_that_is_no_batch_of_rows_is_refused(example: Any) -> None:
    with pytest.raises(InvalidInputError, match="example must be a tensor of rows"):
        freeze(nn.Linear(4, 1), example)


def test_a_frozen_network_that_differs_from_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, "tanh", lambda x: np.tanh(x) * np.float32(1.0001))
    monkeypatch.setattr("obil.serving.graph_network.require_arguments", lambda function, arguments: None)
    OPERATIONS["tanh"].__annotations__["x"] = np.ndarray
    with pytest.raises(InvalidInputError, match="other outputs than torch"):
        freeze(Does(torch.tanh), torch.randn(3, 4))
    assert freezing.AGREEMENT == 1e-5
