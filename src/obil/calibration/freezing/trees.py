"""Turn scikit-learn's fitted trees, forests and boosters into frozen trees."""

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from obil.arrays import FloatArray
from obil.calibration.freezing.not_frozen import NotFrozenError
from obil.serving.scorers import LOGIT, PROBABILITY
from obil.serving.trees import LEAF, NUMERIC, TreeScorer, pack_nodes

FORESTS = (RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier, ExtraTreeClassifier)
NO_CATEGORIES = np.zeros((0, 1), dtype=np.uint8)


def freeze_forest(estimator: Any, *, training_prior: FloatArray, floor: float) -> TreeScorer:
    """Return the frozen form of a forest, or of a single tree as a forest of one."""
    if estimator.n_outputs_ != 1:
        raise NotFrozenError("a forest of several targets has no frozen form")
    trees = [fitted.tree_ for fitted in getattr(estimator, "estimators_", [estimator])]
    return TreeScorer(
        **_grown(trees),
        outputs=np.zeros(len(trees), dtype=np.int32),
        values=np.concatenate([tree.value[:, 0, :] for tree in trees]),
        start=np.zeros(len(training_prior)),
        link=PROBABILITY,
        training_prior=training_prior,
        floor=floor,
        n_features=int(estimator.n_features_in_),
        single_inputs=True,
    )


def freeze_gradient_boosting(estimator: Any, *, training_prior: FloatArray, floor: float) -> TreeScorer:
    """Return the frozen form of a booster of scikit-learn's older kind."""
    initial = estimator.init_
    if not (isinstance(initial, DummyClassifier) or initial == "zero"):
        raise NotFrozenError("a GradientBoostingClassifier that starts from a model has no frozen form")
    # exponential loss: the probability is expit(2 * raw)
    scale = 2.0 if estimator.loss == "exponential" else 1.0
    trees = [fitted.tree_ for fitted in estimator.estimators_.ravel()]
    n_outputs = estimator.estimators_.shape[1]
    frozen = TreeScorer(
        **_grown(trees),
        outputs=np.tile(np.arange(n_outputs, dtype=np.int32), len(estimator.estimators_)),
        values=np.concatenate([scale * estimator.learning_rate * tree.value[:, 0, :] for tree in trees]),
        start=np.zeros(n_outputs),
        link=LOGIT,
        training_prior=training_prior,
        floor=floor,
        n_features=int(estimator.n_features_in_),
        single_inputs=True,
        allow_missing=False,
    )
    row = np.zeros((1, frozen.n_features))  # the start is what any row has beside its trees
    frozen.start[:] = (scale * np.reshape(estimator.decision_function(row), (1, -1)) - frozen.sums(row))[0]
    return frozen


def freeze_hist_gradient_boosting(estimator: Any, *, training_prior: FloatArray, floor: float) -> TreeScorer:
    """Return the frozen form of a histogram booster, for rows that its own preprocessing has encoded."""
    grown = [(output, tree) for round_ in estimator._predictors for output, tree in enumerate(round_)]
    sizes = [len(tree.nodes) for _, tree in grown]
    nodes = np.concatenate([tree.nodes for _, tree in grown])
    roots = np.cumsum([0, *sizes])[:-1]
    leaf, categorical = nodes["is_leaf"].astype(bool), nodes["is_categorical"].astype(bool)
    first_set = np.cumsum([0, *(len(tree.raw_left_cat_bitsets) for _, tree in grown)])[:-1]
    sets = np.concatenate([tree.raw_left_cat_bitsets for _, tree in grown]).astype("<u4")
    children = {
        side: np.where(leaf, 0, nodes[side].astype(np.int64) + np.repeat(roots, sizes)) for side in ("left", "right")
    }
    return TreeScorer(
        nodes=pack_nodes(
            threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
            feature=np.where(leaf, LEAF, nodes["feature_idx"]),
            category_set=np.where(categorical, nodes["bitset_idx"] + np.repeat(first_set, sizes), NUMERIC),
            missing_left=nodes["missing_go_to_left"],
            **children,
        ),
        roots=roots.astype(np.int32),
        outputs=np.array([output for output, _ in grown], dtype=np.int32),
        values=nodes["value"].astype(np.float64)[:, None],
        start=np.asarray(estimator._baseline_prediction, dtype=np.float64).ravel(),
        category_sets=sets.view(np.uint8) if len(sets) else NO_CATEGORIES,
        link=LOGIT,
        training_prior=training_prior,
        floor=floor,
        n_features=int(estimator.n_features_in_),
    )


TREES: tuple[tuple[Any, Any], ...] = (
    (FORESTS, freeze_forest),
    (GradientBoostingClassifier, freeze_gradient_boosting),
    (HistGradientBoostingClassifier, freeze_hist_gradient_boosting),
)


def _grown(trees: list[Any]) -> dict[str, Any]:
    """Return the nodes of scikit-learn's plain trees, one tree after the other."""
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    own_root = np.repeat(roots, [tree.node_count for tree in trees])
    leaf = np.concatenate([tree.children_left for tree in trees]) < 0

    def field(name: str, in_leaves: float) -> Any:
        return np.where(leaf, in_leaves, np.concatenate([getattr(tree, name) for tree in trees]))

    return {
        "nodes": pack_nodes(
            threshold=field("threshold", 0.0),
            feature=field("feature", LEAF),
            left=np.where(leaf, 0, field("children_left", 0) + own_root),
            right=np.where(leaf, 0, field("children_right", 0) + own_root),
            category_set=np.full(len(leaf), NUMERIC),
            missing_left=field("missing_go_to_left", 0),
        ),
        "roots": roots.astype(np.int32),
        "category_sets": NO_CATEGORIES,
    }
