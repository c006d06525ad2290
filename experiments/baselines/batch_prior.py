"""Decide a stream at the prior that is estimated from all of it at once: BBSE, RLLS, MLLS.

The whole stream is given as one batch before its first row is decided: more than a stream would give them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from experiments.peers import RLLS
from experiments.protocol import Arrivals, Decider, Judged
from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.policies import FBetaPolicy
from obil.serving.holdout import Holdout
from obil.trackers import BBSE, PriorTracker
from obil.trackers.pass_search import estimate_from_rows

Estimate = Callable[[FloatArray], float]  # the log ratios of a batch, (n, 2) -> its prior
Evidence = Callable[[IntArray], FloatArray]  # numbers of arriving rows -> the log ratios to read their prior from


class ScoredRows(NamedTuple):
    """Log ratios of rows the model has not seen, with their labels, and of the held-out rows."""

    held_out: FloatArray  # (n, 2)
    labels: IntArray  # (n,)
    test: FloatArray  # (m, 2)
    prior: float  # P1 in training


def by_bbse(scores: ScoredRows) -> Estimate:
    """Return black-box shift estimation by predicted classes; by posteriors if all predictions are equal."""
    predictions = scores.held_out[:, 1] + logit(scores.prior) > 0.0
    return _by_predictions(BBSE.from_holdout, scores, soft=bool(predictions.all() or not predictions.any()))


def by_rlls(scores: ScoredRows) -> Estimate:
    """Return regularised learning of label shift, by predicted classes."""
    return _by_predictions(RLLS.from_holdout, scores)


def by_likelihood(_: ScoredRows) -> Estimate:
    """Return maximum likelihood (MLLS, what EM converges to)."""
    return lambda ratios: float(estimate_from_rows(ratios).prior[1])


def _by_predictions(make: Callable[..., PriorTracker], scores: ScoredRows, **choices: Any) -> Estimate:
    def estimate(ratios: FloatArray) -> float:
        try:
            tracker = make(scores.held_out, scores.labels, prior=scores.prior, window=len(ratios), **choices)
        except InvalidInputError:  # equal predictions carry no information on the prior
            return scores.prior
        tracker.update_many(ratios)
        return float(tracker.prior[1])

    return estimate


def at_batch_prior(
    scores: ScoredRows, estimate: Estimate, *, best_f1: bool, evidence: Evidence | None = None
) -> Decider:
    """Return a decider at equal costs, or at the best F1, for the prior of the whole stream.

    The prior is read from `evidence`, or else from the log ratios that decide.
    """
    table = FBetaPolicy().bind(Holdout.of(scores.held_out, scores.labels)) if best_f1 else None

    def decide(arrivals: Arrivals) -> Judged:
        ratios = scores.test[arrivals.rows]
        seen = ratios if evidence is None else evidence(arrivals.rows)
        prior = min(max(estimate(seen), 1e-6), 1.0 - 1e-6)
        own = ratios[:, 1]
        threshold = -float(logit(prior)) if table is None else table.log_threshold(prior)
        return Judged(own > threshold, np.asarray(expit(own + logit(prior))), own)

    return decide
