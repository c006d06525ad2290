"""Read the trees of XGBoost's and LightGBM's boosters from their own dumps, without importing either."""

import json
from itertools import pairwise
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.calibration.freezing.columns import FrozenColumn
from obil.calibration.freezing.not_frozen import NotFrozenError
from obil.serving.scorers import LOGIT
from obil.serving.trees import LEAF, NUMERIC, TreeScorer, pack_nodes

# bits of LightGBM's decision_type
CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8


def freeze_xgboost(estimator: Any, *, training_prior: FloatArray, floor: float) -> TreeScorer:
    """Return the frozen form of an XGBClassifier: float32 throughout, and a row goes left strictly below."""
    booster = estimator.get_booster()
    if getattr(booster, "best_iteration", None) is not None and estimator.early_stopping_rounds:
        booster = booster[: booster.best_iteration + 1]
    learner = json.loads(booster.save_raw("json"))["learner"]
    kind, objective = learner["gradient_booster"]["name"], learner["objective"]["name"]
    if kind != "gbtree" or objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise NotFrozenError(f"XGBoost's {kind} with the objective {objective} has no frozen form")
    grown = learner["gradient_booster"]["model"]
    trees = grown["trees"]
    if any(tree["categories"] for tree in trees):
        raise NotFrozenError("XGBoost's categorical splits have no frozen form")
    n_outputs = max(int(learner["learner_model_param"]["num_class"]), 1)
    base = np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float32).ravel()
    start = np.log(base / (1.0 - base)) if n_outputs == 1 else np.resize(base, n_outputs)
    sizes = [len(tree["left_children"]) for tree in trees]
    roots = np.cumsum([0, *sizes])[:-1]

    def field(name: str, dtype: Any) -> Any:
        return np.concatenate([np.array(tree[name], dtype=dtype) for tree in trees])

    leaf = field("left_children", np.int64) < 0
    conditions = field("split_conditions", np.float32)  # the value, in leaves
    return TreeScorer(
        nodes=pack_nodes(
            # x < t is x <= the float32 just below t
            threshold=np.nextafter(conditions, np.float32(-np.inf)),
            feature=np.where(leaf, LEAF, field("split_indices", np.int64)),
            left=np.where(leaf, 0, field("left_children", np.int64) + np.repeat(roots, sizes)),
            right=np.where(leaf, 0, field("right_children", np.int64) + np.repeat(roots, sizes)),
            category_set=np.full(len(leaf), NUMERIC),
            missing_left=field("default_left", np.uint8),
        ),
        roots=roots.astype(np.int32),
        outputs=np.array(grown["tree_info"], dtype=np.int32),
        values=np.where(leaf, conditions, 0.0).astype(np.float64)[:, None],
        start=start.astype(np.float64),
        category_sets=np.zeros((0, 1), dtype=np.uint8),
        link=LOGIT,
        training_prior=training_prior,
        floor=floor,
        n_features=int(estimator.n_features_in_),
        single_inputs=True,
        single_sums=True,
    )


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


def freeze_lightgbm(estimator: Any, *, training_prior: FloatArray, floor: float) -> TreeScorer:
    """Return the frozen form of an LGBMClassifier."""
    head, *texts = estimator.booster_.model_to_string().split("\nTree=")
    objective = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)["objective"].split()
    if objective[0] not in ("binary", "multiclass") or ("sigmoid:1" not in objective and objective[0] == "binary"):
        raise NotFrozenError(f"LightGBM with the objective {' '.join(objective)} has no frozen form")
    trees = [dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in texts]
    if "average_output" in head or any(tree["is_linear"] != "0" for tree in trees):
        raise NotFrozenError("LightGBM's random forests and linear trees have no frozen form")
    n_outputs = 1 if objective[0] == "binary" else len(training_prior)
    sets: list[bytes] = []
    parts = [_lightgbm_tree(tree, sets) for tree in trees]
    roots = np.cumsum([0, *(len(values) for _, values in parts)])[:-1]
    for (nodes, _), root in zip(parts, roots, strict=True):
        nodes["left"] += root
        nodes["right"] += root
    width = max(map(len, sets), default=1)
    return TreeScorer(
        nodes=np.concatenate([nodes for nodes, _ in parts]),
        roots=roots.astype(np.int32),
        outputs=(np.arange(len(trees)) % n_outputs).astype(np.int32),
        values=np.concatenate([values for _, values in parts])[:, None],
        start=np.zeros(n_outputs),
        category_sets=np.frombuffer(b"".join(own.ljust(width, b"\0") for own in sets), np.uint8)
        .reshape(-1, width)
        .copy(),
        link=LOGIT,
        training_prior=training_prior,
        floor=floor,
        n_features=int(estimator.n_features_in_),
    )


def _lightgbm_tree(tree: dict[str, str], sets: list[bytes]) -> tuple[Any, FloatArray]:
    """Return the nodes of one tree, its splits before its leaves, and their values; its sets are added."""
    leaves = np.array(tree["leaf_value"].split(), dtype=np.float64)
    n_splits = len(leaves) - 1

    def field(name: str, dtype: Any) -> Any:
        return np.array(tree[name].split(), dtype=dtype) if n_splits else np.empty(0, dtype=dtype)

    kinds, thresholds = field("decision_type", np.int64), field("threshold", np.float64)
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
    children = {
        # a leaf is written as the complement of its number
        side: np.where(own < 0, n_splits + ~own, own)
        for side, own in (("left", field("left_child", np.int64)), ("right", field("right_child", np.int64)))
    }
    rest = len(leaves)
    nodes = pack_nodes(
        threshold=np.append(thresholds, np.zeros(rest)),
        feature=np.append(field("split_feature", np.int64), np.full(rest, LEAF)),
        left=np.append(children["left"], np.zeros(rest)),
        right=np.append(children["right"], np.zeros(rest)),
        category_set=np.append(numbers, np.full(rest, NUMERIC)),
        missing_left=np.append(missing_left, np.zeros(rest)),
    )
    return nodes, np.append(np.zeros(n_splits), leaves)
