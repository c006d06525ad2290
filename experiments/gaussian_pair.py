"""Measure what not knowing the prior cost: regret against the oracle, realised or expected."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from obil.arrays import FloatArray, as_labels, as_log_ratios, as_scaled, require_same_length
from obil.bayes.costs import EQUAL_COSTS, Costs, log_thresholds_at
from obil.errors import InvalidInputError


def binary_log_thresholds(positive_priors: npt.ArrayLike, costs: Costs = EQUAL_COSTS) -> FloatArray:
    """Return log Q for many positive priors P1 at once, each strictly inside (0, 1).

    >>> binary_log_thresholds([0.5, 0.5]).tolist()
    [0.0, 0.0]
    """
    return log_thresholds_at(np.log(costs.ratio), np.asarray(positive_priors, dtype=np.float64))


def realised_costs(decisions: npt.ArrayLike, labels: npt.ArrayLike, costs: Costs = EQUAL_COSTS) -> FloatArray:
    """Return what each decision cost given its true label, (n,).

    The cost ratio Qc weighs the false alarm, as in the threshold; the paper's loss weighs the miss with
    it, which contradicts the threshold it is used with.

    >>> realised_costs([1, 0], [0, 1], Costs(false_positive=1, false_negative=9))
    array([1., 9.])
    """
    decided = as_labels(decisions, n_classes=costs.n_classes)
    true = as_labels(labels, n_classes=costs.n_classes)
    require_same_length(decisions=decided, labels=true)
    return costs.matrix[decided, true]


def realised_regret(
    decisions: npt.ArrayLike,
    labels: npt.ArrayLike,
    log_ratios: npt.ArrayLike,
    priors: npt.ArrayLike,
    costs: Costs = EQUAL_COSTS,
) -> FloatArray:
    """Return the cumulative cost beyond that of the oracle, which knows the prior of every row, (n,).

    `priors` are the true priors, (n, K). The last entry is the regret of the whole sequence.

    >>> realised_regret([1, 0], [0, 1], [[0.0, -1.0], [0.0, 1.0]], [[0.5, 0.5]] * 2)
    array([1., 2.])
    """
    rows = as_log_ratios(log_ratios, n_classes=costs.n_classes)
    true_priors = np.asarray(priors, dtype=np.float64)
    if true_priors.shape != rows.shape:
        raise InvalidInputError(f"priors must have the shape of log_ratios {rows.shape}, got {true_priors.shape}")
    if not ((true_priors >= 0.0).all() and (abs(true_priors.sum(axis=1) - 1.0) <= 1e-6).all()):
        raise InvalidInputError("every row of priors must be non-negative and sum to 1")
    # the posterior's normaliser is the same for every decision, so the joint weights suffice
    weights = true_priors * np.exp(as_scaled(rows))
    oracle = np.argmin(weights @ costs.matrix.T, axis=1)
    excess = realised_costs(decisions, labels, costs) - realised_costs(oracle, labels, costs)
    return np.cumsum(excess)


@dataclass(frozen=True, slots=True)
class GaussianPair:
    """Two unit-variance normal classes `separation` apart, where every expected cost has a closed form.

    The expectation over rows replaces the realised label, which is about ten times noisier.

    >>> round(float(GaussianPair(2.0).expected_cost(0.0, 0.5)), 4)  # the error rate of two classes 2 sd apart
    0.1587
    """

    separation: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.separation) and self.separation > 0.0):
            raise InvalidInputError(f"separation must be positive, got {self.separation!r}")

    def rates(self, log_thresholds: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the true and the false positive rate of deciding 1 above each log threshold."""
        cut = (np.asarray(log_thresholds, dtype=np.float64) + self.separation**2 / 2.0) / self.separation
        return np.asarray(ndtr(self.separation - cut)), np.asarray(ndtr(-cut))

    def expected_cost(
        self, log_thresholds: npt.ArrayLike, positive_priors: npt.ArrayLike, costs: Costs = EQUAL_COSTS
    ) -> FloatArray:
        """Return the expected cost of a row whose prior is P1 when decided at each log threshold."""
        positive = np.asarray(positive_priors, dtype=np.float64)
        true_rate, false_rate = self.rates(log_thresholds)
        (right_negative, miss), (false_alarm, right_positive) = costs.matrix
        on_negative = right_negative + false_rate * (false_alarm - right_negative)
        on_positive = miss + true_rate * (right_positive - miss)
        expected: FloatArray = (1.0 - positive) * on_negative + positive * on_positive
        return expected

    def oracle_cost(self, positive_priors: npt.ArrayLike, costs: Costs = EQUAL_COSTS) -> FloatArray:
        """Return the expected cost of deciding with the true prior."""
        return self.expected_cost(binary_log_thresholds(positive_priors, costs), positive_priors, costs)

    def regret(
        self, estimated: npt.ArrayLike, positive_priors: npt.ArrayLike, costs: Costs = EQUAL_COSTS
    ) -> FloatArray:
        """Return the cumulative expected regret of deciding with `estimated` priors where the truth is another."""
        used = self.expected_cost(binary_log_thresholds(estimated, costs), positive_priors, costs)
        return np.cumsum(used - self.oracle_cost(positive_priors, costs))

    def excess(self, estimated: npt.ArrayLike, positive_priors: npt.ArrayLike, costs: Costs = EQUAL_COSTS) -> float:
        """Return the expected cost over the oracle's, as a fraction of the oracle's, over the whole stream."""
        return float(
            self.regret(estimated, positive_priors, costs)[-1] / self.oracle_cost(positive_priors, costs).sum()
        )
