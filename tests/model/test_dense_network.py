"""A served network is torch's own to 1e-6, one row by the kernel and many by matrix products, and checked when read."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.model.dense_network import CHUNK_ROWS, DenseNetwork, DenseScorer, DenseStack, as_matrix, softmax_weights
from obil.model.features import FeatureMap
from tests.model.ensembles import N_INPUTS, WIDTH, binary, feature_map, network, rows, softmax_of_three

DEPTHS = [(), (8,), (16, 8, 4), (128, 64, 32)]
COUNTS = [1, 2, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 3]


def in_float64(dense: DenseNetwork, inputs: FloatArray) -> FloatArray:
    """The definition of a network, in twice the precision."""
    hidden = inputs.astype(np.float64)
    for layer, (weights, biases) in enumerate(zip(dense.weights, dense.biases, strict=True)):
        hidden = hidden @ weights.astype(np.float64) + biases
        if layer < len(dense.weights) - 1:
            hidden = np.maximum(hidden, 0.0)
    return hidden


def assert_close(ours: FloatArray, exact: FloatArray, tolerance: float = 1e-6) -> None:
    """Equal to `tolerance` relative to max(1, |z|)."""
    assert ours.shape == exact.shape
    assert (abs(ours - exact) / np.maximum(1.0, abs(exact))).max(initial=0.0) < tolerance


def stacked(
    n_members: int, hidden: tuple[int, ...], *, weigher: bool, features: FeatureMap | None = None
) -> tuple[DenseStack, list[DenseScorer]]:
    own = features or feature_map()
    scorers = [binary(own, seed, hidden=hidden, share=0.1 + 0.1 * seed) for seed in range(n_members)]
    shares = np.arange(1.0, n_members + 1.0) / (n_members * (n_members + 1) / 2)
    weighs = network((own.n_inputs, 9, n_members), seed=99) if weigher else None
    stack = DenseStack.of(scorers, weights=shares, weigher=weighs)
    assert stack is not None
    return stack, scorers


def fused(stack: DenseStack, scorers: list[DenseScorer], matrix: FloatArray) -> FloatArray:
    """The definition: each member's log odds less those of its balance, weighted, in float64."""
    inputs = stack.features.encode(matrix)
    odds = np.array([np.log(scorer.balance[1] / scorer.balance[0]) for scorer in scorers])
    ratios = 2.0 * np.concatenate([in_float64(scorer.network, inputs) for scorer in scorers], axis=1) - odds
    weights = stack.fusion[1] if stack.weigher is None else softmax(in_float64(stack.weigher, inputs), axis=1)
    return (weights * ratios).sum(axis=1)


