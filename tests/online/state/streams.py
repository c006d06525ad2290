"""Make streams of every tracker that have seen rows, ids, late labels and alarms, and rows to continue with."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.serving.ratio_model import RatioModel
from tests.online.cases import pair_model, pair_scores, triangle_model, triangle_scores
from tests.trackers.cases import unstarted

VIEWED = "SafeTracker with views"  # a tracker of `stream_of`, and a model of its own
CLASSES = GaussianClasses.spread(2.5, n_features=6)


class Rows(NamedTuple):
    """Scored rows that a stream can decide."""

    log_ratios: FloatArray  # (n, K)
    evidence: FloatArray  # (n, 1 + V, K)

    def part(self, first: int, end: int) -> "Rows":
        return Rows(self.log_ratios[first:end], self.evidence[first:end])


@cache
def model_of(tracker: str, n_classes: int) -> RatioModel:
    """Return the model that the streams of a tracker are decided with."""
    if tracker == VIEWED:
        drawn = CLASSES.draw(np.full(2_000, 0.1), random_state=0)
        fitted = RatioClassifier(LogisticRegression(), views=True, random_state=0)
        return fitted.fit(drawn.features, drawn.labels).model_
    return pair_model() if n_classes == 2 else triangle_model()


@cache
def rows_of(tracker: str, n_classes: int, n: int = 1_500, seed: int = 1) -> Rows:
    """Return rows whose prior is not that of training, the last third not even like those of training."""
    model = model_of(tracker, n_classes)
    if tracker == VIEWED:
        inputs: Any = CLASSES.draw(np.full(n, 0.3), random_state=seed).features
    else:
        inputs = pair_scores(n, 0.4, seed) if n_classes == 2 else triangle_scores(n, [0.2, 0.3, 0.5], seed)
    inputs = np.r_[inputs[: 2 * n // 3], 0.5 * inputs[2 * n // 3 :] + 1.5]
    scores = model.score(inputs)
    return Rows(scores.log_ratios, scores.evidence_from(0))


def stream_of(tracker: str, n_classes: int, **settings: Any) -> OnlineClassifier:
    """Return a stream without rows that remembers 60 of them."""
    if tracker != VIEWED:
        settings["tracker"] = unstarted(tracker, n_classes)
    return OnlineClassifier(model_of(tracker, n_classes), **{"horizon": 60} | settings)


def go_on(online: OnlineClassifier, rows: Rows, *, seed: int) -> FloatArray:
    """Decide rows in batches of any size, some with ids, and give labels back; return the priors they had, (n, K)."""
    rng, first, priors = np.random.default_rng(seed), 0, []
    names = online.classes_
    while first < len(rows.log_ratios):
        part = rows.part(first, first + int(rng.choice([1, 1, 7, 40])))
        own = online.n_rows + np.arange(len(part.log_ratios))
        ids = [f"order {row % 50}" if row % 3 else int(row) for row in own] if rng.random() < 0.2 else None
        decided = online.decide_log_ratios(part.log_ratios, evidence=part.evidence, ids=ids)
        priors.append(decided.effective_priors)
        for row in rng.integers(max(0, online.n_rows - 90), online.n_rows, size=3).tolist():
            name = row if rng.random() < 0.7 else f"order {row % 50}"
            online.feedback(name, names[int(rng.integers(len(names)))], propensity=float(rng.choice([1.0, 0.3])))
        first += len(part.log_ratios)
    return np.concatenate(priors)
