"""Fit a log ratio to rows of two normal classes, by a model that can hold the truth."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses


class FittedRatio(NamedTuple):
    """A log ratio offset + slope x true; 0 and 1 are the truth."""

    offset: float
    slope: float

    def of(self, log_ratios: FloatArray) -> FloatArray:
        """Return fitted log ratios of true ones, (n, 2)."""
        fitted: FloatArray = self.slope * log_ratios
        fitted[:, 1] += self.offset
        return fitted

    def true_thresholds(self, log_thresholds: FloatArray) -> FloatArray:
        """Return where on the true log ratio a threshold on the fitted one falls."""
        return (log_thresholds - self.offset) / self.slope


def fitted_ratio(separation: float, priors: npt.ArrayLike, *, seed: int, negative_weight: float = 1.0) -> FittedRatio:
    """Fit a logistic regression to one row drawn at each prior, (n,), and divide out the class prior of the rows.

    What a weight on the negatives adds to the prior is left in.
    """
    stream = GaussianClasses.pair(separation).draw(priors, random_state=seed)
    weights = np.where(stream.labels == 0, negative_weight, 1.0)
    model = LogisticRegression(C=np.inf).fit(stream.log_ratios[:, 1:], stream.labels, sample_weight=weights)
    return FittedRatio(float(model.intercept_[0] - logit(stream.labels.mean())), float(model.coef_[0, 0]))


def balanced(n_rows: int) -> FloatArray:
    """Return priors (2 n, 2) at which `n_rows` rows of each class are drawn."""
    priors: FloatArray = np.eye(2)[np.repeat([0, 1], n_rows)]
    return priors
