"""Score every method by one protocol: fit once on a split, then decide streams drawn at other class balances."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from obil.arrays import FloatArray, IntArray
from obil.calibration.reliability import calibration_error, reliability
from obil.datasets.named_set import NamedSet, load_named
from obil.datasets.shift_protocol import shifted_streams, thinned_rows
from obil.datasets.splits import stratified_split
from obil.errors import InvalidInputError
from obil.serving.ratio_model import Scores

MEASURES = ("f1", "gmean", "auprc", "ece", "cost")
SET_NAMES = {
    "yeast4": "Yeast4",
    "abalone19": "Abalone19",
    "sick_euthyroid": "Sick-euthyroid",
    "mammography": "Mammography",
    "thyroid_ann": "Thyroid",
    "creditcard": "Credit card",
    "creditcard_hours": "Credit card, 100,000 rows",
}
STAND_INS = {"creditcard": "creditcard_hours"}  # where the set itself is not at hand
Alerts = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SplitSet:
    """A data set split once: what trains, and what is held out."""

    name: str
    seed: int
    train: pd.DataFrame
    train_labels: IntArray
    test: pd.DataFrame
    test_labels: IntArray
    categorical: tuple[str, ...]

    @property
    def prior(self) -> float:
        """P1 of the training rows."""
        return float(self.train_labels.mean())

    @property
    def imbalance(self) -> float:
        """Negatives a positive among the training rows."""
        return (1.0 - self.prior) / self.prior


class Arrivals(NamedTuple):
    """Held-out rows in the order in which they arrive."""

    factor: float  # of the training imbalance ratio
    rows: IntArray  # (n,) numbers of held-out rows
    prior: float  # P1 they were drawn at


class Judged(NamedTuple):
    """What a method said of arriving rows."""

    alerts: Alerts  # (n,) by the method's own rule
    probabilities: FloatArray  # (n,) P(1 | row), as the method believes it at the time
    ranks: FloatArray  # (n,) what it orders rows by


Decider = Callable[[Arrivals], Judged]


@lru_cache(maxsize=8)
def named_set(name: str) -> NamedSet | None:
    """Return a data set, or None where it is not at hand."""
    try:
        return load_named(name)
    except InvalidInputError:
        return None


def present_sets(names: list[str]) -> list[str]:
    """Return those of the sets that are at hand."""
    return [name for name in names if named_set(name) is not None]


def with_stand_ins(names: list[str]) -> list[str]:
    """Return those of the sets that are at hand; a set that is not, but for which another can stand, is that other."""
    return present_sets([name if named_set(name) else STAND_INS.get(name, name) for name in names])


def missing_networks_or_sets(names: list[str]) -> str | None:
    """Return why networks cannot be trained on any of these sets here, or None; one not at hand is left out."""
    if find_spec("torch") is None:
        return "networks are trained with torch: pip install 'obil[torch]'"
    return None if present_sets(names) else "none of the data sets is at hand: set OBIL_DATA"


def require_set(name: str) -> NamedSet:
    """Return a data set that was at hand when the work was listed."""
    data = named_set(name)
    if data is None:
        raise InvalidInputError(f"{name} was at hand and is no more")
    return data


@lru_cache(maxsize=2)
def split_set(name: str, seed: int, test_size: float, most_rows: int | None = None) -> SplitSet:
    """Return a set split by class, duplicates on one side; codes of categories are strings.

    Of more than `most_rows` rows that train, so many are kept, at the same class prior.
    """
    data = require_set(name)
    rows, labels = data.features, data.labels.astype(np.int64)
    train, test = stratified_split(labels, test_size=test_size, random_state=seed, rows=rows.to_numpy())
    if most_rows is not None and len(train) > most_rows:
        kept, _ = train_test_split(train, train_size=most_rows, stratify=labels[train], random_state=seed)
        train = np.sort(kept)
    rows = rows.assign(**{column: rows[column].astype(str) for column in data.categorical})
    return SplitSet(name, seed, rows.iloc[train], labels[train], rows.iloc[test], labels[test], tuple(data.categorical))


def streams(split: SplitSet, *, factors: list[float], n_draws: int, n_rows: int) -> Iterator[Arrivals]:
    """Yield streams drawn with replacement from the held-out rows at each imbalance ratio."""
    drawn = shifted_streams(
        split.test_labels, train_prior=split.prior, factors=factors, n_draws=n_draws, n_rows=n_rows,
        random_state=split.seed,
    )  # fmt: skip
    for stream in drawn:
        yield Arrivals(stream.factor, stream.rows, stream.prior)


def arriving(scores: Scores, rows: IntArray) -> Scores:
    """Return the scores of rows in the order in which they arrive; the same row may come again."""
    return Scores(scores.log_ratios[rows], scores.evidence[rows])


def thinned(split: SplitSet, *, factors: list[float]) -> Iterator[Arrivals]:
    """Yield what the paper tests on: held-out rows of one class thinned to each ratio, in a random order."""
    for factor in factors:
        rows = thinned_rows(split.test_labels, target_ratio=split.imbalance * factor, random_state=split.seed)
        rows = np.random.default_rng([split.seed, 1]).permutation(rows)
        yield Arrivals(factor, rows, float(split.test_labels[rows].mean()))


def outcome(judged: Judged, truth: IntArray) -> dict[str, float]:
    """Return the measures of one stream; the cost is the fraction of wrong alerts and misses at probability 1/2."""
    positive = truth == 1
    hits, false_alarms = int((judged.alerts & positive).sum()), int((judged.alerts & ~positive).sum())
    misses = int(positive.sum()) - hits
    recall = hits / max(int(positive.sum()), 1)
    specificity = 1.0 - false_alarms / max(int((~positive).sum()), 1)
    bins = reliability(judged.probabilities, positive.astype(np.float64), np.ones(len(truth)))
    return {
        "f1": 2.0 * hits / max(2 * hits + false_alarms + misses, 1),
        "gmean": float(np.sqrt(recall * specificity)),
        "auprc": float(average_precision_score(positive, judged.ranks)) if positive.any() else float("nan"),
        "ece": calibration_error(bins),
        "cost": float(((judged.probabilities > 0.5) != positive).mean()),
    }


def in_hindsight(ranks: FloatArray, truth: IntArray) -> dict[str, float]:
    """Return F1 and G-mean, each at its best threshold chosen with the labels.

    >>> in_hindsight(np.array([0.1, 0.4, 0.3, 0.9]), np.array([0, 1, 0, 1]))
    {'f1': 1.0, 'gmean': 1.0}
    """
    order = np.argsort(-ranks, kind="stable")
    sorted_ranks, sorted_truth = ranks[order], truth[order]
    last = np.append(sorted_ranks[1:] != sorted_ranks[:-1], True)  # a threshold cannot part equal ranks
    hits = np.cumsum(sorted_truth)[last]
    alerts = (np.arange(len(truth)) + 1)[last]
    positives, negatives = int(truth.sum()), int((truth == 0).sum())
    if not positives or not negatives:
        return {"f1": 0.0, "gmean": 0.0}
    specificity = 1.0 - (alerts - hits) / negatives
    return {
        "f1": float((2.0 * hits / (alerts + positives)).max()),
        "gmean": float(np.sqrt(hits / positives * specificity).max()),
    }


def best_f1(ranks: FloatArray, truth: IntArray) -> float:
    """Return the F1 of the best threshold chosen in hindsight."""
    return in_hindsight(ranks, truth)["f1"]


def score_in_hindsight(ranks: FloatArray, split: SplitSet, settings: dict[str, Any]) -> dict[str, float]:
    """Return what the best threshold for each stream, chosen with its labels, gives: the same measures as `score`."""
    found: dict[str, list[float]] = {}
    for arrivals in _streams(split, settings):
        best = in_hindsight(ranks[arrivals.rows], split.test_labels[arrivals.rows])
        for measure, value in best.items():
            found.setdefault(f"{measure}.{arrivals.factor}", []).append(value)
    means = {key: float(np.mean(values)) for key, values in found.items()}
    for arrivals in thinned(split, factors=settings["factors"]):
        best = in_hindsight(ranks[arrivals.rows], split.test_labels[arrivals.rows])
        means[f"thinned.{arrivals.factor}"] = best["f1"]
    return means


def score(decider: Decider, split: SplitSet, settings: dict[str, Any]) -> dict[str, float]:
    """Return the mean of each measure over draws, at each factor, and the F1 on thinned rows."""
    found: dict[str, list[dict[str, float]]] = {}
    for arrivals in _streams(split, settings):
        found.setdefault(f"{arrivals.factor}", []).append(outcome(decider(arrivals), split.test_labels[arrivals.rows]))
    means = {
        f"{measure}.{factor}": float(np.nanmean([draw[measure] for draw in draws]))
        for factor, draws in found.items()
        for measure in MEASURES
    }
    for arrivals in thinned(split, factors=settings["factors"]):
        means[f"thinned.{arrivals.factor}"] = outcome(decider(arrivals), split.test_labels[arrivals.rows])["f1"]
    return means


def _streams(split: SplitSet, settings: dict[str, Any]) -> Iterator[Arrivals]:
    return streams(split, factors=settings["factors"], n_draws=settings["draws"], n_rows=settings["n_rows"])
