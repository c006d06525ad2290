"""The variance over dropout passes is the one that keeping every pass would give, and leaves the network alone."""

import numpy as np
import pytest

from obil.arrays import FloatArray

torch = pytest.importorskip("torch", reason="needs the torch extra")

from torch import nn

from obil.networks import mc_dropout
from obil.networks.mc_dropout import dropout_variance, has_dropout
from obil.networks.mlp import MLP
from obil.networks.training import reproducible
from obil.serving.networks.heads import scores_of_outputs


def tanh_scores(outputs: FloatArray) -> FloatArray:
    return scores_of_outputs(outputs, head="tanh", training_prior=[0.9, 0.1])


def softmax_scores(outputs: FloatArray) -> FloatArray:
    return scores_of_outputs(outputs, head="softmax", training_prior=[0.5, 0.3, 0.2])


def inputs(n: int, width: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(n).normal(size=(n, width)).astype(np.float32))


def network(n_outputs: int = 1, dropout: float = 0.4) -> MLP:
    with reproducible(1):
        return MLP(3, n_outputs, hidden=(16, 8), dropout=dropout).eval()


@pytest.mark.parametrize(("n_outputs", "scores_of"), [(1, tanh_scores), (3, softmax_scores)])
@pytest.mark.parametrize("n_passes", [2, 30])
def test_is_the_variance_of_all_passes_kept(n_outputs: int, scores_of: object, n_passes: int) -> None:
    module, rows = network(n_outputs), inputs(40)
    with reproducible(7):
        found = dropout_variance(module, rows, scores_of=scores_of, n_passes=n_passes)
    with reproducible(7), torch.inference_mode():
        module.train()
        kept = np.stack([scores_of(module(rows).double().numpy()) for _ in range(n_passes)])
    np.testing.assert_allclose(found, kept.var(axis=0)[:, 1:].mean(axis=1), rtol=1e-9)
    assert (found > 0.0).any()


def test_a_linear_network_has_the_variance_that_dropout_promises() -> None:
    """z = sum_i w_i x_i m_i / (1 - p): variance p / (1 - p) sum (w_i x_i)^2, and 4 of it for 2z.

    2,000 passes: the relative standard error is about .03 a row; the mean of 50 rows lies within .05.
    """
    module = nn.Sequential(nn.Dropout(0.3), nn.Linear(20, 1))
    rows = inputs(50, 20)
    with reproducible(0):
        found = dropout_variance(module, rows, scores_of=tanh_scores, n_passes=2_000)
    weights = module[1].weight.detach().numpy()[0]
    exact = 4.0 * 0.3 / 0.7 * ((rows.numpy() * weights) ** 2).sum(axis=1)
    assert abs((found / exact).mean() - 1.0) < 0.05


def test_without_dropout_there_is_no_variance() -> None:
    assert not dropout_variance(network(dropout=0.0), inputs(20), scores_of=tanh_scores).any()
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    assert not dropout_variance(plain, inputs(20), scores_of=tanh_scores).any()


def test_says_whether_passes_can_differ() -> None:
    assert has_dropout(network())
    assert has_dropout(nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Dropout2d(0.1))))
    assert not has_dropout(network(dropout=0.0))
    assert not has_dropout(nn.Linear(1, 1))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_network_is_left_as_it_was(training: bool, fails: bool) -> None:
    """Batch normalisation keeps its statistics and every layer its mode, one that differs from the others too."""
    module = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 1)).train(training)
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    modes = [layer.training for layer in module.modules()]

    def scores_of(outputs: FloatArray) -> FloatArray:
        if fails:
            raise RuntimeError("interrupted")
        return tanh_scores(outputs)

    if fails:
        with pytest.raises(RuntimeError, match="interrupted"):
            dropout_variance(module, inputs(30), scores_of=scores_of, n_passes=5)
    else:
        assert dropout_variance(module, inputs(30), scores_of=scores_of, n_passes=5).any()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert [layer.training for layer in module.modules()] == modes


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 17])
def test_rows_in_chunks_each_get_their_variance(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mc_dropout, "CHUNK_ROWS", 8)
    with reproducible(0):
        found = dropout_variance(network(), inputs(n), scores_of=tanh_scores, n_passes=4)
    assert found.shape == (n,)
    assert (found > 0.0).all()
