"""Turn fitted trees, forests and boosters into frozen trees: scikit-learn's, XGBoost's and LightGBM's.

The boosters of XGBoost and LightGBM are read from their own dumps, without importing either.
"""

import json
from itertools import pairwise
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

from obil.arrays import BoolArray, IntArray
from obil.calibration.freezing.columns import FrozenColumn, NotFrozenError
from obil.compiled import compiled
from obil.serving.scorers import LOGIT, PROBABILITY
from obil.serving.tree_kernels import NUMERIC
from obil.serving.trees import LEAF, TreeScorer, pack_nodes

FORESTS = (RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier, ExtraTreeClassifier)
# bits of LightGBM's decision_type
CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8
Tree = dict[str, Any]  # the fields of its nodes, which of them are leaves, and their values


def freeze_forest(estimator: Any, **output: Any) -> TreeScorer:
    """Return the frozen form of a forest, or of a single tree as a forest of one."""
    if estimator.n_outputs_ != 1:
        raise NotFrozenError("a forest of several targets has no frozen form")
    trees = [_plain(fitted.tree_) for fitted in getattr(estimator, "estimators_", [estimator])]
    start = np.zeros(len(output["training_prior"]))
    outputs = np.zeros(len(trees))
    return _frozen(estimator, trees, outputs, start=start, link=PROBABILITY, single_inputs=True, **output)


def freeze_gradient_boosting(estimator: Any, **output: Any) -> TreeScorer:
    """Return the frozen form of a booster of scikit-learn's older kind."""
    initial = estimator.init_
    if not (isinstance(initial, DummyClassifier) or initial == "zero"):
        raise NotFrozenError("a GradientBoostingClassifier that starts from a model has no frozen form")
    # exponential loss: the probability is expit(2 * raw)
    scale = 2.0 if estimator.loss == "exponential" else 1.0
    trees = [_plain(fitted.tree_, scale * estimator.learning_rate) for fitted in estimator.estimators_.ravel()]
    n_outputs = estimator.estimators_.shape[1]
    outputs = np.tile(np.arange(n_outputs), len(estimator.estimators_))
    start = np.zeros(n_outputs)
    frozen = _frozen(estimator, trees, outputs, start=start, single_inputs=True, allow_missing=False, **output)
    row = np.zeros((1, frozen.n_features))  # the start is what any row has beside its trees
    frozen.start[:] = (scale * np.reshape(estimator.decision_function(row), (1, -1)) - frozen.sums(row))[0]
    return frozen


def freeze_hist_gradient_boosting(estimator: Any, **output: Any) -> TreeScorer:
    """Return the frozen form of a histogram booster, for rows that its own preprocessing has encoded."""
    grown = [(place, tree) for round_ in estimator._predictors for place, tree in enumerate(round_)]
    trees: list[Tree] = []
    sets: list[bytes] = []
    for _, tree in grown:
        nodes = tree.nodes
        own_sets = nodes["bitset_idx"].astype(np.int64)
        trees.append(
            {
                "leaf": nodes["is_leaf"].astype(bool),
                "threshold": nodes["num_threshold"],
                "feature": nodes["feature_idx"],
                "left": nodes["left"],
                "right": nodes["right"],
                "category_set": np.where(nodes["is_categorical"], own_sets + len(sets), NUMERIC),
                "missing_left": nodes["missing_go_to_left"],
                "values": nodes["value"][:, None],
            }
        )
        sets += [bits.astype("<u4").tobytes() for bits in tree.raw_left_cat_bitsets]
    start = np.asarray(estimator._baseline_prediction, dtype=np.float64).ravel()
    return _frozen(estimator, trees, [place for place, _ in grown], sets, start=start, **output)


