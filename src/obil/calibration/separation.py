"""Tell whether a score separates the classes at all: the area under the ROC curve, with an interval."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from obil.arrays import FloatArray
from obil.serving.holdout import Holdout


@dataclass(frozen=True, slots=True)
class Separation:
    """How often a row of the upper class outranks one of the lower, by the log ratio between the two."""

    lower_class: int
    upper_class: int
    auc: float
    standard_error: float
    interval: tuple[float, float]

    def to_json(self) -> dict[str, object]:
        """Return the figures as plain numbers."""
        return {
            "classes": [self.lower_class, self.upper_class],
            "auc": self.auc,
            "standard_error": self.standard_error,
            "interval": list(self.interval),
        }


def worst_separation(holdout: Holdout, *, level: float = 0.9) -> Separation:
    """Return the pair of classes that the score separates least (of two classes, the only pair).

    >>> worst_separation(Holdout.of([[0.0, -1.0], [0.0, 1.0], [0.0, 2.0]], [0, 1, 1])).auc
    1.0
    """
    width = float(ndtri((1.0 + level) / 2.0))
    worst: Separation | None = None
    for upper in range(1, holdout.n_classes):
        for lower in range(upper):
            score = holdout.log_ratios[:, upper] - holdout.log_ratios[:, lower]
            below, above = holdout.labels == lower, holdout.labels == upper
            auc, error = weighted_auc(score[below], score[above], holdout.weights[below], holdout.weights[above])
            if worst is None or auc - width * error < worst.interval[0]:
                ends = (auc - width * error, min(auc + width * error, 1.0))
                worst = Separation(lower, upper, auc, error, ends)
    assert worst is not None  # a holdout has two classes or more
    return worst


def weighted_auc(
    lower: FloatArray, upper: FloatArray, lower_weights: FloatArray, upper_weights: FloatArray
) -> tuple[float, float]:
    """Return P(upper score > lower score), ties counted half, and its standard error after DeLong."""
    outranks = _fraction_below(upper, lower, lower_weights)
    outranked = 1.0 - _fraction_below(lower, upper, upper_weights)
    auc = float(upper_weights @ outranks / upper_weights.sum())
    variance = _variance_of_mean(outranks, upper_weights) + _variance_of_mean(outranked, lower_weights)
    return auc, float(np.sqrt(variance))


def _fraction_below(points: FloatArray, scores: FloatArray, weights: FloatArray) -> FloatArray:
    order = np.argsort(scores, kind="stable")
    mass = np.concatenate([[0.0], np.cumsum(weights[order])])
    left = mass[np.searchsorted(scores[order], points, side="left")]
    right = mass[np.searchsorted(scores[order], points, side="right")]
    fraction: FloatArray = (left + right) / (2.0 * mass[-1])
    return fraction


def _variance_of_mean(values: FloatArray, weights: FloatArray) -> float:
    relative = weights / weights.sum()
    spread = float(relative**2 @ (values - relative @ values) ** 2)
    return spread / max(1.0 - float(relative @ relative), 1e-12)
