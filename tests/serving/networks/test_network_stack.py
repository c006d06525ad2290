"""A stack of networks is torch's own networks weighted, one row by the kernel and many by matrix products."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.features import FeatureMap
from obil.serving.networks.dense_network import CHUNK_ROWS, DenseNetwork, DenseScorer
from obil.serving.networks.network_stack import NetworkStack
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
    standard_map,
)

DEPTHS = [(8,), (16, 8, 4), (128, 64, 32)]
COUNTS = [1, 2, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 3]


def stacked(
    n_members: int, hidden: tuple[int, ...], *, gating: bool, features: FeatureMap | None = None
) -> tuple[NetworkStack, list[DenseScorer], DenseNetwork | None]:
    own = features or feature_map()
    scorers = [binary(own, seed, hidden=hidden, prior=0.1 + 0.1 * seed) for seed in range(n_members)]
    weights = np.arange(1.0, n_members + 1.0) / (n_members * (n_members + 1) / 2)
    weighs = network((own.n_inputs, 9, n_members), seed=99) if gating else None
    stack = NetworkStack.of(scorers, weights=weights, gating=weighs)
    assert stack is not None
    return stack, scorers, weighs


def fused(
    stack: NetworkStack, scorers: list[DenseScorer], gating: DenseNetwork | None, matrix: FloatArray
) -> FloatArray:
    """The definition: each member's log odds less those of its training prior, weighted, in float64."""
    inputs = scorers[0].features.encode(matrix)
    odds = np.array([np.log(scorer.training_prior[1] / scorer.training_prior[0]) for scorer in scorers])
    ratios = 2.0 * np.concatenate([in_float64(scorer.network, inputs) for scorer in scorers], axis=1) - odds
    weights = stack.fusion[1] if gating is None else softmax(in_float64(gating, inputs), axis=1)
    return (weights * ratios).sum(axis=1)


@pytest.mark.parametrize("gating", [False, True])
@pytest.mark.parametrize(("hidden", "skip"), [*((hidden, False) for hidden in DEPTHS), ((64, 32), True)])
def test_a_stack_is_torchs_networks_weighted(hidden: tuple[int, ...], skip: bool, gating: bool) -> None:
    """Scores are 2z less the log prior odds, so that 1e-6 on z is 2e-6 here; every count meets a chunk's end."""
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    from obil.networks.mlp import MLP

    features, training_priors = feature_map(), [0.1, 0.3, 0.5]
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        modules = [MLP(features.n_inputs, hidden=hidden, skip=skip).eval() for _ in training_priors]
        for module in modules if skip else ():
            torch.nn.init.normal_(module.skip.weight)
        weighs = MLP(features.n_inputs, len(training_priors), hidden=(32,), dropout=0.0).eval()
    scorers = [
        DenseScorer(features, module.frozen(), "tanh", np.array([1.0 - prior, prior]))
        for module, prior in zip(modules, training_priors, strict=True)
    ]
    weights = np.array([0.2, 0.3, 0.5])
    stack = NetworkStack.of(scorers, weights=weights, gating=weighs.frozen() if gating else None)
    assert stack is not None
    matrix = rows(2 * CHUNK_ROWS + 3)
    inputs = torch.from_numpy(features.encode(matrix))
    with torch.inference_mode():
        z = torch.cat([module(inputs) for module in modules], dim=1).double().numpy()
        weights = torch.softmax(weighs(inputs).double(), dim=1).numpy() if gating else weights
    odds = np.log(training_priors) - np.log1p(-np.array(training_priors))
    expected = (weights * (2.0 * z - odds)).sum(axis=1)
    for n in COUNTS:
        scores = stack.scores(matrix[:n])
        assert not scores[:, 0].any()
        assert_close(scores[:, 1], expected[:n], 2e-6)
    alone = np.concatenate([stack.scores(matrix[[i]]) for i in range(100)])
    assert_close(alone[:, 1], expected[:100], 2e-6)


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("gating", [False, True])
@pytest.mark.parametrize("n_members", [1, 2, 5])
@pytest.mark.parametrize("hidden", [(8,), (16, 8, 4), (3, 40, 2)])
def test_one_row_and_many_rows_are_the_formula(
    hidden: tuple[int, ...], n_members: int, gating: bool, straight: bool
) -> None:
    stack, scorers, weighs = stacked(n_members, hidden, gating=gating, features=standard_map() if straight else None)
    matrix = rows(150)
    expected = fused(stack, scorers, weighs, matrix)
    assert_close(stack.scores(matrix)[:, 1], expected, 2e-6)
    assert_close(np.concatenate([stack.scores(matrix[[i]]) for i in range(150)])[:, 1], expected, 2e-6)


