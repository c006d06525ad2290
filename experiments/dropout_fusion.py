"""Fuse the members of the paper's ensemble at other numbers of dropout passes (M) and other temperatures (tau).

The members are fitted once a split. Each row's weights are the paper's, exp(-variance / tau), from its own dropout
variance; the weight network, which only approximates them, is left out. The fused ratio is calibrated on the held-out
rows, and test rows at the training prior are scored.
"""

from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

from experiments.protocol import SplitSet, split_set
from experiments.stress.contest import f1
from obil.arrays import FloatArray
from obil.calibration.fuse import choose_temperature, dropout_weights
from obil.calibration.linear import fit_linear
from obil.estimators.ensemble_fit import Member, variance_of
from obil.estimators.obil_classifier import OBILClassifier
from obil.policies import FBetaPolicy
from obil.serving.holdout import Holdout

CHOSEN, EQUAL = "cross-validated", "equal weights"


def fusion_measures(name: str, seed: int, settings: dict[str, Any]) -> dict[str, float]:
    """Return AUPRC, F1 and the errors at every M and tau, on one split of one set."""
    split = split_set(name, seed, settings["test_share"])
    folds = StratifiedKFold(settings["folds"], shuffle=True, random_state=seed)
    sides = list(folds.split(split.train, split.train_labels))
    model = OBILClassifier(member="paper", fusion="mean", views=False, cv=sides, random_state=seed)
    model.fit(split.train, split.train_labels)
    train, test = model.encoder_.encode(split.train), model.encoder_.encode(split.test)
    members: list[list[Member]] = np.array(model.members_, dtype=object).reshape(len(sides), -1).tolist()
    held_out = np.empty((len(train), len(members[0])))
    fresh = np.stack([_scores(own, test) for own in members])  # (F, m, K)
    for own, (_, rows) in zip(members, sides, strict=True):
        held_out[rows] = _scores(own, train[rows])
    found: dict[str, float] = {}
    for passes in settings["passes"]:
        variances = np.empty_like(held_out)
        for own, (_, rows) in zip(members, sides, strict=True):
            variances[rows] = _variances(own, train[rows], passes, seed)
        fresh_variances = np.stack([_variances(own, test, passes, seed) for own in members])
        typical = float(np.median(variances))
        pairs = np.stack([np.zeros_like(held_out), held_out], axis=2)  # (n, K members, 2 classes)
        chosen = choose_temperature(pairs, variances, split.train_labels, np.ones(len(train)), random_state=seed)
        taus = {f"{tau:g}": tau * typical for tau in settings["temperatures"]} | {EQUAL: np.inf, CHOSEN: chosen}
        for tau, temperature in taus.items():
            fused = (dropout_weights(variances, temperature) * held_out).sum(axis=1)
            by_fold = [
                (dropout_weights(v, temperature) * s).sum(axis=1) for v, s in zip(fresh_variances, fresh, strict=True)
            ]
            measures = _measures(fused, np.mean(by_fold, axis=0), split)
            found |= {f"{passes}/{tau}/{measure}": value for measure, value in measures.items()}
        found[f"{passes}/chose equal weights"] = float(np.isinf(chosen))
    return found


def _measures(held_out: FloatArray, fresh: FloatArray, split: SplitSet) -> dict[str, float]:
    labels, truth = split.train_labels, split.test_labels
    calibrator = fit_linear(_ratios(held_out), labels, np.ones(len(labels)))
    calibrated, ratios = calibrator.apply(_ratios(held_out)), calibrator.apply(_ratios(fresh))[:, 1]
    by_f1 = FBetaPolicy().bind(Holdout.of(calibrated, labels)).log_threshold(split.prior)
    return {
        "auprc": float(average_precision_score(truth, fresh)),
        "f1": f1(ratios > by_f1, truth),
        "errors": 100.0 * float(((ratios > -logit(split.prior)) != (truth == 1)).mean()),
    }


def _ratios(scores: FloatArray) -> FloatArray:
    return np.stack([np.zeros_like(scores), scores], axis=1)


def _scores(members: list[Member], rows: FloatArray) -> FloatArray:
    return np.stack([member.scorer.scores(rows)[:, 1] for member in members], axis=1)


def _variances(members: list[Member], rows: FloatArray, passes: int, seed: int) -> FloatArray:
    return np.stack([variance_of(member, rows, n_passes=passes, seed=seed) for member in members], axis=1)
