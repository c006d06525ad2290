"""Turn fitted scikit-learn forests and boosters into frozen trees that need no scikit-learn to serve."""

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from obil.arrays import FloatArray
from obil.serving.scorers import SMALLEST_FLOOR
from obil.serving.trees import BOOSTER, FOREST, LEAF, TreeScorer


def freeze_trees(estimator: Any, *, training_prior: FloatArray, floor: float = SMALLEST_FLOOR) -> TreeScorer | None:
    """Return the frozen form of a fitted forest or booster, or None where there is none.

    >>> X = np.arange(40.0)[:, None]
    >>> booster = HistGradientBoostingClassifier(max_iter=5).fit(X, X[:, 0] > 19)
    >>> frozen = freeze_trees(booster, training_prior=np.array([0.5, 0.5]))
    >>> bool(np.allclose(frozen.scores(X)[:, 1], booster.decision_function(X)))
    True
    """
    if type(estimator) in (RandomForestClassifier, ExtraTreesClassifier):
        return _forest(estimator, training_prior, floor)
    if type(estimator) is HistGradientBoostingClassifier:
        return _booster(estimator, training_prior)
    return None


def _forest(estimator: Any, training_prior: FloatArray, floor: float) -> TreeScorer | None:
    trees = [fitted.tree_ for fitted in estimator.estimators_]
    if estimator.n_outputs_ != 1 or len(estimator.classes_) != len(training_prior):
        return None
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    leaf = np.concatenate([tree.children_left for tree in trees]) < 0
    children = [
        np.stack([tree.children_left, tree.children_right], axis=1) + root
        for tree, root in zip(trees, roots, strict=True)
    ]
    features = np.concatenate([tree.feature for tree in trees])
    return TreeScorer(
        kind=FOREST,
        roots=roots.astype(np.int32),
        outputs=np.zeros(len(trees), dtype=np.int32),
        features=np.where(leaf, LEAF, features).astype(np.int32),
        thresholds=np.where(leaf, 0.0, np.concatenate([tree.threshold for tree in trees])),
        children=np.where(leaf[:, None], 0, np.concatenate(children)).astype(np.int32),
        missing_left=np.concatenate([tree.missing_go_to_left for tree in trees]).astype(np.uint8),
        values=np.concatenate([tree.value[:, 0, :] for tree in trees]),
        start=np.zeros(len(training_prior)),
        training_prior=training_prior,
        floor=floor,
        width=int(estimator.n_features_in_),
    )


def _booster(estimator: Any, training_prior: FloatArray) -> TreeScorer | None:
    if len(estimator.classes_) != len(training_prior) or estimator.is_categorical_ is not None:
        return None
    grown = [(output, tree.nodes) for round_ in estimator._predictors for output, tree in enumerate(round_)]
    nodes = np.concatenate([tree for _, tree in grown])
    roots = np.cumsum([0, *(len(tree) for _, tree in grown)])[:-1]
    own_root = np.repeat(roots, [len(tree) for _, tree in grown])
    leaf = nodes["is_leaf"].astype(bool)
    children = np.stack([nodes["left"], nodes["right"]], axis=1).astype(np.int64) + own_root[:, None]
    return TreeScorer(
        kind=BOOSTER,
        roots=roots.astype(np.int32),
        outputs=np.array([output for output, _ in grown], dtype=np.int32),
        features=np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int32),
        thresholds=np.where(leaf, 0.0, nodes["num_threshold"]),
        children=np.where(leaf[:, None], 0, children).astype(np.int32),
        missing_left=nodes["missing_go_to_left"].astype(np.uint8),
        values=nodes["value"].astype(np.float64)[:, None],
        start=np.asarray(estimator._baseline_prediction, dtype=np.float64).ravel(),
        training_prior=training_prior,
        floor=SMALLEST_FLOOR,
        width=int(estimator.n_features_in_),
    )
