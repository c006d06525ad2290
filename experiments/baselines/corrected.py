"""Name the baselines that correct one network's scores afterwards: by a threshold, or for another prior.

They share the vanilla network at its best setting, fitted on all training rows. What they learn from labels
(thresholds, temperatures, predictions, calibration) they learn from out-of-fold scores of the training rows.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import StratifiedKFold

from experiments.baselines.batch_prior import ScoredRows, at_batch_prior, by_bbse, by_likelihood, by_rlls
from experiments.baselines.names import F1_SUFFIX, other_form
from experiments.baselines.network import Prepared
from experiments.baselines.thresholds import best_threshold
from experiments.baselines.trained import VANILLA
from experiments.baselines.tuning import Tuned, fitted_or_none
from experiments.protocol import Alerts, Arrivals, Decider, Judged
from obil.arrays import FloatArray, IntArray
from obil.calibration.linear import fit_linear
from obil.policies import FBetaPolicy
from obil.serving.holdout import Holdout

TEMPERATURES = (0.5, 1.0, 1.5, 2.0, 3.0)
FOLDS = 5
SMALLEST = 1e-9


def corrected(network: Tuned, data: Prepared, *, seed: int) -> dict[str, Decider]:
    """Return each correction as a decider on the held-out rows."""
    held_out = _out_of_fold(network.setting, data, seed)
    return corrections(held_out, _logits(network.model.predict_proba(data.test)[:, 1]), data.labels)


def corrections(held_out: FloatArray, test: FloatArray, labels: IntArray) -> dict[str, Decider]:
    """Return the corrections of logits at the training prior: out-of-fold ones, (n,), and those of test rows, (m,)."""
    prior = float(labels.mean())
    odds = float(logit(prior))
    temperature = min(TEMPERATURES, key=lambda t: log_loss(labels, expit(held_out / t), labels=[0, 1]))
    scaled = ScoredRows(_ratios(held_out / temperature - odds), labels, _ratios(test / temperature - odds), prior)
    # bias-corrected temperature scaling: a temperature and a bias by maximum likelihood
    bcts = fit_linear(_ratios(held_out - odds), labels, np.ones(len(labels)), slope_sd=None)
    calibrated = ScoredRows(bcts.apply(_ratios(held_out - odds)), labels, bcts.apply(_ratios(test - odds)), prior)
    adjustment, known = "logit adjustment", "logit adjustment, known prior"
    found = {
        "threshold moving": _by_threshold(np.asarray(expit(test)), best_threshold(expit(held_out), labels)),
        adjustment: _adjusted(held_out, test, labels, odds, by=_f1),
        other_form(adjustment): _adjusted(held_out, test, labels, odds, by=_accuracy),
        known: _at_known_prior(scaled, best_f1=False),
        other_form(known): _at_known_prior(scaled, best_f1=True),
    }
    for name, scores, make in (
        ("BBSE", scaled, by_bbse),
        ("RLLS", scaled, by_rlls),
        ("MLLS + BCTS", calibrated, by_likelihood),
    ):
        found[name] = at_batch_prior(scores, make(scores), best_f1=False)
        found[name + F1_SUFFIX] = at_batch_prior(scores, make(scores), best_f1=True)
    return found


def _out_of_fold(setting: str, data: Prepared, seed: int) -> FloatArray:
    """Return the logits of the training rows by networks that have not seen them, (n,)."""
    imbalance = float((data.labels == 0).sum() / (data.labels == 1).sum())
    held_out = np.empty(len(data.labels))
    for fit, rest in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(data.rows, data.labels):
        model = fitted_or_none(VANILLA[setting](seed, imbalance), data.rows[fit], data.labels[fit])
        assert model is not None  # no sampler, so none that refuses
        held_out[rest] = _logits(model.predict_proba(data.rows[rest])[:, 1])
    return held_out


def _by_threshold(probabilities: FloatArray, threshold: float) -> Decider:
    def decide(arrivals: Arrivals) -> Judged:
        own = probabilities[arrivals.rows]
        return Judged(own > threshold, own, own)

    return decide


def _at_known_prior(scores: ScoredRows, *, best_f1: bool) -> Decider:
    """Return logit adjustment as the paper gives it: told the true prior."""
    table = FBetaPolicy().bind(Holdout.of(scores.held_out, scores.labels)) if best_f1 else None

    def decide(arrivals: Arrivals) -> Judged:
        own = scores.test[arrivals.rows, 1]
        odds = float(logit(arrivals.prior))
        threshold = -odds if table is None else table.log_threshold(arrivals.prior)
        return Judged(own > threshold, np.asarray(expit(own + odds)), own)

    return decide


def _adjusted(
    held_out: FloatArray, test: FloatArray, labels: IntArray, odds: float, *, by: Callable[[IntArray, Alerts], float]
) -> Decider:
    """Subtract the log prior odds from logits at a temperature: only their product with the magnitude decides.

    So the settings are the five temperatures at magnitude 1, and magnitude 0, which adjusts nothing. The one that is
    best by a measure of out-of-fold decisions at probability 1/2 is taken.
    """
    settings = [(temperature, 1.0) for temperature in TEMPERATURES] + [(1.0, 0.0)]

    def adjusted(logits: FloatArray, temperature: float, magnitude: float) -> FloatArray:
        return logits / temperature - magnitude * odds

    best = max(settings, key=lambda s: by(labels, adjusted(held_out, *s) > 0.0))
    return _by_threshold(np.asarray(expit(adjusted(test, *best))), 0.5)


def _f1(labels: IntArray, alerts: Alerts) -> float:
    return float(f1_score(labels, alerts, zero_division=0.0))


def _accuracy(labels: IntArray, alerts: Alerts) -> float:
    return float((alerts == (labels == 1)).mean())


def _logits(probabilities: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probabilities, SMALLEST, 1.0 - SMALLEST)))


def _ratios(scores: FloatArray) -> FloatArray:
    return np.stack([np.zeros_like(scores), scores], axis=1)
