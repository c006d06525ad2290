"""Decide the held-out rows as the stream is decided: its rates, and their covariance."""

from typing import NamedTuple

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.one_vs_rest import one_vs_rest
from obil.bayes.posterior import posterior
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import thinned_rows
from obil.trackers.pass_search import estimate_by_passes
from obil.trackers.passes import PassEvidence

MOST_ROWS = 50_000  # of one class: more would narrow no interval, and a report should take milliseconds


class DecidedHoldout(NamedTuple):
    """The held-out rows as they would be decided, which no doubt about the calibrator changes."""

    ratios: FloatArray  # (n, K)
    scores: FloatArray  # (n, K) raw
    weights: FloatArray  # (n,)
    own_prior: FloatArray  # (K,)
    alerts: FloatArray  # (n,) 1 or 0
    n_effective: FloatArray  # (K,) rows of each class, if all had the same weight
    nearest: int | None  # the row nearest to the threshold, where that is finite
    stream_weights: FloatArray  # (n,) with which they stand for the stream
    start: FloatArray  # (K,) the stream's prior

    @classmethod
    def of(cls, model: RatioModel, prior: FloatArray, log_threshold: float, positive: int) -> "DecidedHoldout":
        """Decide the held-out rows of a model at a prior and a threshold."""
        whole = model.holdout_
        rows = thinned_rows(whole.labels, n_classes=whole.n_classes, most=MOST_ROWS)
        part = Holdout(whole.log_ratios[rows], whole.labels[rows], whole.weights[rows] / whole.weights.max())
        scores = one_vs_rest(part.log_ratios, prior, positive)
        # each row stands for every class by its posterior, not for the one its label drew
        weights = part.weights * (posterior(part.log_ratios, part.prior) @ (prior / part.prior))
        return cls(
            ratios=part.log_ratios,
            scores=model.calibrator.invert(part.log_ratios),
            weights=part.weights,
            own_prior=part.prior,
            alerts=(scores > log_threshold).astype(np.float64),
            n_effective=np.bincount(part.labels, part.weights) ** 2 / np.bincount(part.labels, part.weights**2),
            nearest=int(np.argmin(np.abs(scores - log_threshold))) if np.isfinite(log_threshold) else None,
            stream_weights=weights * (len(rows) / weights.sum()),
            start=prior,
        )

    def rates(self, ratios: FloatArray) -> FloatArray:
        """Return the fraction of each class that is alerted, (K,)."""
        mass = self.weights[:, None] * posterior(ratios, self.own_prior)  # (n, K)
        rates: FloatArray = self.alerts @ mass / mass.sum(axis=0)
        return rates

    def rates_covariance(self, rates: FloatArray) -> FloatArray:
        """Return the covariance that the rows' finite number gives to the rates, (K, K)."""
        memberships = posterior(self.ratios, self.own_prior)
        mass = self.weights[:, None] * memberships  # (n, K)
        mass = mass / mass.sum(axis=0)
        influence = mass * (self.alerts[:, None] - rates)
        # how many rows each class has is a draw too, and the memberships rest on it
        by_class = influence.T @ memberships / np.sqrt(self.n_effective)
        covariance: FloatArray = influence.T @ influence + by_class @ by_class.T
        if self.nearest is not None:
            # one row more at the threshold, alerted or not: rates of 0 and 1 are uncertain too
            more = mass[self.nearest] * (np.array([[0.0], [1.0]]) - rates)  # (2, K)
            covariance += more.T @ more
        return covariance

    def prior_of(self, ratios: FloatArray) -> FloatArray:
        """Return the prior that these ratios would find in the stream, (K,)."""
        weights = self.stream_weights
        return estimate_by_passes(lambda at: PassEvidence.of(ratios, at, weights=weights), self.start).prior

    def stream_rates(self, ratios: FloatArray, prior: FloatArray, positive: int) -> FloatArray:
        """Return the rate of positives among alerted and among quiet rows of the stream, (2,)."""
        hits = self.stream_weights * posterior(ratios, prior)[:, positive]
        both = np.stack([self.alerts, 1.0 - self.alerts])
        total = both @ self.stream_weights
        return np.asarray(np.divide(both @ hits, total, out=np.full(2, np.nan), where=total > 0.0))