@pytest.mark.parametrize("hidden", DEPTHS)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("skip", [False, True])
def test_a_frozen_network_is_torchs_own(hidden: tuple[int, ...], n_outputs: int, skip: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    from obil.bregman.mlp import MLP

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


@pytest.mark.parametrize("weigher", [False, True])
@pytest.mark.parametrize(("hidden", "skip"), [*((hidden, False) for hidden in DEPTHS), ((), True), ((64, 32), True)])
def test_a_stack_is_torchs_networks_weighted(hidden: tuple[int, ...], skip: bool, weigher: bool) -> None:
    """Scores are 2z less the log balance, so that 1e-6 on z is 2e-6 here; every count of rows meets a chunk's end."""
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    from obil.bregman.mlp import MLP

    features, balances = feature_map(), [0.1, 0.3, 0.5]
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        modules = [MLP(features.n_inputs, hidden=hidden, skip=skip).eval() for _ in balances]
        for module in modules if skip else ():
            torch.nn.init.normal_(module.skip.weight)
        weighs = MLP(features.n_inputs, len(balances), hidden=(32,), dropout=0.0).eval()
    scorers = [
        DenseScorer(features, module.frozen(), "tanh", np.array([1.0 - share, share]))
        for module, share in zip(modules, balances, strict=True)
    ]
    shares = np.array([0.2, 0.3, 0.5])
    stack = DenseStack.of(scorers, weights=shares, weigher=weighs.frozen() if weigher else None)
    assert stack is not None
    matrix = rows(2 * CHUNK_ROWS + 3)
    inputs = torch.from_numpy(features.encode(matrix))
    with torch.inference_mode():
        z = torch.cat([module(inputs) for module in modules], dim=1).double().numpy()
        weights = torch.softmax(weighs(inputs).double(), dim=1).numpy() if weigher else shares
    odds = np.log(balances) - np.log1p(-np.array(balances))
    expected = (weights * (2.0 * z - odds)).sum(axis=1)
    for n in COUNTS:
        scores = stack.scores(matrix[:n])
        assert not scores[:, 0].any()
        assert_close(scores[:, 1], expected[:n], 2e-6)
    alone = np.concatenate([stack.scores(matrix[[i]]) for i in range(100)])
    assert_close(alone[:, 1], expected[:100], 2e-6)


@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("weigher", [False, True])
@pytest.mark.parametrize("n_members", [1, 2, 5])
@pytest.mark.parametrize("hidden", [(), (8,), (16, 8, 4), (3, 40, 2)])
def test_one_row_and_many_rows_are_the_formula(
    hidden: tuple[int, ...], n_members: int, weigher: bool, straight: bool
) -> None:
    stack, scorers = stacked(n_members, hidden, weigher=weigher, features=feature_map(straight=straight))
    matrix = rows(150)
    expected = fused(stack, scorers, matrix)
    assert_close(stack.scores(matrix)[:, 1], expected, 2e-6)
    assert_close(np.concatenate([stack.scores(matrix[[i]]) for i in range(150)])[:, 1], expected, 2e-6)


@pytest.mark.parametrize("weigher", [False, True])
def test_a_row_scores_alike_wherever_it_stands(weigher: bool) -> None:
    """A chunk's end changes the shape of the products, and so their rounding, but no more."""
    stack, _ = stacked(3, (16, 8), weigher=weigher)
    matrix = rows(CHUNK_ROWS + 1)
    for n in COUNTS[:5]:
        assert_close(stack.scores(matrix[:n])[:, 1], stack.scores(matrix)[:n, 1])
        assert_close(stack.scores(matrix[-n:])[:, 1], stack.scores(matrix)[-n:, 1])


def test_the_stack_keeps_nothing_of_the_rows_it_saw() -> None:
    stack, _ = stacked(2, (8,), weigher=True)
    before = stack.scores(rows(20)).tobytes()
    stack.scores(rows(CHUNK_ROWS + 5, seed=1))
    stack.scores(rows(1, seed=2))
    assert stack.scores(rows(20)).tobytes() == before


def test_fixed_shares_weigh_the_members() -> None:
    features = feature_map()
    scorers = [binary(features, seed) for seed in (0, 1)]
    only = DenseStack.of(scorers, weights=np.array([0.0, 1.0]), weigher=None)
    assert only is not None
    assert_close(only.scores(rows(50)), scorers[1].scores(rows(50)), 2e-6)
    assert_close(only.scores(rows(1)), scorers[1].scores(rows(1)), 2e-6)


@pytest.mark.parametrize("head", ["softmax", "one_vs_rest"])
def test_a_network_of_three_classes_scores_by_its_head(head: str) -> None:
    scorer = softmax_of_three(feature_map(), 3, head=head)
    z = in_float64(scorer.network, scorer.features.encode(rows(40)))
    logs = z if head == "softmax" else -np.logaddexp(0.0, -2.0 * z)
    logs = logs - np.log(scorer.balance)
    assert_close(scorer.scores(rows(40)), logs - logs[:, :1], 2e-6)


def test_extreme_logits_of_the_weigher_give_one_member_everything() -> None:
    stack, scorers = stacked(3, (8,), weigher=True)
    weighs = DenseNetwork(
        (np.zeros((N_INPUTS, 2), dtype=np.float32), np.zeros((2, 3), dtype=np.float32)),
        (np.zeros(2, dtype=np.float32), np.array([-1e30, 3e4, 0.0], dtype=np.float32)),
    )
    extreme = DenseStack.of(scorers, weights=stack.fusion[1], weigher=weighs)
    assert extreme is not None
    assert_close(extreme.scores(rows(30)), scorers[1].scores(rows(30)), 2e-6)
    assert_close(extreme.scores(rows(1)), scorers[1].scores(rows(1)), 2e-6)


def test_weights_of_any_logits_sum_to_1() -> None:
    weights = softmax_weights(np.array([[0.0, 0.0], [1e38, -1e38], [-500.0, 500.0]], dtype=np.float32))
    np.testing.assert_allclose(weights, [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused_alone_and_among_others(n: int, bad: float) -> None:
    stack, scorers = stacked(2, (8,), weigher=False)
    matrix = rows(n)
    matrix[-1, 1] = bad
    for scorer in (stack, scorers[0]):
        with pytest.raises(InvalidInputError, match="infinity"):
            scorer.scores(matrix)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 5), (1, 5), (1, WIDTH, 1)])
