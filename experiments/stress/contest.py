"""Fit a model with views, its rival on SMOTE's rows, and score every method on the same stream by F1."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from imblearn.over_sampling import SMOTE
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.baselines.network import network
from experiments.choices.losses import loaded
from obil.arrays import FloatArray, IntArray
from obil.datasets.shift_protocol import ShiftedStream, shifted_streams
from obil.datasets.splits import stratified_split
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.policies import FBetaPolicy
from obil.serving.ratio_model import RatioModel
from obil.trackers import BBSE, Algorithm2, BayesBank, SafeTracker

OURS = ("Algorithm 2", "bank", "safe")
RIVALS = ("BBSE", "SMOTE")
LIMITS = ("training prior", "true prior")
METHODS = (*OURS, *RIVALS, *LIMITS)
BOOSTING, PAPER = "boosting", "paper"


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The model, its rival trained on SMOTE's rows, and the held-out part."""

    model: RatioModel
    resampled: Any
    rows: FloatArray  # (n, d) held out
    labels: IntArray  # (n,)
    spread: FloatArray  # (d,) standard deviation within a class; 0 for codes of two values


class Arrivals(NamedTuple):
    """A stream as a model sees it."""

    log_ratios: FloatArray  # (n, 2)
    evidence: FloatArray  # (n, 1 + V, 2)
    labels: IntArray  # (n,)
    prior: float


@lru_cache(maxsize=2)
def fitted(name: str, split: int, test_size: float, model: str = BOOSTING) -> Fitted:
    """Fit a model with its views, and its own kind on rows that SMOTE balanced, on one split of a set."""
    rows, labels = loaded(name)
    train, test = stratified_split(labels, test_size=test_size, random_state=split, rows=rows)
    ratios, resampled = {BOOSTING: _boosting, PAPER: _paper}[model](split)
    ratios.fit(rows[train], labels[train])
    resampled.fit(rows[train], labels[train])
    spread = within_class_spread(rows[train], labels[train])
    return Fitted(ratios.model_, resampled, rows[test], labels[test], spread)


def _boosting(seed: int) -> tuple[Any, Any]:
    booster = HistGradientBoostingClassifier(random_state=seed)
    ratios = RatioClassifier(make_pipeline(_filled(), booster), views=True, random_state=seed)
    return ratios, make_resampling_pipeline(_filled(), SMOTE(random_state=seed), booster)


def _paper(seed: int) -> tuple[Any, Any]:
    """Return the paper's ensemble, and one network of its architecture for SMOTE's rows."""
    ratios = OBILClassifier(member="paper", views=True, random_state=seed)
    steps = (_filled(), StandardScaler(), SMOTE(random_state=seed), network(seed))
    return ratios, make_resampling_pipeline(*steps)


def _filled() -> SimpleImputer:
    return SimpleImputer(strategy="median", keep_empty_features=True)


def within_class_spread(rows: FloatArray, labels: IntArray) -> FloatArray:
    """Return the standard deviation of each feature within a class, (d,); 0 where it has two values or one."""
    variances, n_values = np.zeros(rows.shape[1]), [len(np.unique(column[~np.isnan(column)])) for column in rows.T]
    for k in range(2):
        own = rows[labels == k]
        seen = ~np.isnan(own).all(axis=0)  # a feature that this class never shows has no spread
        variances[seen] += len(own) / len(rows) * np.nanvar(own[:, seen], axis=0)
    return np.where(np.array(n_values) > 2, np.sqrt(variances), 0.0)


def streams_of(part: Fitted, settings: dict[str, Any], split: int) -> Iterator[ShiftedStream]:
    """Yield streams of held-out rows, with repeats, at each factor of the training imbalance ratio."""
    return shifted_streams(
        part.labels, train_prior=part.model.prior_, factors=settings["factors"], n_draws=settings["draws"],
        n_rows=settings["n_rows"], random_state=split,
    )  # fmt: skip


def means_at(measured: list[tuple[float, dict[str, float]]]) -> dict[str, float]:
    """Return the mean of every measure over the streams at each factor, named `factor/measure`.

    >>> means_at([(0.25, {"bank": 0.5}), (0.25, {"bank": 0.7}), (4.0, {"bank": 0.1})])
    {'0.25/bank': 0.6, '4/bank': 0.1}
    """
    found: dict[str, list[float]] = {}
    for factor, measures in measured:
        for name, value in measures.items():
            found.setdefault(f"{factor:g}/{name}", []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def scored(part: Fitted, rows: FloatArray, labels: IntArray, prior: float) -> Arrivals:
    """Return rows as the model and its views see them."""
    scores = part.model.score(rows)
    return Arrivals(scores.log_ratios, scores.evidence_from(0), labels, prior)


def scores_of_methods(model: RatioModel, arrivals: Arrivals) -> dict[str, float]:
    """Return the F1 of every estimate of the prior: the same scores, and the same F1 policy at that prior."""
    ratios, evidence, start = arrivals.log_ratios, arrivals.evidence, model.prior_
    read = model.evidence_holdout
    batch = BBSE.from_holdout(read.log_ratios, read.labels, prior=start, soft=True, window=len(ratios))
    # its mean prediction covers the whole stream, which it sees before it decides
    batch.update_many(ratios, evidence=evidence)
    priors: dict[str, Any] = {
        "Algorithm 2": Algorithm2(start).update_many(ratios, evidence=evidence)[:, 1],
        "bank": BayesBank(start).update_many(ratios, evidence=evidence)[:, 1],
        "safe": SafeTracker.for_model(model).start(start).update_many(ratios, evidence=evidence)[:, 1],
        "BBSE": np.full(len(ratios), batch.prior[1]),
        "training prior": np.full(len(ratios), start[1]),
        "true prior": np.full(len(ratios), arrivals.prior),
    }
    thresholds = FBetaPolicy().bind(model.holdout_)
    return {
        method: f1(ratios[:, 1] > thresholds.log_thresholds(prior), arrivals.labels) for method, prior in priors.items()
    }


def f1(alerts: Any, labels: IntArray) -> float:
    """Return F1 of alerts (n,): 0 where nothing is alerted.

    >>> f1(np.array([True, True, False]), np.array([1, 0, 1]))
    0.5
    """
    hits = float(np.sum(alerts & (labels == 1)))
    return 2.0 * hits / float(np.sum(alerts) + np.sum(labels == 1))
