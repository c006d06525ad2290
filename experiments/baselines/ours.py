"""Name OBIL's forms, each with its tracker; each decides by both policies, F1 and least cost."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.baselines.batch_prior import Estimate, ScoredRows, at_batch_prior, by_bbse, by_likelihood
from experiments.baselines.names import BY_COST, BY_F1, other_form, policy_of
from experiments.baselines.network import Prepared
from experiments.protocol import Arrivals, Decider, Judged, SplitSet, arriving
from obil.arrays import FloatArray, IntArray
from obil.bayes.costs import EQUAL_COSTS
from obil.bayes.posterior import posteriors_at
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.policies import CostPolicy, FBetaPolicy, Policy
from obil.serving.ratio_model import RatioModel, Scores, as_ratio_model
from obil.trackers import Algorithm2, BayesBank, FixedPrior, PriorTracker, SafeTracker

Follow = Callable[[RatioModel, float], PriorTracker]  # a model and the true prior, which only an oracle looks at
Priors = Callable[[Arrivals], FloatArray]
BATCH_METHODS: dict[str, Callable[[ScoredRows], Estimate]] = {"BBSE": by_bbse, "MLLS": by_likelihood}

RULES: dict[str, Policy] = {BY_COST: CostPolicy(EQUAL_COSTS), BY_F1: FBetaPolicy()}


def _started(make: Callable[[], PriorTracker]) -> Follow:
    return lambda model, _: make().start(model.prior_)


def _safe(model: RatioModel, _: float) -> PriorTracker:
    return SafeTracker.for_model(model).start(model.prior_)


def _oracle(_: RatioModel, prior: float) -> PriorTracker:
    return FixedPrior().start(prior)


ALGORITHM_2, BANK, STATIC = _started(Algorithm2), _started(BayesBank), _started(FixedPrior)
SAFE: Follow = _safe
ORACLE: Follow = _oracle

FORMS: dict[str, dict[str, Follow]] = {
    "paper": {
        "OBIL paper, Algorithm 2": ALGORITHM_2,
        "OBIL paper, bank": BANK,
        "OBIL paper, oracle prior": ORACLE,
    },
    "default": {
        "OBIL default, bank": BANK,
        "OBIL default, safe": SAFE,
        "OBIL default, no adaptation": STATIC,
        "OBIL default, oracle prior": ORACLE,
    },
    "boosted": {
        "OBIL boosting, safe": SAFE,
        "OBIL boosting, bank": BANK,
        "OBIL boosting, oracle prior": ORACLE,
    },
}


def fit_ours(family: str, split: SplitSet, data: Prepared) -> tuple[dict[str, Decider], FloatArray]:
    """Fit one of OBIL's models; return its forms as deciders, and its log ratios of the held-out rows, (n,)."""
    if family == "boosted":
        estimator = HistGradientBoostingClassifier(random_state=split.seed)
        fitted: Any = RatioClassifier(estimator, views=True, random_state=split.seed)
        fitted.fit(data.unfilled, data.labels)
        test: Any = data.unfilled_test
    else:
        member = "paper" if family == "paper" else "tabular"
        fitted = OBILClassifier(member=member, random_state=split.seed).fit(split.train, split.train_labels)
        test = split.test
    model = as_ratio_model(fitted)
    scores = model.score(test)
    deciders: dict[str, Decider] = {}
    for name, follow in FORMS[family].items():
        priors = _followed(model, scores, follow)
        deciders |= {form: _decider(model, scores, priors, RULES[policy_of(form)]) for form in (name, other_form(name))}
    if family == "default":  # the same scores with other estimates of the prior: only the tracker differs
        deciders |= _on_the_batch(model, scores)
    return deciders, scores.log_ratios[:, 1]


def _on_the_batch(model: RatioModel, scores: Scores) -> dict[str, Decider]:
    """Return deciders at the prior of a whole stream, read from the evidence that a tracker would get."""
    decided, labels, prior = model.holdout_.log_ratios, model.holdout_.labels, float(model.prior_[1])
    rows = ScoredRows(decided, labels, scores.log_ratios, prior)
    read = rows._replace(held_out=model.evidence_holdout.log_ratios)

    def evidence(numbers: IntArray) -> FloatArray:
        return arriving(scores, numbers).evidence_from(0)[:, 0]

    estimates = {f"OBIL default, {name} on the batch": make(read) for name, make in BATCH_METHODS.items()}
    return {
        form: at_batch_prior(rows, estimate, best_f1=policy_of(form) == BY_F1, evidence=evidence)
        for name, estimate in estimates.items()
        for form in (name, other_form(name))
    }


def _followed(model: RatioModel, scores: Scores, follow: Follow) -> Priors:
    """Return the priors before the rows of a stream, (n, 2): followed once, whatever the number of policies."""
    kept: dict[tuple[float, bytes], FloatArray] = {}

    def priors(arrivals: Arrivals) -> FloatArray:
        key = (arrivals.prior, arrivals.rows.tobytes())
        if key not in kept:
            arrived = arriving(scores, arrivals.rows)
            tracker = follow(model, arrivals.prior)
            kept[key] = tracker.update_many(arrived.log_ratios, evidence=arrived.evidence_from(0))
        return kept[key]

    return priors


def _decider(model: RatioModel, scores: Scores, followed: Priors, policy: Policy) -> Decider:
    """Return how a stream is decided: each row at the prior before it, which the row then updates."""
    bound = policy.bind(model.holdout_, positive=1)

    def decide(arrivals: Arrivals) -> Judged:
        priors, ratios = followed(arrivals), scores.log_ratios[arrivals.rows]
        own = ratios[:, 1]
        alerts = own > bound.log_thresholds(np.ascontiguousarray(priors[:, 1]))
        return Judged(alerts, posteriors_at(ratios, priors)[:, 1], own)

    return decide
