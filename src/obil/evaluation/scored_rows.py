"""Tell what held-out rows say of a prior: the cost of a threshold, its rates, and the rows that show the prior."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit, ndtri

from obil.arrays import FloatArray
from obil.bayes.costs import Costs
from obil.bayes.one_vs_rest import one_vs_rest
from obil.serving.holdout import Holdout
from obil.trackers.evidence import BinaryEvidence

WITHIN = 0.2  # the interval of a prior that is known ends so far from it, relatively
MOST_ROWS = 10_000_000
GAUSSIAN_ROWS = 2_000  # of each class, that stand for a Gaussian pair


class ScoredRows:
    """Held-out rows by their log ratio of the positive class against the rest."""

    def __init__(self, scores: FloatArray, masses: FloatArray) -> None:
        order = np.argsort(scores)
        self._scores = scores[order]
        self._masses = masses[:, order] / masses.sum(axis=1, keepdims=True)  # (2, n) each class sums to 1
        self._above = np.concatenate([self._masses[:, ::-1].cumsum(axis=1)[:, ::-1], np.zeros((2, 1))], axis=1)

    @classmethod
    def of(cls, holdout: Holdout, prior: FloatArray, positive: int, *, soft: bool = False) -> "ScoredRows":
        """Take held-out rows; the other classes keep their proportions in the prior.

        With `soft` each row counts as positive by its posterior and as negative by the rest of it, else by its label.
        """
        weights = holdout.weights_at(prior)
        scores = one_vs_rest(holdout.log_ratios, prior, positive)
        is_positive = expit(scores + logit(prior[positive])) if soft else holdout.labels == positive
        return cls(scores, weights * np.stack([1.0 - is_positive, is_positive]))

    @classmethod
    def gaussian(cls, separation: float) -> "ScoredRows":
        """Return quantiles of two Gaussian classes so many standard deviations apart."""
        quantiles = ndtri((np.arange(GAUSSIAN_ROWS) + 0.5) / GAUSSIAN_ROWS)
        rows = np.concatenate([quantiles, quantiles + separation])
        classes = np.repeat(np.eye(2), GAUSSIAN_ROWS, axis=1)
        return cls(separation * rows - separation**2 / 2.0, classes)

    @property
    def auc(self) -> float:
        """The area under the ROC curve, ties counted half."""
        distinct, place = np.unique(self._scores, return_inverse=True)
        negative, positive = (np.bincount(place, weights=mass, minlength=len(distinct)) for mass in self._masses)
        return float(positive @ (negative.cumsum() - negative / 2.0))

    def _rates(self, thresholds: FloatArray) -> FloatArray:
        """Return what part of each class lies above log thresholds, (2, m)."""
        return self._above[:, np.searchsorted(self._scores, thresholds, side="right")]

    def cost_at(self, prior: float, costs: Costs) -> "Callable[[FloatArray], FloatArray]":
        """Return the expected cost per row of log thresholds, at a prior of the positive class."""
        matrix = costs.matrix

        def cost(thresholds: FloatArray) -> FloatArray:
            false_alarms, hits = self._rates(thresholds)
            negative = matrix[0, 0] + (matrix[1, 0] - matrix[0, 0]) * false_alarms
            positive = matrix[0, 1] + (matrix[1, 1] - matrix[0, 1]) * hits
            found: FloatArray = (1.0 - prior) * negative + prior * positive
            return found

        return cost

    def rates_at(self, prior: float, threshold: float) -> tuple[float, float | None, float]:
        """Return alert rate, precision and recall; no alerts have no precision."""
        false_alarms, hits = self._rates(np.array([threshold]))[:, 0].tolist()
        alerts = (1.0 - prior) * false_alarms + prior * hits
        return alerts, prior * hits / alerts if alerts > 0.0 else None, hits

    def information(self, prior: float) -> float:
        """Return the Fisher information of one row about the logit of the prior."""
        weights = np.array([1.0 - prior, prior]) @ self._masses
        posterior = expit(self._scores + logit(prior))
        return float(weights @ (posterior - prior) ** 2)

    def interval(self, prior: float, n_rows: int, level: float) -> tuple[float, float]:
        """Return the interval of the prior that so many rows give on average, without labels."""
        return self._intervals(prior, level)(n_rows)

    def rows_to_know(self, prior: float, level: float) -> int | None:
        """Return how many rows give an interval that ends within 20 % of the prior."""
        interval = self._intervals(prior, level)
        return first_rows(lambda n_rows: bool(np.ptp(interval(n_rows)) <= 2.0 * WITHIN * prior))

    def _intervals(self, prior: float, level: float) -> "Callable[[int], tuple[float, float]]":
        weights = np.array([1.0 - prior, prior]) @ self._masses
        one = BinaryEvidence.expected(self._scores, weights, n_rows=1)

        def interval(n_rows: int) -> tuple[float, float]:
            low, high = BinaryEvidence(n_rows, n_rows * one.log_likelihoods).estimate(level=level).interval[1].tolist()
            return low, high

        return interval


def first_rows(enough: Callable[[int], bool]) -> int | None:
    """Return the least number of rows that is enough, to a percent, where more always are too."""
    if not enough(MOST_ROWS):
        return None
    low, high = 1, MOST_ROWS
    while high > 1.01 * low + 1:
        middle = int(np.sqrt(float(low) * high)) + 1
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