def freeze_xgboost(estimator: Any, **output: Any) -> TreeScorer:
    """Return the frozen form of an XGBClassifier: float32 throughout, and a row goes left strictly below."""
    booster = estimator.get_booster()
    if getattr(booster, "best_iteration", None) is not None and estimator.early_stopping_rounds:
        booster = booster[: booster.best_iteration + 1]
    learner = json.loads(booster.save_raw("json"))["learner"]
    kind, objective = learner["gradient_booster"]["name"], learner["objective"]["name"]
    if kind != "gbtree" or objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise NotFrozenError(f"XGBoost's {kind} with the objective {objective} has no frozen form")
    grown = learner["gradient_booster"]["model"]
    if any(tree["categories"] for tree in grown["trees"]):
        raise NotFrozenError("XGBoost's categorical splits have no frozen form")
    n_outputs = max(int(learner["learner_model_param"]["num_class"]), 1)
    base = np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float32).ravel()
    start = np.log(base / (1.0 - base)) if n_outputs == 1 else np.resize(base, n_outputs)
    trees = []
    for tree in grown["trees"]:
        leaf = np.array(tree["left_children"]) < 0
        conditions = np.array(tree["split_conditions"], dtype=np.float32)  # the value, in leaves
        trees.append(
            {
                "leaf": leaf,
                # x < t is x <= the float32 just below t
                "threshold": np.nextafter(conditions, np.float32(-np.inf)),
                "feature": np.array(tree["split_indices"]),
                "left": np.array(tree["left_children"]),
                "right": np.array(tree["right_children"]),
                "missing_left": np.array(tree["default_left"], dtype=np.uint8),
                "values": np.where(leaf, conditions, 0.0)[:, None],
            }
        )
    start, outputs = start.astype(np.float64), grown["tree_info"]
    return _frozen(estimator, trees, outputs, start=start, single_inputs=True, single_sums=True, **output)


def lightgbm_columns(estimator: Any, columns: list[FrozenColumn]) -> list[FrozenColumn]:
    """Return the columns with pandas' categories as the codes that LightGBM gave them."""
    categorical = iter(estimator.booster_.pandas_categorical or ())
    made = []
    for column in columns:
        if column.codes is None:
            made.append(column)
            continue
        codes = {column.code(category): float(code) for code, category in enumerate(next(categorical))}
        made.append(column.mapped(codes, other=np.nan, missing=np.nan))
    if next(categorical, None) is not None:
        raise NotFrozenError("LightGBM with categories that are numbers has no frozen form")
    return made


def freeze_lightgbm(estimator: Any, **output: Any) -> TreeScorer:
    """Return the frozen form of an LGBMClassifier."""
    head, *texts = estimator.booster_.model_to_string().split("\nTree=")
    objective = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)["objective"].split()
    if objective[0] not in ("binary", "multiclass") or ("sigmoid:1" not in objective and objective[0] == "binary"):
        raise NotFrozenError(f"LightGBM with the objective {' '.join(objective)} has no frozen form")
    grown = [dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in texts]
    if "average_output" in head or any(tree["is_linear"] != "0" for tree in grown):
        raise NotFrozenError("LightGBM's random forests and linear trees have no frozen form")
    n_outputs = 1 if objective[0] == "binary" else len(output["training_prior"])
    sets: list[bytes] = []
    trees = [_lightgbm_tree(tree, sets) for tree in grown]
    return _frozen(estimator, trees, np.arange(len(trees)) % n_outputs, sets, start=np.zeros(n_outputs), **output)


