"""Decide streams for F1 and for least cost: OBIL under each tracker, peers at thresholds from held-out scores."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.baselines.ours import BANK, ORACLE, SAFE, STATIC, Follow
from experiments.protocol import Arrivals, SplitSet, arriving
from obil.arrays import FloatArray, IntArray
from obil.bayes.costs import Costs
from obil.policies import CostPolicy, FBetaPolicy
from obil.serving.ratio_model import RatioModel

NO_ADAPTATION, ADAPTING, BAYES_BANK, TRUE_PRIOR = "no adaptation", "default tracker", "Bayes bank", "true prior"
TRACKERS: dict[str, Follow] = {NO_ADAPTATION: STATIC, ADAPTING: SAFE, BAYES_BANK: BANK, TRUE_PRIOR: ORACLE}
Alerts = npt.NDArray[np.bool_]
Outcomes = dict[str, float]  # by measure and factor


class Thresholds(NamedTuple):
    """Where to alert for each aim."""

    f1: float
    cost: float


def by_ours(model: RatioModel, test: Any, split: SplitSet, streams: list[Arrivals]) -> dict[str, Outcomes]:
    """Score the held-out rows once; decide each stream under each tracker, by both policies."""
    scores = model.score(test)
    costs = Costs(false_positive=1.0, false_negative=split.imbalance)
    f1_bound = FBetaPolicy().bind(model.holdout_, positive=1)
    cost_bound = CostPolicy(costs).bind(model.holdout_, positive=1)
    found: dict[str, Outcomes] = {name: {} for name in TRACKERS}
    for stream in streams:
        arrived = arriving(scores, stream.rows)
        own, truth = arrived.log_ratios[:, 1], split.test_labels[stream.rows]
        for name, follow in TRACKERS.items():
            tracker = follow(model, stream.prior)
            priors = tracker.update_many(arrived.log_ratios, evidence=arrived.evidence_from(0))
            prior = np.ascontiguousarray(priors[:, 1])
            alerts = {"f1": own > f1_bound.log_thresholds(prior), "cost": own > cost_bound.log_thresholds(prior)}
            found[name] |= dict(_measured(alerts, truth, split.imbalance, stream.factor))
    return found


def by_thresholds(
    probabilities: FloatArray, thresholds: Thresholds, split: SplitSet, streams: list[Arrivals]
) -> Outcomes:
    """Decide each stream at fixed thresholds."""
    found: Outcomes = {}
    for stream in streams:
        own, truth = probabilities[stream.rows], split.test_labels[stream.rows]
        alerts = {"f1": own > thresholds.f1, "cost": own > thresholds.cost}
        found |= dict(_measured(alerts, truth, split.imbalance, stream.factor))
    return found


def thresholds_of(probabilities: FloatArray, labels: IntArray, *, miss: float) -> Thresholds:
    """Return the thresholds with the best F1 and the least cost on held-out rows, in the middle of their gaps.

    A false alarm costs 1, a miss `miss`. Alerting every row or none are among the choices.

    >>> thresholds_of(np.array([0.125, 0.25, 0.5, 0.75]), np.array([0, 0, 1, 1]), miss=1.0)
    Thresholds(f1=0.375, cost=0.375)
    """
    values = np.unique(probabilities)
    gaps = np.concatenate([[-np.inf], (values[1:] + values[:-1]) / 2.0, [np.inf]])
    alerts = len(labels) - np.searchsorted(np.sort(probabilities), gaps, side="right")
    hits = int(labels.sum()) - np.searchsorted(np.sort(probabilities[labels == 1]), gaps, side="right")
    f1 = 2.0 * hits / (alerts + labels.sum())
    cost = miss * (labels.sum() - hits) + alerts - hits
    return Thresholds(float(gaps[np.argmax(f1)]), float(gaps[np.argmin(cost)]))


def _measured(
    alerts: dict[str, Alerts], truth: IntArray, imbalance: float, factor: float
) -> Iterator[tuple[str, float]]:
    """Give F1 of the alerts for F1, and the cost of those for cost over that of the better constant decision."""
    positive = truth == 1
    hits, false_alarms = (int((alerts["f1"] & own).sum()) for own in (positive, ~positive))
    yield f"f1.{factor}", 2.0 * hits / max(hits + false_alarms + int(positive.sum()), 1)
    missed, false_alarms = int((~alerts["cost"] & positive).sum()), int((alerts["cost"] & ~positive).sum())
    constant = min(imbalance * float(positive.sum()), float((~positive).sum()))
    yield f"cost.{factor}", (imbalance * missed + false_alarms) / constant
