"""Turn log ratios into posteriors at any prior, and tell whether numbers are a distribution."""

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

from obil.arrays import SUM_TOLERANCE, FloatArray, PriorLike, as_log_ratios, as_prior, as_scaled
from obil.compiled import compiled, inlined


def posterior(log_ratios: npt.ArrayLike, prior: PriorLike) -> FloatArray:
    """Return P(class | x) at `prior` for log ratios (n, K), as an array (n, K).

    >>> posterior([[0.0, 0.0]], 0.2)
    array([[0.8, 0.2]])
    """
    rows = as_log_ratios(log_ratios)
    return np.asarray(softmax(as_scaled(rows) + np.log(as_prior(prior, n_classes=rows.shape[1])), axis=1))


@compiled
def posteriors_at(log_ratios: FloatArray, priors: FloatArray) -> FloatArray:
    """Return the posterior of each row (n, K) at a prior of its own (n, K), both checked already, (n, K).

    One row and many give the same bits.

    >>> posteriors_at(np.zeros((2, 2)), np.array([[0.5, 0.5], [0.75, 0.25]]))
    array([[0.5 , 0.5 ],
           [0.75, 0.25]])
    """
    n_rows, n_classes = log_ratios.shape
    found = np.empty((n_rows, n_classes))
    for t in range(n_rows):
        largest = log_ratios[t].max()
        total = 0.0
        for k in range(n_classes):
            found[t, k] = priors[t, k] * np.exp(log_ratios[t, k] - largest)
            total += found[t, k]
        for k in range(n_classes):
            found[t, k] /= total
    return found


def log_posterior(log_ratios: npt.ArrayLike, prior: PriorLike) -> FloatArray:
    """Return log P(class | x) at `prior`, (n, K): what a log loss needs, finite however sure the row is.

    >>> log_posterior([[0.0, -1000.0]], 0.5)
    array([[    0., -1000.]])
    """
    rows = as_log_ratios(log_ratios)
    return np.asarray(log_softmax(as_scaled(rows) + np.log(as_prior(prior, n_classes=rows.shape[1])), axis=1))


@inlined
def sums_to_one(values: FloatArray) -> bool:
    """Return whether numbers, (n,), are non-negative and sum to 1."""
    total = 0.0
    for value in values:
        if not value >= 0.0:
            return False
        total += value
    return abs(total - 1.0) <= SUM_TOLERANCE