def _lightgbm_tree(tree: dict[str, str], sets: list[bytes]) -> Tree:
    """Return one tree, its splits before its leaves; its sets of categories are added to `sets`."""
    leaves = np.array(tree["leaf_value"].split(), dtype=np.float64)
    n_splits = len(leaves) - 1

    def field(name: str, dtype: Any = np.int64) -> Any:
        return np.array(tree[name].split(), dtype=dtype) if n_splits else np.empty(0, dtype=dtype)

    kinds, thresholds = field("decision_type"), field("threshold", np.float64)
    categorical = kinds & CATEGORICAL > 0
    if (kinds & MISSING_ZERO > 0).any():
        raise NotFrozenError("LightGBM with zero_as_missing has no frozen form")
    # without missing values in training, LightGBM takes one for 0
    missing_left = np.where(kinds & MISSING_NAN > 0, kinds & DEFAULT_LEFT > 0, thresholds >= 0.0) & ~categorical
    numbers = np.full(n_splits, NUMERIC)
    if categorical.any():
        bounds = np.array(tree["cat_boundaries"].split(), dtype=np.int64)
        bits = np.array(tree["cat_threshold"].split(), dtype="<u4")
        numbers[categorical] = thresholds[categorical].astype(np.int64) + len(sets)
        sets += [bits[start:stop].tobytes() for start, stop in pairwise(bounds)]
    # a leaf is written as the complement of its number
    children = {side: np.where((own := field(f"{side}_child")) < 0, n_splits + ~own, own) for side in ("left", "right")}
    splits = {"threshold": thresholds, "feature": field("split_feature"), "missing_left": missing_left} | children
    padded = {name: np.append(values, np.zeros(len(leaves))) for name, values in splits.items()}
    return padded | {
        "leaf": np.arange(n_splits + len(leaves)) >= n_splits,
        "category_set": np.append(numbers, np.full(len(leaves), NUMERIC)),
        "values": np.append(np.zeros(n_splits), leaves)[:, None],
    }


def _plain(tree: Any, scale: float = 1.0) -> Tree:
    """Return one of scikit-learn's plain trees."""
    return {
        "leaf": tree.children_left < 0,
        "threshold": tree.threshold,
        "feature": tree.feature,
        "left": tree.children_left,
        "right": tree.children_right,
        "missing_left": tree.missing_go_to_left,
        "values": scale * tree.value[:, 0, :],
    }


def _frozen(
    estimator: Any, trees: list[Tree], outputs: Any, sets: list[bytes] | None = None, *, link: str = LOGIT, **rest: Any
) -> TreeScorer:
    """Return trees, whose children are numbered within each tree, one after the other."""
    sizes = [len(tree["leaf"]) for tree in trees]
    roots = np.cumsum([0, *sizes])[:-1]
    fields = {name: np.concatenate([tree[name] for tree in trees]) for name in trees[0]}
    left, right = (fields.pop(side).astype(np.int64) + np.repeat(roots, sizes) for side in ("left", "right"))
    order, child = _in_pairs(fields["leaf"], left, right, roots)
    fields = {"category_set": np.full(len(left), NUMERIC)} | fields
    fields = {name: values[order] for name, values in fields.items()}
    leaf, values = fields.pop("leaf"), fields.pop("values").astype(np.float64)
    fields = {name: np.where(leaf, LEAF[name], own) for name, own in fields.items()}
    width = max(map(len, sets or ()), default=1)
    category_sets = np.frombuffer(b"".join(own.ljust(width, b"\0") for own in sets or ()), np.uint8)
    return TreeScorer(
        nodes=pack_nodes(child=child, **fields),
        roots=roots.astype(np.int32),
        outputs=np.array(outputs, dtype=np.int32),
        values=values,
        category_sets=category_sets.reshape(-1, width).copy(),
        link=link,
        n_features=int(estimator.n_features_in_),
        **rest,
    )


@compiled
def _in_pairs(leaf: BoolArray, left: IntArray, right: IntArray, roots: IntArray) -> tuple[IntArray, IntArray]:
    """Return nodes in an order in which every right child follows its left one, and the new number of the latter."""
    order, child = np.empty(len(leaf), dtype=np.int64), np.empty(len(leaf), dtype=np.int64)
    for tree in range(len(roots)):
        root, stop = roots[tree], roots[tree + 1] if tree + 1 < len(roots) else len(leaf)
        order[root], at, end = root, root, root + 1
        while at < end:
            node = order[at]
            if leaf[node]:
                child[at] = at
            else:
                child[at], order[end], order[end + 1] = end, left[node], right[node]
                end += 2
            at += 1
        for unused in range(end, stop):  # nodes that were pruned: the last leaf once more, which nothing leads to
            order[unused], child[unused] = order[end - 1], unused
    return order, child


TREES: tuple[tuple[Any, Any], ...] = (
    (FORESTS, freeze_forest),
    (GradientBoostingClassifier, freeze_gradient_boosting),
    (HistGradientBoostingClassifier, freeze_hist_gradient_boosting),
)
