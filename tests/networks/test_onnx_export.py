"""What can be exported agrees with torch; what cannot is refused with the reason."""

import logging
import warnings
from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
onnx = pytest.importorskip("onnx", reason="the extra 'torch' is not installed")

from torch import Tensor, nn
from torch.nn import functional as F

from obil.networks import onnx_export
from obil.networks.onnx_export import export_onnx


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


def test_exporting_leaves_the_module_as_it_was_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 1))
    module[1].eval()
    before = {name: values.clone() for name, values in module.state_dict().items()}
    level = logging.getLogger("torch").level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = export_onnx(module, torch.randn(1, 4))  # a single row will do
    assert not caught
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("torch").level == level
    assert [part.training for part in module] == [True, False, True, True]
    assert all(torch.equal(values, before[name]) for name, values in module.state_dict().items())
    again = export_onnx(module, torch.randn(5, 4))
    assert again.content == network.content  # the same module, the same bytes
    assert b".py" not in network.content  # no stack trace with the paths of this machine
    model = onnx.ModelProto.FromString(network.content)
    onnx.checker.check_model(model)
    assert not model.functions


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "must not depend on the values"),
        (lambda x: x.reshape(4, -1)[:4] if x.shape[0] == 3 else x, "batches of 3 rows only"),
        (lambda x: x - x.mean(0), "alone than among others"),
        (lambda x: (x, x), "one tensor of scores"),
        (lambda x: torch.ones(3), "cannot be"),
        (lambda x: x + torch.rand_like(x), "other outputs than torch"),
        (lambda x: F.dropout(x, 0.5, training=True), "other outputs than torch"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(function: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        export_onnx(Does(function), torch.randn(3, 4))


@pytest.mark.parametrize("example", [torch.zeros(0, 4), torch.zeros(4), [[1.0]], None])
def test_an_example_that_is_no_batch_of_rows_is_refused(example: Any) -> None:
    with pytest.raises(InvalidInputError, match="example must be a tensor of rows"):
        export_onnx(nn.Linear(4, 1), example)


def test_outputs_further_from_torch_than_a_rounding_are_refused() -> None:
    exact = np.array([1.0, -30.0, np.inf])
    onnx_export._require_close(exact * (1.0 + 5e-6), exact, "it differs")
    for wrong in (exact + 2e-5, np.array([1.0, -30.0, np.nan]), np.array([1.0, -30.0, 1e30])):
        with pytest.raises(InvalidInputError, match="it differs: the largest difference is"):
            onnx_export._require_close(wrong, exact, "it differs")
    with pytest.raises(InvalidInputError, match="it differs: shapes"):
        onnx_export._require_close(exact[:, None], exact, "it differs")
    assert onnx_export.AGREEMENT == 1e-5
