"""Name the baselines that differ in how they are trained, each at no more than six settings."""

from collections.abc import Callable
from typing import Any

from imblearn.combine import SMOTEENN, SMOTETomek
from imblearn.ensemble import BalancedBaggingClassifier, EasyEnsembleClassifier, RUSBoostClassifier
from imblearn.over_sampling import ADASYN, SMOTE, BorderlineSMOTE, RandomOverSampler
from imblearn.under_sampling import RandomUnderSampler
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV
from sklearn.tree import DecisionTreeClassifier

from experiments.baselines.network import WeightedNetwork, network, resampled

Build = Callable[[int, float], Any]  # a seed and the imbalance ratio of the training rows -> an estimator


def _sampled(make: Callable[..., Any], **choices: Any) -> Build:
    return lambda seed, _: resampled(make(random_state=seed, **choices), seed)


def _weighted(power: float) -> Build:
    return lambda seed, imbalance: WeightedNetwork(seed, imbalance**power)


def _rusboost(depth: int | None, n_estimators: int, *, rate: float, fraction: float) -> Build:
    def build(seed: int, _: float) -> Any:
        base = network(seed) if depth is None else DecisionTreeClassifier(max_depth=depth)
        return RUSBoostClassifier(
            base, n_estimators=n_estimators, learning_rate=rate, sampling_strategy=fraction, random_state=seed
        )

    return build


def _bagged(fraction: float, *, over: bool) -> Build:
    def build(seed: int, _: float) -> Any:
        sampler = RandomOverSampler() if over else RandomUnderSampler()
        return BalancedBaggingClassifier(
            network(seed),
            n_estimators=5 if over else 10,
            sampling_strategy=fraction,
            sampler=sampler,
            random_state=seed,
        )

    return build


def _easy(fraction: float, *, networks: bool = False) -> Build:
    return lambda seed, _: EasyEnsembleClassifier(
        10, estimator=network(seed) if networks else None, sampling_strategy=fraction, random_state=seed
    )


def _boosted(**choices: Any) -> Build:
    return lambda seed, _: TunedThresholdClassifierCV(
        HistGradientBoostingClassifier(random_state=seed, **choices),
        scoring="f1",
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    )


def _network(**choices: Any) -> Build:
    return lambda seed, _: network(seed, **choices)


VANILLA: dict[str, Build] = {
    f"{epochs} epochs, decay {decay:g}": _network(epochs=epochs, decay=decay)
    for epochs in (25, 50, 100)
    for decay in (1e-4, 1e-1)
}
TRAINED: dict[str, dict[str, Build]] = {
    "SMOTE": {
        f"to {fraction:g}, {k} neighbours": _sampled(SMOTE, sampling_strategy=fraction, k_neighbors=k)
        for fraction, k in ((0.25, 5), (0.5, 5), (1.0, 5), (1.0, 3))
    },
    "ADASYN": {f"to {fraction:g}": _sampled(ADASYN, sampling_strategy=fraction) for fraction in (0.25, 0.5, 1.0)},
    "cost-sensitive": {f"weight Qp^{power:g}": _weighted(power) for power in (0.25, 0.5, 0.75, 1.0)},
    "RUSBoost": {  # at rate 1 boosting often stops after a few rounds
        "50 stumps, to 1": _rusboost(1, 50, rate=1.0, fraction=1.0),
        "50 trees of depth 3, rate .1, to 1": _rusboost(3, 50, rate=0.1, fraction=1.0),
        "50 trees of depth 3, rate .1, to 0.25": _rusboost(3, 50, rate=0.1, fraction=0.25),
        "50 trees of depth 6, rate .1, to 0.25": _rusboost(6, 50, rate=0.1, fraction=0.25),
        "10 networks, rate .1, to 1": _rusboost(None, 10, rate=0.1, fraction=1.0),
        "10 networks, rate .1, to 0.25": _rusboost(None, 10, rate=0.1, fraction=0.25),
    },
    "random undersampling": {
        f"to {fraction:g}": _sampled(RandomUnderSampler, sampling_strategy=fraction) for fraction in (0.25, 0.5, 1.0)
    },
    "random oversampling": {
        f"to {fraction:g}": _sampled(RandomOverSampler, sampling_strategy=fraction) for fraction in (0.25, 0.5, 1.0)
    },
    "Borderline-SMOTE": {
        f"kind {kind[-1]}, to {fraction:g}": _sampled(BorderlineSMOTE, sampling_strategy=fraction, kind=kind)
        for kind in ("borderline-1", "borderline-2")
        for fraction in (0.5, 1.0)
    },
    "SMOTE-ENN": {f"to {fraction:g}": _sampled(SMOTEENN, sampling_strategy=fraction) for fraction in (0.5, 1.0)},
    "SMOTE-Tomek": {f"to {fraction:g}": _sampled(SMOTETomek, sampling_strategy=fraction) for fraction in (0.5, 1.0)},
    "UnderBagging": {f"to {fraction:g}": _bagged(fraction, over=False) for fraction in (0.25, 0.5, 1.0)},
    "OverBagging": {f"to {fraction:g}": _bagged(fraction, over=True) for fraction in (0.25, 1.0)},
    "EasyEnsemble": {
        **{f"10 AdaBoosts, to {fraction:g}": _easy(fraction) for fraction in (0.25, 0.5, 1.0)},
        **{f"10 networks, to {fraction:g}": _easy(fraction, networks=True) for fraction in (0.25, 1.0)},
    },
    "boosting, tuned threshold": {
        "31 leaves, rate .1": _boosted(),
        "31 leaves, rate .05": _boosted(learning_rate=0.05),
        "7 leaves, rate .1": _boosted(max_leaf_nodes=7),
        "7 leaves, rate .05": _boosted(max_leaf_nodes=7, learning_rate=0.05),
        "31 leaves, rate .1, l2 10": _boosted(l2_regularization=10.0),
        "31 leaves, rate .1, balanced": _boosted(class_weight="balanced"),
    },
}
ON_UNFILLED = {"boosting, tuned threshold"}  # trees take missing values as they are