def test_rows_of_another_width_are_refused_before_a_kernel_sees_them(shape: tuple[int, ...]) -> None:
    stack, scorers = stacked(2, (8,), weigher=True)
    for scorer in (stack, scorers[0]):
        with pytest.raises(InvalidInputError, match="shape"):
            scorer.scores(np.zeros(shape))


@pytest.mark.parametrize("bad", [[["a", "b"]], [[None, {}]], [[1.0], [2.0, 3.0]], "text"])
def test_rows_that_are_no_numbers_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        as_matrix(bad)


def test_no_rows_give_no_scores() -> None:
    stack, scorers = stacked(2, (8,), weigher=True)
    assert stack.scores(np.empty((0, WIDTH))).shape == (0, 2)
    assert scorers[0].scores(np.empty((0, WIDTH))).shape == (0, 2)


@pytest.mark.parametrize("order", ["F", "strided", "list", "int"])
def test_rows_may_lie_in_memory_in_any_way(order: str) -> None:
    stack, _ = stacked(2, (8,), weigher=True)
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
    ones, shares = np.full(2, 0.5), np.full(3, 1 / 3)
    assert DenseStack.of([first, binary(features, 1)], weights=ones, weigher=None) is not None
    assert DenseStack.of([first, binary(features, 1, hidden=(5, 6))], weights=ones, weigher=None) is None
    assert DenseStack.of([first, binary(features, 1, hidden=(6,))], weights=ones, weigher=None) is None
    assert DenseStack.of([first, binary(feature_map(), 1)], weights=ones, weigher=None) is None
    three = [softmax_of_three(features, seed) for seed in range(3)]
    assert DenseStack.of(three, weights=shares, weigher=None) is None
    deep = network((features.n_inputs, 4, 4, 2))
    assert DenseStack.of([first, binary(features, 1)], weights=ones, weigher=deep) is None


def test_a_scorer_comes_back_to_the_last_bit() -> None:
    for scorer in (binary(feature_map(), 0), binary(feature_map(straight=True), 1, hidden=()), softmax_of_three(
        feature_map(), 2
    )):  # fmt: skip
        again = DenseScorer.rebuild(scorer.describe(), scorer.arrays())
        assert again.scores(rows(60)).tobytes() == scorer.scores(rows(60)).tobytes()
        assert again.n_features == WIDTH


LAYERS = network((N_INPUTS, 6, 5, 1)).arrays()
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
        DenseNetwork.rebuild(LAYERS | DAMAGED_LAYERS[damage])


def test_no_layers_are_no_network() -> None:
    with pytest.raises(InvalidInputError, match="do not fit"):
        DenseNetwork.rebuild({})


@pytest.mark.parametrize("gone", LAYERS)
def test_a_layer_that_is_gone_is_noticed(gone: str) -> None:
    scorer = binary(feature_map(), 0)
    left = {name: array for name, array in scorer.arrays().items() if name != gone}
    with pytest.raises((InvalidInputError, KeyError)):  # `load` makes a ModelFileError of either
        DenseScorer.rebuild(scorer.describe(), left)


DAMAGED_SCORERS: dict[str, dict[str, Any]] = {
    "a head of another kind": {"head": "softmax"},
    "an unknown head": {"head": "sigmoid"},
    "no head": {"head": None},
    "three classes for a tanh": {"balance": [0.5, 0.3, 0.2]},
    "one class": {"balance": [1.0]},
    "no share of a class": {"balance": [1.0, 0.0]},
    "a negative share": {"balance": [1.5, -0.5]},
    "a share that is not a number": {"balance": [0.5, float("nan")]},
    "shares as a table": {"balance": [[0.5, 0.5]]},
}


@pytest.mark.parametrize("damage", DAMAGED_SCORERS)
def test_a_scorer_whose_description_does_not_fit_is_refused(damage: str) -> None:
    scorer = binary(feature_map(), 0)
    with pytest.raises(InvalidInputError):
        DenseScorer.rebuild(scorer.describe() | DAMAGED_SCORERS[damage], scorer.arrays())


def test_a_scorer_whose_network_takes_other_inputs_is_refused() -> None:
    scorer = binary(feature_map(), 0)
    with pytest.raises(InvalidInputError, match="do not fit its features"):
        DenseScorer.rebuild(scorer.describe(), scorer.arrays() | network((N_INPUTS + 1, 6, 5, 1)).arrays())
    with pytest.raises(InvalidInputError, match="do not fit its features"):
        DenseScorer.rebuild(scorer.describe(), scorer.arrays() | network((N_INPUTS, 6, 5, 2)).arrays())
