"""Measure what a policy's threshold does to labelled rows at one prior after another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.costs import EQUAL_COSTS, Costs
from obil.bayes.one_vs_rest import one_vs_rest, positive_class
from obil.policies import BoundPolicy, CostPolicy, Policy
from obil.serving.holdout import Holdout

PRIORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
FEW_ROWS = 5  # a rate that rests on fewer rows is rough


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One prior: the threshold there, and what it does to rows at that prevalence of the class."""

    prior: float
    log_threshold: float  # +inf alerts nothing
    sensitivity: float
    specificity: float
    positive_predictive_value: float  # NaN where nothing is alerted
    negative_predictive_value: float  # NaN where everything is
    alert_rate: float
    f1: float
    expected_cost: float  # per row
    n_false_alarms: int  # labelled rows behind the specificity
    n_found: int  # and behind the sensitivity

    @property
    def is_rough(self) -> bool:
        """Whether alerts rest on too few labelled rows for their PPV to be believed."""
        return self.alert_rate > 0.0 and min(self.n_false_alarms, self.n_found) < FEW_ROWS

    @property
    def reachable(self) -> bool:
        """Whether some threshold meets the policy at this prior."""
        return self.log_threshold < np.inf


def operating_points(
    rows: Holdout,
    bound: BoundPolicy,
    priors: Sequence[float],
    *,
    costs: Costs = EQUAL_COSTS,
    positive: int | None = None,
    rest: FloatArray | None = None,
) -> tuple[OperatingPoint, ...]:
    """Return the operating point at each prior of the positive class, by the rows' labels.

    Parameters
    ----------
    bound
        The policy, bound to the rows its thresholds come from: the model's own, not the ones measured on.
    positive
        The class number to alert; 1 where there are two classes.
    rest
        The prior (K,) that gives the proportions of the other classes; the rows' own if None.

    >>> rows = Holdout.of([[0.0, -2.0], [0.0, 1.0], [0.0, -1.0], [0.0, 2.0]], [0, 0, 1, 1])
    >>> point = operating_points(rows, CostPolicy().bind(), [0.5])[0]
    >>> point.sensitivity, point.specificity, point.positive_predictive_value, point.expected_cost
    (0.5, 0.5, 0.5, 0.5)
    """
    chosen = positive_class(positive, n_classes=rows.n_classes)
    others = rows.prior if rest is None else rest
    thresholds = bound.log_thresholds(np.asarray(priors, dtype=np.float64))
    return tuple(
        _point(rows, float(prior), float(threshold), costs=costs, positive=chosen, rest=others)
        for prior, threshold in zip(priors, thresholds, strict=True)
    )


def costs_of(policy: Policy) -> Costs:
    """Return the costs that a policy decides by; equal ones where it decides by something else."""
    return policy.costs if isinstance(policy, CostPolicy) else EQUAL_COSTS


def with_training_prior(training_prior: float, priors: Sequence[float] = PRIORS) -> tuple[float, ...]:
    """Return the priors in order with the training prior among them, instead of one that equals it.

    >>> with_training_prior(0.03, (0.01, 0.1))
    (0.01, 0.03, 0.1)
    """
    others = [prior for prior in priors if not np.isclose(prior, training_prior, rtol=1e-3, atol=0.0)]
    return tuple(sorted([*others, training_prior]))


def prior_with(positive_prior: float, rest: FloatArray, positive: int) -> FloatArray:
    """Return a prior (K,) with this prior of one class and the remainder for the others, in proportion.

    >>> prior_with(0.5, np.array([0.6, 0.3, 0.1]), 2).round(3)
    array([0.333, 0.167, 0.5  ])
    """
    prior = rest.copy()
    prior[positive] = 0.0
    prior *= (1.0 - positive_prior) / prior.sum()
    prior[positive] = positive_prior
    return prior


def _point(
    rows: Holdout, positive_prior: float, threshold: float, *, costs: Costs, positive: int, rest: FloatArray
) -> OperatingPoint:
    prior = prior_with(positive_prior, rest, positive)
    alert = one_vs_rest(rows.log_ratios, prior, positive) > threshold  # (n,)
    true = rows.labels == positive  # (n,)
    weights = rows.weights_at(prior)
    hits, false_alarms = float(weights[alert & true].sum()), float(weights[alert & ~true].sum())
    misses, quiet = float(weights[~alert & true].sum()), float(weights[~alert & ~true].sum())
    alerts, others = hits + false_alarms, misses + quiet
    cost = costs.matrix  # (decided, true)
    return OperatingPoint(
        prior=positive_prior,
        log_threshold=threshold,
        sensitivity=hits / (hits + misses),
        specificity=quiet / (quiet + false_alarms),
        positive_predictive_value=hits / alerts if alerts > 0.0 else float("nan"),
        negative_predictive_value=quiet / others if others > 0.0 else float("nan"),
        alert_rate=alerts / (alerts + others),
        f1=2.0 * hits / (2.0 * hits + false_alarms + misses),
        expected_cost=float(cost[1, 1] * hits + cost[1, 0] * false_alarms + cost[0, 1] * misses + cost[0, 0] * quiet),
        n_false_alarms=int((alert & ~true).sum()),
        n_found=int((alert & true).sum()),
    )
