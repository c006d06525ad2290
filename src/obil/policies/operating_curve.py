"""Trace what every threshold does to held-out rows: its true and its false positive rate."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from obil.arrays import FloatArray, IntArray
from obil.bayes.one_vs_rest import one_vs_rest, positive_class
from obil.errors import InvalidInputError
from obil.serving.holdout import Holdout

# Each end of the curve gets half of them, in geometric steps of the rank: the first 150 rows or so one by
# one, then about 1 % apart, for a rare class is decided among the first few rows.
MOST_THRESHOLDS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class OperatingCurve:
    """Rates over thresholds from +inf, which alerts nothing, down to -inf, which alerts everything.

    Rates do not depend on the prior, so one curve serves every prior.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -2.0], [0.0, 0.0], [0.0, 2.0]], [0, 0, 1])
    >>> curve = OperatingCurve.of(rows, soft=False)
    >>> curve.log_thresholds
    array([ inf,   1.,  -1., -inf])
    >>> curve.true_positive_rates
    array([0., 1., 1., 1.])
    >>> curve.false_positive_rates
    array([0. , 0. , 0.5, 1. ])
    """

    log_thresholds: FloatArray  # (m,) falling, midway between neighbouring scores
    true_positive_rates: FloatArray  # (m,) rising from 0 to 1
    false_positive_rates: FloatArray  # (m,) rising from 0 to 1
    effective_rows: FloatArray  # (m,) how many equally weighted rows lie above: (sum w)^2 / sum w^2

    @classmethod
    def of(cls, holdout: Holdout | None, *, positive: int | None = None, soft: bool = True) -> "OperatingCurve":
        """Trace the curve of one class number, 1 of two if None, against the rest, at the held-out prior.

        With `soft` each row counts as positive by its posterior and as negative by the rest of it, else by its label.
        """
        if holdout is None:
            raise InvalidInputError("this policy needs held-out rows to choose its threshold, and the model has none")
        chosen = positive_class(positive, n_classes=holdout.n_classes)
        counted = holdout.weights > 0.0
        weights, prior = holdout.weights[counted], holdout.prior
        scores = one_vs_rest(holdout.log_ratios[counted], prior, chosen)  # (n,)
        is_positive = (holdout.labels[counted] == chosen).astype(np.float64)
        if soft:
            # Why not the labels: with 30 positives a label is one noisy draw, while the posterior is what that
            # draw averages to. It is right as long as the ratio is calibrated, which the gate sees to, and it
            # makes precision fall steadily along the curve, as it truly does.
            log_odds = np.log(prior[chosen]) - np.log(np.delete(prior, chosen).sum())
            posterior = expit(scores + log_odds)
            if weights @ posterior > 0.0 and weights @ (1.0 - posterior) > 0.0:
                is_positive = posterior
            # otherwise the ratio excludes a class that the labels show: the labels decide
        return cls._traced(scores, weights * is_positive, weights * (1.0 - is_positive), weights)

    @classmethod
    def _traced(
        cls, scores: FloatArray, positives: FloatArray, negatives: FloatArray, weights: FloatArray
    ) -> "OperatingCurve":
        order = np.argsort(scores)[::-1]
        falling = scores[order]
        last_of_tie = np.flatnonzero(falling[:-1] > falling[1:])  # equal scores are alerted together
        last = last_of_tie[_thinned(len(last_of_tie))]
        above, below = falling[last], falling[last + 1]
        middle = above / 2.0 + below / 2.0  # halved first: the sum could overflow
        between = np.where((middle >= below) & (middle < above), middle, below)  # neighbouring floats have no middle
        at = np.append(last, len(order) - 1)
        scaled = weights[order] / weights.max()  # squares of tiny weights would vanish
        summed, squared = np.cumsum(scaled)[at], np.cumsum(scaled**2)[at]
        effective = np.divide(summed**2, squared, out=np.zeros_like(summed), where=squared > 0.0)
        return cls(
            np.concatenate([[np.inf], between, [-np.inf]]),
            _rates(positives[order], at),
            _rates(negatives[order], at),
            np.concatenate([[0.0], effective]),
        )


def _rates(mass: FloatArray, at: IntArray) -> FloatArray:
    cumulated = np.cumsum(mass)
    return np.concatenate([[0.0], cumulated[at] / cumulated[-1]])


def _thinned(n_places: int) -> npt.NDArray[np.int64]:
    """Return which of the places between distinct scores to keep: all, or the most telling 2,000."""
    if n_places <= MOST_THRESHOLDS:
        return np.arange(n_places)
    ranks = np.unique(np.rint(np.geomspace(1, n_places / 2.0, MOST_THRESHOLDS // 2)).astype(np.int64))
    return np.union1d(ranks - 1, n_places - ranks)
