"""Trees read from a file are walked by a kernel that asks nothing, so what it could trip over is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.errors import InvalidInputError
from obil.serving.scorers import LOGIT, MARGIN
from obil.serving.trees import TreeScorer
from tests.serving.ensembles import WIDTH, rows, stump_forest
from tests.serving.stored import arrays_of, described, rebuilt


def booster(n_classes: int) -> TreeScorer:
    """Return a tree an output, the stump of `stump_forest`, with a start for each output."""
    n_outputs = 1 if n_classes == 2 else n_classes
    forest = stump_forest(n_classes)
    told = described(forest) | {"link": LOGIT}
    stumps = {name: np.tile(forest.nodes[name][:3], n_outputs) for name in forest.nodes.dtype.names or ()}
    roots = np.arange(0, 3 * n_outputs, 3, dtype=np.int32)
    stumps["child"] = stumps["child"] + np.repeat(roots, 3)
    arrays = (
        {"category_sets": forest.category_sets}
        | {f"nodes.{name}": values for name, values in stumps.items()}
        | {
            "roots": roots,
            "outputs": np.arange(n_outputs, dtype=np.int32),
            "values": np.tile(forest.values[:3, :1], (n_outputs, 1)),
            "start": np.linspace(-1.0, 1.0, n_outputs) if n_outputs > 1 else np.array([-0.7]),
        }
    )
    return rebuilt(TreeScorer, told, arrays)


def test_a_forest_is_walked_as_its_nodes_say() -> None:
    forest = stump_forest()
    x = np.array([[0.25, -0.5, 0.0, 9.0], [0.26, 0.0, 0.0, 1.0], [np.nan, np.nan, 0.0, np.nan], [0.0, 0.0, 0.0, 1.01]])
    leaves = [(1, 4), (2, 6), (2, 6), (1, 7)]  # of the stump and of the deep tree; a gap goes left only at node 5
    mean = np.array([(forest.values[a] + forest.values[b]) / 2.0 for a, b in leaves])
    np.testing.assert_allclose(forest.scores(x)[:, 1], np.log(mean[:, 1] / mean[:, 0]), atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_booster_adds_to_its_own_output(n_classes: int) -> None:
    trees = booster(n_classes)
    x = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    leaf = np.array([trees.values[1, 0], trees.values[2, 0]])
    margins = trees.start + leaf[:, None]
    expected = margins[:, 0] if n_classes == 2 else (margins - margins[:, :1])[:, 1]
    np.testing.assert_allclose(trees.scores(x)[:, 1], expected, atol=1e-12)
    assert not trees.scores(x)[:, 0].any()


def test_a_probability_of_0_is_moved_to_the_floor() -> None:
    forest = stump_forest()
    values = np.tile([1.0, 0.0], (8, 1))
    sure = rebuilt(TreeScorer, described(forest), arrays_of(forest) | {"values": values})
    np.testing.assert_allclose(sure.scores(rows(5))[:, 1], np.log(1e-3), atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_come_back_to_the_last_bit(n_classes: int) -> None:
    for trees in (stump_forest(n_classes), booster(n_classes)):
        again = rebuilt(TreeScorer, described(trees), arrays_of(trees))
        assert again.scores(rows(80)).tobytes() == trees.scores(rows(80)).tobytes()
        assert again.n_features == WIDTH


def changed(name: str, node: int, value: int) -> dict[str, Any]:
    field = stump_forest().nodes[name].copy()
    field[node] = value
    return {f"nodes.{name}": field}


DAMAGE: dict[str, dict[str, Any]] = {
    "a split that is its own child": changed("child", 3, 3),
    "a circle of two nodes": changed("child", 5, 3),
    "a child before the first node": changed("child", 0, -1),
    "a right child beyond the last node": changed("child", 5, 7),
    "a child of another tree": changed("child", 0, 2),
    "a child far beyond": changed("child", 5, 2**31 - 1),
    "a child far before": changed("child", 5, -(2**31)),
    "a feature beyond the row": changed("feature", 0, WIDTH),
    "a negative feature": changed("feature", 0, -1),
    "a leaf that a value leads out of": changed("threshold", 7, 0),
    "a leaf that a missing value leads out of": changed("missing_left", 1, 0),
    "a leaf that categories lead out of": changed("category_set", 1, 0),
    "roots that do not begin with the first node": {"roots": np.array([1, 3], dtype=np.int32)},
    "two trees at one root": {"roots": np.array([0, 0], dtype=np.int32)},
    "a root before the first node": {"roots": np.array([0, -1], dtype=np.int32)},
    "a root beyond the last node": {"roots": np.array([0, 8], dtype=np.int32)},
    "roots as a table": {"roots": np.zeros((2, 1), dtype=np.int32)},
    "no trees": {"roots": np.zeros(0, dtype=np.int32), "outputs": np.zeros(0, dtype=np.int32)},
    "an output that does not exist": {"outputs": np.array([0, 2], dtype=np.int32)},
    "a negative output": {"outputs": np.array([0, -1], dtype=np.int32)},
    "outputs of another number": {"outputs": np.zeros(3, dtype=np.int32)},
    "a set of categories that does not exist": changed("category_set", 0, 1),
    "a set of categories below none": changed("category_set", 0, -2),
    "sets of categories without a byte": {"category_sets": np.zeros((1, 0), dtype=np.uint8)},
    "sets of categories in a row": {"category_sets": np.zeros(1, dtype=np.uint8)},
    "thresholds cut short": {"nodes.threshold": np.zeros(7)},
    "missing sides cut short": {"nodes.missing_left": np.zeros(7, dtype=np.uint8)},
    "children cut short": {"nodes.child": np.zeros(7, dtype=np.int32)},
    "nodes as a table": {
        name: np.stack([field, field]) for name, field in arrays_of(stump_forest()).items() if name.startswith("nodes.")
    },
    "values cut short": {"values": np.zeros((7, 2))},
    "values of three classes": {"values": np.zeros((8, 3))},
    "values of one class": {"values": np.zeros((8, 1))},
    "a value that is not a number": {"values": np.full((8, 2), np.nan)},
    "an infinite value": {"values": np.full((8, 2), np.inf)},
    "a start of three classes": {"start": np.zeros(3)},
    "an infinite start": {"start": np.array([0.0, np.inf])},
    "no nodes": {
        name: arrays_of(stump_forest())[name][:0]
        for name in arrays_of(stump_forest())
        if name.startswith("nodes.") or name == "values"
    },
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_trees_are_refused(damage: str) -> None:
    trees = stump_forest()
    with pytest.raises(InvalidInputError, match="damaged"):
        rebuilt(TreeScorer, described(trees), arrays_of(trees) | DAMAGE[damage])


DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "an unknown link": {"link": "grove"},
    "a link that trees do not have": {"link": MARGIN},
    "a forest told to be a booster": {"link": LOGIT},
    "three classes": {"training_prior": [0.5, 0.3, 0.2]},
    "one class": {"training_prior": [1.0]},
    "no prior of a class": {"training_prior": [1.0, 0.0]},
    "a negative prior": {"training_prior": [1.5, -0.5]},
    "a prior that is not a number": {"training_prior": [0.5, float("nan")]},
    "a floor above one half": {"floor": 0.6},
    "a negative floor": {"floor": -1e-3},
    "a floor that is not a number": {"floor": float("nan")},
    "a row too narrow": {"n_features": 3},
    "a row without features": {"n_features": 0},
    "a negative width": {"n_features": -1},
}


@pytest.mark.parametrize("damage", DESCRIPTIONS)
def test_trees_whose_description_does_not_fit_are_refused(damage: str) -> None:
    trees = stump_forest()
    with pytest.raises(InvalidInputError, match=r"damaged|must"):
        rebuilt(TreeScorer, described(trees) | DESCRIPTIONS[damage], arrays_of(trees))


@pytest.mark.parametrize("gone", arrays_of(stump_forest()))
def test_trees_without_one_of_their_arrays_are_refused(gone: str) -> None:
    trees = stump_forest()
    with pytest.raises((InvalidInputError, KeyError)):  # `load` makes a ModelFileError of either
        rebuilt(TreeScorer, described(trees), {name: a for name, a in arrays_of(trees).items() if name != gone})


@given(st.data())
def test_whatever_the_nodes_say_a_walk_ends_or_is_refused(data: st.DataObject) -> None:
    """Random children, features and roots: rebuilt trees score every row, and never fall out of the arrays."""
    trees = stump_forest()

    def some_changed(field: str, low: int, high: int) -> Any:
        own = trees.nodes[field].tolist()
        return np.array([data.draw(st.just(value) | st.just(value) | st.integers(low, high)) for value in own])

    arrays = arrays_of(trees) | {
        "nodes.child": some_changed("child", -2, 9),
        "nodes.feature": some_changed("feature", -1, WIDTH),
        "nodes.category_set": some_changed("category_set", -2, 1),
        "roots": np.array(data.draw(st.just([0, 3]) | st.lists(st.integers(-1, 8), min_size=2, max_size=2))),
    }
    try:
        read = rebuilt(TreeScorer, described(trees), arrays)
    except InvalidInputError:
        return
    assert np.isfinite(read.scores(rows(5))).all()
