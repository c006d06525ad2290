"""Rank held-out rows by how well they fit their own class, and read conformal thresholds off them at any prior."""

from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled
from obil.serving.holdout import Holdout

ROUNDING = 1e-12  # of sums of weights
LARGEST_ODDS = 1e300  # finite: a threshold of infinity leaves every row out


@dataclass(frozen=True, slots=True, eq=False)
class ConformalRows:
    """Held-out rows as weighted conformal prediction ranks them: by the posterior odds of their own class.

    >>> rows = ConformalRows.of(Holdout.of([[0.0, -2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0]], [0, 0, 1, 1]))
    >>> rows.thresholds(np.array([0.5, 0.5]), np.array([0.5, 0.5]), by_class=True).round(2)
    array([1., 1.])
    """

    likelihoods: FloatArray  # (n, K) p(x | class) over the largest of the row; rows in the order of their classes
    labels: IntArray  # (n,)
    weights: FloatArray  # (n,) that sum to 1 in each class
    next_weights: FloatArray  # (K,) of one more row of each class, on the same scale
    ends: IntArray  # (K,) of each class's rows

    @classmethod
    def of(cls, holdout: Holdout) -> "ConformalRows":
        """Prepare held-out rows."""
        order = np.argsort(holdout.labels, kind="stable")
        labels, weights = holdout.labels[order], holdout.weights[order]
        totals = np.bincount(labels, weights=weights, minlength=holdout.n_classes)
        weights = weights / totals[labels]
        # what a row to come would have weighed is not known: the largest weight makes no set too small
        next_weights = np.zeros(holdout.n_classes)
        np.maximum.at(next_weights, labels, weights)
        ends = np.cumsum(np.bincount(labels, minlength=holdout.n_classes)).astype(np.int64)
        return cls(scaled_likelihoods(holdout.log_ratios[order]), labels, weights, next_weights, ends)

    def thresholds(self, prior: FloatArray, error_rates: FloatArray, *, by_class: bool) -> FloatArray:
        """Return the least odds at which each class is in a set at a prior, (K,).

        By class: at most this error rate (K,) among the rows of each class. Otherwise over all rows, when held-out rows
        of class k count `prior[k] / their number` each (Tibshirani et al., 2019; Podkopaev and Ramdas, 2021). Either
        counts the row that is asked about as one more row of the class in question.
        """
        odds = own_odds(self.likelihoods, self.labels, prior)
        if not by_class:
            return _least_odds(odds, prior[self.labels] * self.weights, prior * self.next_weights, error_rates)
        found = np.empty(prior.size)
        start = 0
        for k, end in enumerate(self.ends.tolist()):
            own = slice(start, end)
            one = slice(k, k + 1)
            found[one] = _least_odds(odds[own], self.weights[own], self.next_weights[one], error_rates[one])
            start = end
        return found


def _least_odds(odds: FloatArray, weights: FloatArray, next_weights: FloatArray, error_rates: FloatArray) -> FloatArray:
    """Return the least odds (K,) whose conformal p-value exceeds the error rate.

    The p-value is (W + w) / (1 + w), where rows with these odds at most weigh W, and the next row weighs w.
    """
    largest = error_rates * (1.0 + next_weights) - next_weights + ROUNDING  # W that is still left out
    rows = np.flatnonzero(odds < 1.0)  # mostly enough, and sorted ten times as fast as all
    if weights[rows].sum() <= largest.max():
        rows = np.arange(odds.size)
    order = rows[np.argsort(odds[rows])]
    places = np.searchsorted(np.cumsum(weights[order]), largest, side="right")
    least: FloatArray = np.append(odds[order], np.inf)[places]
    # one row more than those that are there may exceed the error rate by itself: then nothing can be left out
    return np.where(next_weights > error_rates * (1.0 + next_weights) + ROUNDING, 0.0, least)


@compiled
def scaled_likelihoods(log_ratios: FloatArray) -> FloatArray:
    """Return p(x | class) of rows over the largest of each row, (n, K)."""
    found = np.empty(log_ratios.shape)
    for i in range(log_ratios.shape[0]):
        largest = log_ratios[i].max()
        for k in range(log_ratios.shape[1]):
            found[i, k] = np.exp(log_ratios[i, k] - largest)
    return found


# The next two add in the same order, so that equal rows have equal bits: a tie with a threshold is inside.


@compiled
def own_odds(likelihoods: FloatArray, labels: IntArray, prior: FloatArray) -> FloatArray:
    """Return the posterior odds of each row's class against all others, (n,)."""
    n_rows, n_classes = likelihoods.shape
    found = np.empty(n_rows)
    for i in range(n_rows):
        before, after = 0.0, 0.0
        for k in range(labels[i]):
            before += likelihoods[i, k] * prior[k]
        for k in range(n_classes - 1, labels[i], -1):
            after += likelihoods[i, k] * prior[k]
        own, others = likelihoods[i, labels[i]] * prior[labels[i]], before + after
        found[i] = min(own / others, LARGEST_ODDS)
    return found


@compiled
def odds_of_classes(likelihoods: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the posterior odds of every class against all others, (n, K)."""
    n_rows, n_classes = likelihoods.shape
    found = np.empty((n_rows, n_classes))
    for i in range(n_rows):
        after = 0.0
        for k in range(n_classes - 1, -1, -1):
            found[i, k] = after
            after += likelihoods[i, k] * prior[k]
        before = 0.0
        for k in range(n_classes):
            own, others = likelihoods[i, k] * prior[k], before + found[i, k]
            found[i, k] = min(own / others, LARGEST_ODDS)
            before += own
    return found


@compiled
def reference_rows(priors: FloatArray, tolerance: float) -> IntArray:
    """Return the rows whose prior (n, K) left that of the last such row by more than a factor, and the first row."""
    found = np.empty(priors.shape[0], dtype=np.int64)
    n_found = 0
    for t in range(priors.shape[0]):
        near = n_found > 0
        if near:
            last = found[n_found - 1]
            for k in range(priors.shape[1]):
                if not priors[last, k] <= priors[t, k] * tolerance or not priors[t, k] <= priors[last, k] * tolerance:
                    near = False
        if not near:
            found[n_found] = t
            n_found += 1
    return found[:n_found]
