"""A served network is torch's own to 1e-6, one row by the kernel and many by matrix products, and checked when read."""

from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidInputError
from obil.serving.networks.dense_network import CHUNK_ROWS, DenseNetwork, DenseScorer, softmax_weights
from obil.serving.scorers import as_matrix
from tests.serving.ensembles import (
    N_INPUTS,
    WIDTH,
    assert_close,
    binary,
    feature_map,
    in_float64,
    network,
    rows,
    softmax_of_three,
)
from tests.serving.stored import arrays_of, described, rebuilt

DEPTHS = [(), (8,), (16, 8, 4), (128, 64, 32)]
COUNTS = [1, 2, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 3]


@pytest.mark.parametrize("hidden", DEPTHS)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("skip", [False, True])
def test_a_frozen_network_is_torchs_own(hidden: tuple[int, ...], n_outputs: int, skip: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    from obil.networks.mlp import MLP

    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(hidden))
        module = MLP(5, n_outputs, hidden=hidden, dropout=0.5, skip=skip).eval()
        if skip:
            torch.nn.init.normal_(module.skip.weight)
    frozen = module.frozen()
    assert (frozen.widths[0], frozen.widths[-1]) == (5, n_outputs)
    assert skip or frozen.widths == (5, *hidden, n_outputs)
    for n in COUNTS:
        inputs = np.random.default_rng(n).normal(size=(n, 5)).astype(np.float32)
        with torch.inference_mode():
            assert_close(frozen.outputs(inputs), module(torch.from_numpy(inputs)).numpy())


@pytest.mark.parametrize("head", ["softmax", "one_vs_rest"])
def test_a_network_of_three_classes_scores_by_its_head(head: str) -> None:
    scorer = softmax_of_three(feature_map(), 3, head=head)
    z = in_float64(scorer.network, scorer.features.encode(rows(40)))
    logs = z if head == "softmax" else -np.logaddexp(0.0, -2.0 * z)
    logs = logs - np.log(scorer.training_prior)
    assert_close(scorer.scores(rows(40)), logs - logs[:, :1], 2e-6)


def test_weights_of_any_logits_sum_to_1() -> None:
    weights = softmax_weights(np.array([[0.0, 0.0], [1e38, -1e38], [-500.0, 500.0]], dtype=np.float32))
    np.testing.assert_allclose(weights, [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("bad", [[["a", "b"]], [[None, {}]], [[1.0], [2.0, 3.0]], "text"])
def test_rows_that_are_no_numbers_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        as_matrix(bad)


def test_a_scorer_comes_back_to_the_last_bit() -> None:
    for scorer in (binary(feature_map(), 0), binary(feature_map(straight=True), 1, hidden=()), softmax_of_three(
        feature_map(), 2
    )):  # fmt: skip
        again = rebuilt(DenseScorer, described(scorer), arrays_of(scorer))
        assert again.scores(rows(60)).tobytes() == scorer.scores(rows(60)).tobytes()
        assert again.n_features == WIDTH


LAYERS = arrays_of(network((N_INPUTS, 6, 5, 1)))
DAMAGED_LAYERS: dict[str, dict[str, Any]] = {
    "a layer too narrow for the next": {"weights1": np.zeros((6, 4), dtype=np.float32)},
    "a layer too wide for the one before": {"weights1": np.zeros((7, 5), dtype=np.float32)},
    "biases of another width": {"biases1": np.zeros(4, dtype=np.float32)},
    "biases as a table": {"biases1": np.zeros((1, 5), dtype=np.float32)},
    "weights as a line": {"weights2": np.zeros(5, dtype=np.float32)},
    "a layer without units": {"weights1": np.zeros((6, 0)), "biases1": np.zeros(0), "weights2": np.zeros((0, 1))},
    "a weight that is not a number": {"weights0": np.full((N_INPUTS, 6), np.nan)},
    "an infinite bias": {"biases2": np.array([np.inf])},
}


@pytest.mark.parametrize("damage", DAMAGED_LAYERS)
def test_layers_that_do_not_fit_are_refused(damage: str) -> None:
    with pytest.raises(InvalidInputError, match="do not fit"):
        rebuilt(DenseNetwork, described(network((N_INPUTS, 6, 5, 1))), LAYERS | DAMAGED_LAYERS[damage])


def test_no_layers_are_no_network() -> None:
    with pytest.raises(InvalidInputError, match="do not fit"):
        rebuilt(DenseNetwork, {"weights": [], "biases": []}, {})


@pytest.mark.parametrize("gone", LAYERS)
def test_a_layer_that_is_gone_is_noticed(gone: str) -> None:
    scorer = binary(feature_map(), 0)
    left = {name: array for name, array in arrays_of(scorer).items() if name != f"network.{gone}"}
    with pytest.raises((InvalidInputError, KeyError)):  # `load` makes a ModelFileError of either
        rebuilt(DenseScorer, described(scorer), left)


DAMAGED_SCORERS: dict[str, dict[str, Any]] = {
    "a head of another kind": {"head": "softmax"},
    "an unknown head": {"head": "sigmoid"},
    "no head": {"head": None},
    "three classes for a tanh": {"training_prior": [0.5, 0.3, 0.2]},
    "one class": {"training_prior": [1.0]},
    "no prior of a class": {"training_prior": [1.0, 0.0]},
    "a negative prior": {"training_prior": [1.5, -0.5]},
    "a prior that is not a number": {"training_prior": [0.5, float("nan")]},
    "a prior as a table": {"training_prior": [[0.5, 0.5]]},
}


@pytest.mark.parametrize("damage", DAMAGED_SCORERS)
def test_a_scorer_whose_description_does_not_fit_is_refused(damage: str) -> None:
    scorer = binary(feature_map(), 0)
    with pytest.raises(InvalidInputError):
        rebuilt(DenseScorer, described(scorer) | DAMAGED_SCORERS[damage], arrays_of(scorer))


def test_a_scorer_whose_network_takes_other_inputs_is_refused() -> None:
    scorer = binary(feature_map(), 0)
    with pytest.raises(InvalidInputError, match="do not fit its features"):
        rebuilt(
            DenseScorer, described(scorer), arrays_of(scorer) | arrays_of(network((N_INPUTS + 1, 6, 5, 1)), "network")
        )
    with pytest.raises(InvalidInputError, match="do not fit its features"):
        rebuilt(DenseScorer, described(scorer), arrays_of(scorer) | arrays_of(network((N_INPUTS, 6, 5, 2)), "network"))
