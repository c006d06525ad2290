"""Compare trackers on one labelled stream: same scores, same policies, only the prior differs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray, IntArray, require_same_length
from obil.bayes.costs import EQUAL_COSTS, Costs
from obil.policies import CostPolicy, FBetaPolicy
from obil.serving.holdout import Holdout


@dataclass(frozen=True, slots=True)
class Compared:
    """The figures of decisions at one tracker's priors."""

    method: str
    cost: float  # per row, at the threshold of least expected cost
    f1: float  # over the whole stream, at the F1 policy's threshold
    prior_error: float  # mean distance from the true prior


def compare_priors(
    log_ratios: FloatArray,
    labels: IntArray,
    truth: FloatArray,
    estimates: Mapping[str, FloatArray],
    *,
    holdout: Holdout,
    costs: Costs = EQUAL_COSTS,
) -> tuple[Compared, ...]:
    """Return the cost and F1 of each method's priors, by the rows' labels.

    Parameters
    ----------
    log_ratios
        Of the stream's rows, (n, 2).
    labels
        Their true class numbers, (n,).
    truth
        The prior of class 1 that each row was drawn at, (n,).
    estimates
        Each method's estimate of it *before* the row, (n,).
    holdout
        The model's own held-out rows, which the F1 policy reads.

    >>> rows, labels = np.array([[0.0, -1.0], [0.0, 1.0]]), np.array([0, 1])
    >>> half = np.array([0.5, 0.5])
    >>> compare_priors(rows, labels, half, {"oracle": half}, holdout=Holdout.of(rows, labels))[0].cost
    0.0
    """
    by_cost, by_f1 = CostPolicy(costs).bind(), FBetaPolicy().bind(holdout)
    score, true = log_ratios[:, 1], labels == 1
    compared = []
    for method, estimate in estimates.items():
        require_same_length(log_ratios=log_ratios, labels=labels, truth=truth, estimate=estimate)
        alert = score > by_cost.log_thresholds(estimate)
        alert_for_f1 = score > by_f1.log_thresholds(estimate)
        wrong = int((alert_for_f1 != true).sum())
        found = int((alert_for_f1 & true).sum())
        compared.append(
            Compared(
                method=method,
                cost=float(costs.matrix[alert.astype(np.int64), labels].mean()),
                f1=2 * found / (2 * found + wrong) if found else 0.0,
                prior_error=float(np.abs(estimate - truth).mean()),
            )
        )
    return tuple(compared)