@pytest.mark.parametrize("gating", [False, True])
def test_a_row_scores_alike_wherever_it_stands(gating: bool) -> None:
    """A chunk's end changes the shape of the products, and so their rounding, but no more."""
    stack, _, _ = stacked(3, (16, 8), gating=gating)
    matrix = rows(CHUNK_ROWS + 1)
    for n in COUNTS[:5]:
        assert_close(stack.scores(matrix[:n])[:, 1], stack.scores(matrix)[:n, 1])
        assert_close(stack.scores(matrix[-n:])[:, 1], stack.scores(matrix)[-n:, 1])


def test_the_stack_keeps_nothing_of_the_rows_it_saw() -> None:
    stack, _, _ = stacked(2, (8,), gating=True)
    before = stack.scores(rows(20)).tobytes()
    stack.scores(rows(CHUNK_ROWS + 5, seed=1))
    stack.scores(rows(1, seed=2))
    assert stack.scores(rows(20)).tobytes() == before


def test_fixed_weights_apply_to_the_members() -> None:
    features = feature_map()
    scorers = [binary(features, seed) for seed in (0, 1)]
    only = NetworkStack.of(scorers, weights=np.array([0.0, 1.0]), gating=None)
    assert only is not None
    assert_close(only.scores(rows(50)), scorers[1].scores(rows(50)), 2e-6)
    assert_close(only.scores(rows(1)), scorers[1].scores(rows(1)), 2e-6)


def test_extreme_logits_of_the_gating_network_give_one_member_everything() -> None:
    stack, scorers, _ = stacked(3, (8,), gating=True)
    weighs = DenseNetwork(
        (np.zeros((N_INPUTS, 2), dtype=np.float32), np.zeros((2, 3), dtype=np.float32)),
        (np.zeros(2, dtype=np.float32), np.array([-1e30, 3e4, 0.0], dtype=np.float32)),
    )
    extreme = NetworkStack.of(scorers, weights=stack.fusion[1], gating=weighs)
    assert extreme is not None
    assert_close(extreme.scores(rows(30)), scorers[1].scores(rows(30)), 2e-6)
    assert_close(extreme.scores(rows(1)), scorers[1].scores(rows(1)), 2e-6)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused_alone_and_among_others(n: int, bad: float) -> None:
    stack, scorers, _ = stacked(2, (8,), gating=False)
    matrix = rows(n)
    matrix[-1, 1] = bad
    for scorer in (stack, scorers[0]):
        with pytest.raises(InvalidInputError, match="infinity"):
            scorer.scores(matrix)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 5), (1, 5), (1, WIDTH, 1)])
def test_rows_of_another_width_are_refused_before_a_kernel_sees_them(shape: tuple[int, ...]) -> None:
    stack, scorers, _ = stacked(2, (8,), gating=True)
    for scorer in (stack, scorers[0]):
        with pytest.raises(InvalidInputError, match="shape"):
            scorer.scores(np.zeros(shape))


def test_no_rows_give_no_scores() -> None:
    stack, scorers, _ = stacked(2, (8,), gating=True)
    assert stack.scores(np.empty((0, WIDTH))).shape == (0, 2)
    assert scorers[0].scores(np.empty((0, WIDTH))).shape == (0, 2)


@pytest.mark.parametrize("order", ["F", "strided", "list", "int"])
def test_rows_may_lie_in_memory_in_any_order(order: str) -> None:
    stack, _, _ = stacked(2, (8,), gating=True)
    matrix = np.nan_to_num(rows(40)).round()
    given: Any = {
        "F": np.asfortranarray(matrix),
        "strided": np.repeat(matrix, 2, axis=1)[:, ::2],
        "list": matrix.tolist(),
        "int": matrix.astype(np.int64),
    }[order]
    assert stack.scores(given).tobytes() == stack.scores(matrix).tobytes()
    assert stack.scores(given[:1]).tobytes() == stack.scores(matrix[:1]).tobytes()


def test_networks_that_differ_are_not_stacked() -> None:
    features = feature_map()
    first = binary(features, 0)
    ones, weights = np.full(2, 0.5), np.full(3, 1 / 3)
    assert NetworkStack.of([first, binary(features, 1)], weights=ones, gating=None) is not None
    assert NetworkStack.of([first, binary(features, 1, hidden=(5, 6))], weights=ones, gating=None) is None
    assert NetworkStack.of([first, binary(features, 1, hidden=(6,))], weights=ones, gating=None) is None
    assert NetworkStack.of([first, binary(feature_map(), 1)], weights=ones, gating=None) is None
    three = [softmax_of_three(features, seed) for seed in range(3)]
    assert NetworkStack.of(three, weights=weights, gating=None) is None
    flat = [binary(features, seed, hidden=()) for seed in (0, 1)]
    assert NetworkStack.of(flat, weights=ones, gating=None) is None
    deep = network((features.n_inputs, 4, 4, 2))
    assert NetworkStack.of([first, binary(features, 1)], weights=ones, gating=deep) is None
