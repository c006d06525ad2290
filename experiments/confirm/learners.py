"""Name the learners, each at four settings, and pick the one with the best average precision on inner folds."""

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

from experiments.baselines.network import Prepared
from experiments.confirm.tabm_classifier import TabMClassifier
from obil.arrays import FloatArray, IntArray

Build = Callable[[int], Any]  # a seed -> an estimator
PARTS: tuple[str | float, ...] = ("sqrt", 0.5)  # of the features, tried at a node


class Learner(NamedTuple):
    """A kind of classifier with its settings."""

    settings: Mapping[str, Build]
    unfilled: bool = False  # whether it takes missing values as they are


class Chosen(NamedTuple):
    """The setting that won, with what it said of rows it had not seen."""

    setting: str
    build: Build
    held_out: FloatArray  # (n,) P(1) of training rows, out-of-fold


def _forest(leaf: int, weights: str | None) -> Build:
    return lambda seed: RandomForestClassifier(100, min_samples_leaf=leaf, class_weight=weights, random_state=seed)


def _balanced_forest(leaf: int, part: str | float) -> Build:
    return lambda seed: BalancedRandomForestClassifier(100, min_samples_leaf=leaf, max_features=part, random_state=seed)


def _boosting(leaves: int, rate: float) -> Build:
    return lambda seed: HistGradientBoostingClassifier(max_leaf_nodes=leaves, learning_rate=rate, random_state=seed)


def _logistic(strength: float) -> Build:
    return lambda _: LogisticRegression(C=strength, max_iter=1_000)


def _easy(stumps: int, rate: float) -> Build:
    return lambda seed: EasyEnsembleClassifier(
        10, estimator=AdaBoostClassifier(n_estimators=stumps, learning_rate=rate), random_state=seed
    )


def _tabm(steps: int, rate: float) -> Build:
    return lambda seed: TabMClassifier(steps=steps, rate=rate, seed=seed)


LEARNERS: dict[str, Learner] = {
    "boosting": Learner(
        {f"{leaves} leaves, rate {rate}": _boosting(leaves, rate) for leaves in (31, 7) for rate in (0.1, 0.05)},
        unfilled=True,
    ),
    "random forest": Learner(
        {
            f"{leaf} rows a leaf, {'equal' if weights is None else 'balanced'} weights": _forest(leaf, weights)
            for leaf in (1, 3)
            for weights in (None, "balanced_subsample")
        }
    ),
    "logistic regression": Learner({f"C {strength:g}": _logistic(strength) for strength in (0.01, 0.1, 1.0, 10.0)}),
    "balanced forest": Learner(
        {f"{leaf} rows a leaf, {part} features": _balanced_forest(leaf, part) for leaf in (1, 3) for part in PARTS}
    ),
    "EasyEnsemble": Learner(
        {f"{stumps} stumps, rate {rate}": _easy(stumps, rate) for stumps in (10, 50) for rate in (1.0, 0.3)}
    ),
}
if find_spec("tabm") is not None:  # an extra that no other experiment needs
    LEARNERS["TabM"] = Learner(
        {f"{steps} steps, rate {rate}": _tabm(steps, rate) for steps in (60, 150) for rate in (2e-3, 1e-2)}
    )
WRAPPED = ("boosting", "random forest", "logistic regression")  # by OBIL, at the setting that won


def choose(learner: Learner, data: Prepared, *, seed: int, folds: int) -> Chosen:
    """Return the setting that ranks held-out training rows best; the first where settings tie."""
    rows = data.unfilled if learner.unfilled else data.rows
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(rows, data.labels))
    tried = {setting: _held_out(build, rows, data.labels, splits, seed) for setting, build in learner.settings.items()}
    best = max(tried, key=lambda setting: _ranking(tried[setting], data.labels, splits))
    return Chosen(best, learner.settings[best], tried[best])


def fitted(build: Build, rows: FloatArray, labels: IntArray, seed: int) -> Any:
    """Return an estimator fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(seed).fit(rows, labels)


def _held_out(build: Build, rows: FloatArray, labels: IntArray, splits: list[Any], seed: int) -> FloatArray:
    found = np.empty(len(labels))
    for fit, rest in splits:
        found[rest] = fitted(build, rows[fit], labels[fit], seed).predict_proba(rows[rest])[:, 1]
    return found


def _ranking(probabilities: FloatArray, labels: IntArray, splits: list[Any]) -> float:
    return float(np.mean([average_precision_score(labels[rest], probabilities[rest]) for _, rest in splits]))
