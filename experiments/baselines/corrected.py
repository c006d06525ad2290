"""Name the baselines that correct one network's scores afterwards: by a threshold, or for the prior of a batch.

They share the vanilla network as it was fitted before validation, whose validation rows are honest. Those that estimate
the prior are given the whole stream as one batch before they decide its first row: more than a stream would give them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import f1_score, log_loss

from experiments.baselines.network import Prepared
from experiments.baselines.tuning import Tuned
from experiments.peers import RLLS
from experiments.protocol import Arrivals, Decider, Judged
from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.model.holdout import Holdout
from obil.policy import FBetaPolicy
from obil.prior import BBSE, PriorTracker
from obil.prior.passes import estimate_from_rows
from obil.ratio.linear import SLOPE_SD, fit_linear

TEMPERATURES = (0.5, 1.0, 1.5, 2.0, 3.0)
SMALLEST = 1e-9


def corrected(network: Tuned, data: Prepared) -> dict[str, Decider]:
    """Return each correction as a decider on the held-out rows."""
    labels, prior = data.labels[data.validation], float(data.labels[data.fit].mean())
    honest, test = (_logits(network.validated.predict_proba(part)[:, 1]) for part in (
        data.rows[data.validation], data.test
    ))  # fmt: skip
    odds = float(logit(prior))

    by_fit = min(TEMPERATURES, key=lambda t: log_loss(labels, expit(honest / t), labels=[0, 1]))
    sharpened = _log_ratios(honest / by_fit - odds), _log_ratios(test / by_fit - odds)
    map_ = fit_linear(_log_ratios(honest - odds), labels, np.ones(len(labels)), slope_sd=SLOPE_SD)
    calibrated = map_.apply(_log_ratios(honest - odds)), map_.apply(_log_ratios(test - odds))

    def voted(make: Callable[..., PriorTracker], ratios: FloatArray, **choices: Any) -> float:
        """Return the prior by votes; where the network's votes tell nothing, that of training."""
        try:
            tracker = make(sharpened[0], labels, prior=prior, window=len(ratios), **choices)
        except InvalidInputError:
            return prior
        tracker.update_many(ratios)
        return float(tracker.prior[1])

    def bbse(ratios: FloatArray) -> float:
        return voted(BBSE.from_holdout, ratios, soft=not _tells_apart(sharpened[0], prior))

    def rlls(ratios: FloatArray) -> float:
        return voted(RLLS.from_holdout, ratios)

    def mlls(ratios: FloatArray) -> float:
        return float(estimate_from_rows(ratios).prior[1])

    table = FBetaPolicy().bind(Holdout.of(calibrated[0], labels))
    return {
        "threshold moving": _by_threshold(expit(test), _best_threshold(expit(honest), labels)),
        "logit adjustment": _adjusted(honest, test, labels, odds),
        "BBSE": _at_prior(sharpened[1], bbse),
        "RLLS": _at_prior(sharpened[1], rlls),
        "MLLS + BCTS": _at_prior(calibrated[1], mlls),
        "MLLS + BCTS, F1 threshold": _at_prior(calibrated[1], mlls, table.log_threshold),
    }


def _tells_apart(log_ratios: FloatArray, prior: float) -> bool:
    """Return whether hard votes at the training prior name both classes; a shy network names only the negative."""
    votes = log_ratios[:, 1] + logit(prior) > 0.0
    return bool(votes.any() and not votes.all())


def _by_threshold(probabilities: FloatArray, threshold: float) -> Decider:
    def decide(arrivals: Arrivals) -> Judged:
        own = probabilities[arrivals.rows]
        return Judged(own > threshold, own, own)

    return decide


def _adjusted(honest: FloatArray, test: FloatArray, labels: IntArray, odds: float) -> Decider:
    """Subtract the log prior odds from logits at a temperature: only their product with the magnitude decides.

    So the settings are the five temperatures at magnitude 1, and magnitude 0, which adjusts nothing.
    """
    settings = [(temperature, 1.0) for temperature in TEMPERATURES] + [(1.0, 0.0)]

    def adjusted(logits: FloatArray, temperature: float, magnitude: float) -> FloatArray:
        return logits / temperature - magnitude * odds

    best = max(settings, key=lambda s: f1_score(labels, adjusted(honest, *s) > 0.0, zero_division=0.0))
    return _by_threshold(expit(adjusted(test, *best)), 0.5)


def _at_prior(
    log_ratios: FloatArray, estimate: Callable[[FloatArray], float], threshold: Callable[[float], float] | None = None
) -> Decider:
    """Decide a stream at the prior that is estimated from all of it."""

    def decide(arrivals: Arrivals) -> Judged:
        ratios = log_ratios[arrivals.rows]
        prior = min(max(estimate(ratios), 1e-6), 1.0 - 1e-6)
        own = ratios[:, 1]
        limit = -float(logit(prior)) if threshold is None else threshold(prior)
        return Judged(own > limit, expit(own + logit(prior)), own)

    return decide


def _best_threshold(probabilities: FloatArray, labels: IntArray) -> float:
    """Return the threshold with the best F1, in the middle of the gap it lies in."""
    values = np.unique(probabilities)
    middles = np.concatenate([[0.0], (values[1:] + values[:-1]) / 2.0])
    order = np.sort(probabilities)
    positives = np.sort(probabilities[labels == 1])
    alerts = len(order) - np.searchsorted(order, middles, side="right")
    hits = len(positives) - np.searchsorted(positives, middles, side="right")
    return float(middles[np.argmax(2.0 * hits / (alerts + len(positives)))])


def _logits(probabilities: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probabilities, SMALLEST, 1.0 - SMALLEST)))


def _log_ratios(scores: FloatArray) -> FloatArray:
    return np.stack([np.zeros_like(scores), scores], axis=1)
