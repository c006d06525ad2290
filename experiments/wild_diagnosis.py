"""Tell what changes in a stream: the prior, the features, the concept, the calibration."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from experiments.wild_streams import Deployed
from obil.arrays import FloatArray, IntArray

DOMAIN_ROWS = 8_000  # of each part, to tell training rows from rows of the stream


def diagnosis(stream: Deployed, *, seed: int) -> dict[str, float]:
    """Return how far covariates, concept and calibration of a stream are from those of its training rows."""
    held_out = stream.classifier.model_.holdout_
    base = np.clip(stream.log_ratios[:, 1] + logit(stream.classifier.prior_[1]), -30.0, 30.0)
    slope, offset, recalibrated = _recalibrated(base, stream.labels)
    return {
        "domain_auc": _domain_auc(stream.training_rows, stream.rows, seed),
        "held_out_auc": float(roc_auc_score(held_out.labels, held_out.log_ratios[:, 1])),
        "auc": float(roc_auc_score(stream.labels, stream.log_ratios[:, 1])),
        "hindsight_slope": slope,
        "hindsight_offset": offset,
        "hindsight": recalibrated / _log_loss(base, stream.labels),
    }


def _recalibrated(base: FloatArray, labels: IntArray) -> tuple[float, float, float]:
    """Return the slope and the offset of the logit that fit a whole stream best, and the log loss with them."""

    def loss(at: FloatArray) -> float:
        return _log_loss(at[0] * base + at[1], labels)

    best = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead")
    return float(best.x[0]), float(best.x[1]), float(best.fun)


def _log_loss(logits: FloatArray, labels: IntArray) -> float:
    return float(np.logaddexp(0.0, np.where(labels == 1, -logits, logits)).mean())


def _domain_auc(training_rows: FloatArray, rows: FloatArray, seed: int) -> float:
    """Return the cross-validated AUC of telling training rows from rows of the stream."""
    rng = np.random.default_rng(seed)
    parts = [part[rng.permutation(len(part))[:DOMAIN_ROWS]] for part in (training_rows, rows)]
    source = np.repeat([0, 1], [len(part) for part in parts])
    booster = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    scores = cross_val_predict(booster, np.concatenate(parts), source, cv=3, method="decision_function")
    return float(roc_auc_score(source, scores))
