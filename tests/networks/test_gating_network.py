"""The weight network learns the weights it is shown, row by row."""

import numpy as np
import pytest
from scipy.special import softmax

torch = pytest.importorskip("torch", reason="needs the torch extra")

from obil.networks.mlp import fit_gating_network
from obil.networks.training import reproducible
from obil.serving.networks.dense_network import DenseNetwork, softmax_weights
from tests.serving.stored import arrays_of


def fitted(inputs: np.ndarray, weights: np.ndarray, seed: int = 0) -> DenseNetwork:
    with reproducible(seed):
        return fit_gating_network(inputs.astype(np.float32), weights)


def rows(n: int, width: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def test_reproduces_weights_that_follow_from_the_row() -> None:
    """Three members whose logits are linear in the row; on fresh rows the mean error is below .03."""
    logits = np.array([[1.5, -1.0, 0.0], [0.0, 1.0, -1.5]])
    X, fresh = rows(3_000), rows(500, seed=1)
    network = fitted(X, softmax(X @ logits, axis=1))
    error = abs(softmax_weights(network.outputs(fresh)) - softmax(fresh @ logits, axis=1))
    assert error.mean() < 0.03
    assert network.widths == (2, 32, 3)


def test_finds_regions_where_one_member_is_to_be_trusted() -> None:
    X, fresh = rows(3_000), rows(500, seed=1)
    network = fitted(X, np.where(X[:, :1] > 0.0, [0.9, 0.1], [0.2, 0.8]))
    found = softmax_weights(network.outputs(fresh))[:, 0]
    clear = abs(fresh[:, 0]) > 0.3  # a network of 32 units needs room for the step
    np.testing.assert_allclose(found[clear], np.where(fresh[clear, 0] > 0.0, 0.9, 0.2), atol=0.2)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.7, 0.2, 0.1], [1.0, 0.0]])
def test_equal_weights_everywhere_are_given_everywhere(weights: list[float]) -> None:
    found = softmax_weights(fitted(rows(800), np.tile(weights, (800, 1))).outputs(rows(200, seed=1)))
    np.testing.assert_allclose(found, np.tile(weights, (200, 1)), atol=0.02)


def test_few_rows_do_not_break_it() -> None:
    found = softmax_weights(fitted(rows(3), np.tile([0.3, 0.7], (3, 1))).outputs(rows(50, seed=1)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


def test_the_same_seed_gives_the_same_bits() -> None:
    X = rows(700)
    targets = softmax(X, axis=1)
    first, again, other = (arrays_of(fitted(X, targets, seed)) for seed in (1, 1, 2))
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert any(first[name].tobytes() != other[name].tobytes() for name in first)
