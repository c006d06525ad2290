"""Turn log ratios and priors into classes: by a threshold on one class, or by a cost matrix over many."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.bayes.costs import EQUAL_COSTS, Costs
from obil.bayes.one_vs_rest import one_vs_rest
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError
from obil.policies import CostPolicy, Policy
from obil.policies.notation import TEXT_CHOICES, policy_from_text
from obil.serving.ratio_model import RatioModel


class Ruling(NamedTuple):
    """What a rule makes of n rows."""

    numbers: IntArray  # (n,) of the classes decided
    posteriors: FloatArray  # (n, K)
    thresholds: FloatArray | None  # (n,) on the log ratio of the positive class; None where a cost matrix decides
    reachable: npt.NDArray[np.bool_]  # (n,) whether any threshold meets the policy at the row's prior


class DecisionRule:
    """A policy bound to a model: pure, and replaced when either changes."""

    def __init__(self, model: RatioModel, policy: Policy | str | None, positive: int | None) -> None:
        self.positive = positive  # the number of the class that is alerted on; None where a cost matrix decides
        self.n_classes = model.n_classes
        self.labels: list[Any] = model.classes_.tolist()  # plain Python values
        policy = _as_policy(policy)
        if isinstance(policy, CostPolicy):
            policy = CostPolicy(_ordered(policy.costs, model, positive))
        by_matrix = model.n_classes > 2 and positive is None
        if by_matrix:
            if not isinstance(policy, CostPolicy):
                raise InvalidInputError(f"a policy for {model.n_classes} classes alerts on one of them: give positive=")
            policy = CostPolicy(_full_matrix(policy.costs, model.n_classes))
        self.policy: Policy = policy
        self.bound = None if by_matrix else policy.bind(model.holdout_, positive=positive)

    @property
    def costs(self) -> Costs | None:
        """What decisions cost, where costs set the threshold."""
        return self.policy.costs if isinstance(self.policy, CostPolicy) else None

    def log_threshold(self, prior: FloatArray) -> float | None:
        """Return the threshold at a prior, (K,), on the log ratio of the positive class."""
        return None if self.bound is None else self.bound.log_threshold(float(prior[self.positive]))

    def decide(self, ratios: FloatArray, priors: FloatArray) -> Ruling:
        """Decide rows, (n, K), each at a prior of its own, (n, K)."""
        posteriors = posteriors_at(ratios, priors)
        if self.bound is None or self.positive is None:
            matrix = self.costs.matrix if self.costs is not None else 1.0 - np.eye(self.n_classes)
            numbers = np.argmin(posteriors @ matrix.T, axis=1)
            return Ruling(numbers.astype(np.int64), posteriors, None, np.ones(len(ratios), dtype=bool))
        own_priors = priors[:, self.positive]
        thresholds = self.bound.log_thresholds(own_priors)
        alert = one_vs_rest(ratios, priors, self.positive) > thresholds
        other: Any = 1 - self.positive
        if self.n_classes > 2:  # what is not alerted goes to the most probable of the others
            others = posteriors.copy()
            others[:, self.positive] = -1.0
            other = np.argmax(others, axis=1)
        numbers = np.where(alert, self.positive, other).astype(np.int64)
        return Ruling(numbers, posteriors, thresholds, self.bound.reachable(own_priors))

    def decide_one(self, ratios: FloatArray, prior: FloatArray) -> tuple[int, float | None, bool]:
        """Return the class number, the threshold and whether the policy could be met, of one row, (K,)."""
        if self.bound is None or self.n_classes != 2:
            rows = self.decide(ratios[None], prior[None])
            threshold = None if rows.thresholds is None else rows.thresholds.item(0)
            return rows.numbers.item(0), threshold, rows.reachable.item(0)
        positive: int = self.positive  # type: ignore[assignment]  # two classes always have one
        threshold = self.bound.log_threshold(prior.item(positive))
        own = ratios.item(1) if positive == 1 else -ratios.item(1)
        return (positive if own > threshold else 1 - positive), threshold, threshold < np.inf


def _as_policy(policy: Policy | str | None) -> Policy:
    if isinstance(policy, str):
        return policy_from_text(policy)
    if policy is None:
        return CostPolicy()
    if not isinstance(policy, Policy):
        raise InvalidInputError(f"policy must be one of obil.policies or its name ({TEXT_CHOICES}), got {policy!r:.40}")
    return policy


def class_number(positive: Any, model: RatioModel) -> int | None:
    """Return the number of the class to alert on: the second of two if None is named, and none of many."""
    if positive is None:
        return 1 if model.n_classes == 2 else None
    return _number_of("positive must be", positive, model.classes_.tolist())


def unlabeled_class(unlabeled_as: Any, model: RatioModel, positive: int | None) -> int | None:
    """Return the number of the class that a missing label means, or None where it means nothing."""
    if unlabeled_as is None:
        return None
    names = model.classes_.tolist()
    if isinstance(unlabeled_as, str) and unlabeled_as == "negative" and unlabeled_as not in names:
        if positive is None or len(names) != 2:
            raise InvalidInputError(f'unlabeled_as="negative" needs two classes: name one of {names} instead')
        return 1 - positive
    return _number_of('unlabeled_as must be None, "negative" or', unlabeled_as, names)


def _number_of(rule: str, name: Any, names: list[Any]) -> int:
    if name not in names:
        raise InvalidInputError(f"{rule} one of {names}, got {name!r:.40}")
    return names.index(name)


def _full_matrix(costs: Costs, n_classes: int) -> Costs:
    if costs.n_classes == n_classes:
        return costs
    if costs.n_classes != 2:
        raise InvalidInputError(f"costs must cover the {n_classes} classes, got {costs.n_classes}")
    if costs != EQUAL_COSTS:
        raise InvalidInputError(
            f"costs of two classes need positive= to name one of the {n_classes} classes; or give a full matrix"
        )
    return Costs.from_matrix(1.0 - np.eye(n_classes))


def _ordered(costs: Costs, model: RatioModel, positive: int | None) -> Costs:
    """Return costs in the order of the model's classes, or of (negative, positive) for two."""
    if costs.classes is None:
        return costs
    names = model.classes_.tolist()
    if set(costs.classes) != set(names):
        raise InvalidInputError(f"costs name the classes {list(costs.classes)}, the model has {names}")
    if len(names) == 2 and positive == 0:
        names = names[::-1]
    order = [costs.classes.index(name) for name in names]
    return Costs.from_matrix(costs.matrix[np.ix_(order, order)])
