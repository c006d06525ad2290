"""Tables find the leaf that a walk ends in, to the last bit, whatever stands in a row."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from obil.arrays import FloatArray
from obil.calibration.freezing.freeze import freeze
from obil.serving.leaf_tables import MOST_FEATURES, LeafTables
from obil.serving.scorers import EstimatorScorer
from obil.serving.trees import TreeScorer
from tests.calibration.freezing.rows import labelled
from tests.serving.ensembles import rows, stump_forest

GROWN: dict[str, Any] = {
    "booster": HistGradientBoostingClassifier(max_iter=12),
    "booster with categories": HistGradientBoostingClassifier(max_iter=12, categorical_features=[4, 5]),
    "booster of 64 leaves": HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=64, min_samples_leaf=2),
    "forest": RandomForestClassifier(9, max_leaf_nodes=40, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=9),
}


def grown(name: str, n_classes: int) -> TreeScorer:
    X, y = labelled(800, n_classes, missing=name != "gradient boosting")
    library = EstimatorScorer(GROWN[name].fit(X, y), "predict_proba", np.full(n_classes, 1.0 / n_classes), 1e-9, 6)
    frozen: Any = freeze(library, X)
    trees = getattr(frozen, "scorer", frozen)  # a booster with categories encodes them first
    assert isinstance(trees, TreeScorer)
    return replace(trees, allow_missing=True)


def tables_of(trees: TreeScorer) -> LeafTables | None:
    return LeafTables.of(trees.nodes, trees.roots, trees.values, trees.category_sets)


def walked(trees: TreeScorer, X: FloatArray) -> bytes:
    """The scores without tables."""
    plain = replace(trees)
    plain.tables.append(None)
    return plain.scores(X).tobytes()


def awkward(trees: TreeScorer) -> FloatArray:
    """Return rows of thresholds and their neighbours, codes and what lies between them, and missing values."""
    rng = np.random.default_rng(0)
    cells = trees.nodes["threshold"][np.isfinite(trees.nodes["threshold"])]
    cells = np.concatenate([cells, np.nextafter(cells, np.inf), np.nextafter(cells, -np.inf)])
    cells = np.concatenate([cells, np.arange(-3.0, 300.0, 0.25), [np.nextafter(3.0, 0.0), -0.0, 1e300, -1e300]])
    drawn = rng.choice(cells, (3_000, trees.n_features))
    drawn[rng.random(drawn.shape) < 0.1] = np.nan
    return drawn if trees.single_inputs else np.concatenate([drawn, [[np.inf] * 6, [-np.inf] * 6, [np.nan] * 6]])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", GROWN)
def test_tables_give_the_bits_of_a_walk(name: str, n_classes: int) -> None:
    trees = grown(name, n_classes)
    X = awkward(trees)
    X = np.clip(X, -1e30, 1e30) if trees.single_inputs else X
    together = trees.scores(X)
    assert trees.tables[0] is not None
    assert together.tobytes() == walked(trees, X)
    assert trees.scores(X[:1]).tobytes() == together[:1].tobytes()
    single_sums = replace(trees, single_sums=True)
    assert single_sums.scores(X).tobytes() == walked(single_sums, X)


@pytest.mark.parametrize("n_leaves", [2, 32, 33, 64, 65])
def test_trees_of_more_than_64_leaves_are_walked(n_leaves: int) -> None:
    """A chain of splits: x is in the leaf of the first threshold that it does not exceed."""
    n_splits = n_leaves - 1
    stump = stump_forest()
    nodes = np.zeros(1 + 2 * n_splits, stump.nodes.dtype)
    nodes["category_set"], nodes["missing_left"], nodes["threshold"] = -1, 1, np.inf
    nodes["child"] = np.arange(len(nodes))
    splits = np.arange(0, 2 * n_splits, 2)
    nodes["child"][splits], nodes["threshold"][splits] = splits + 1, np.arange(n_splits)
    values = np.random.default_rng(0).dirichlet(np.ones(2), len(nodes))
    chain = replace(stump, nodes=nodes, values=values, roots=stump.roots[:1], outputs=stump.outputs[:1])
    X = np.c_[np.arange(-1.0, n_leaves + 1.0, 0.25), np.zeros((4 * n_leaves + 8, 3))]
    assert chain.scores(X).tobytes() == walked(chain, X)
    assert (chain.tables[0] is None) == (n_leaves > 64)


def test_trees_that_split_by_very_many_features_are_walked() -> None:
    forest = stump_forest()
    for n_features, fits in ((MOST_FEATURES, True), (MOST_FEATURES + 1, False)):
        nodes = np.tile(forest.nodes[:3], n_features)
        nodes["child"] += np.repeat(np.arange(0, 3 * n_features, 3), 3)
        nodes["feature"][::3] = np.arange(n_features)
        roots = np.arange(0, 3 * n_features, 3, dtype=np.int32)
        tables = LeafTables.of(nodes, roots, np.zeros((3 * n_features, 2)), forest.category_sets)
        assert (tables is not None) == fits


def test_trees_without_a_split_are_walked() -> None:
    forest = stump_forest()
    leaf = forest.nodes[:1].copy()
    leaf["child"] = 0
    assert LeafTables.of(leaf, forest.roots[:1], forest.values[:1], forest.category_sets) is None


def test_a_node_with_two_parents_is_walked() -> None:
    forest = stump_forest()
    nodes = forest.nodes.copy()
    nodes["child"][4], nodes["threshold"][4], nodes["feature"][4] = 5, 0.0, 1  # so that node 5 hangs from 3 and from 4
    damaged = replace(forest, nodes=nodes)
    assert tables_of(forest) is not None
    assert tables_of(damaged) is None
    assert damaged.scores(rows(50)).tobytes() == walked(damaged, rows(50))


@given(st.data())
def test_any_forest_of_numbers_and_categories_is_found_as_it_is_walked(data: st.DataObject) -> None:
    """Thresholds, sides of missing values and sets of categories at random, on the same features."""
    forest = stump_forest()
    nodes, splits = forest.nodes.copy(), [0, 3, 5]
    few = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, 7.0, 8.0, np.inf])
    for split in splits:
        nodes["threshold"][split] = data.draw(few)
        nodes["feature"][split] = data.draw(st.integers(0, 1))
        nodes["category_set"][split] = data.draw(st.integers(-1, 1))
        nodes["missing_left"][split] = data.draw(st.integers(0, 1))
    sets = np.array([[data.draw(st.integers(0, 255))], [data.draw(st.integers(0, 255))]], dtype=np.uint8)
    trees = replace(forest, nodes=nodes, category_sets=sets)
    cells = [-np.inf, -1.5, -1.0, -0.5, 0.0, 0.5, 0.99, 1.0, 6.5, 7.0, 7.5, 8.0, 9.0, np.inf, np.nan]
    X = np.array([[a, b, 0.0, 0.0] for a in cells for b in cells])
    assert trees.scores(X).tobytes() == walked(trees, X)
    assert trees.tables[0] is not None
