"""Deploy a model on a real stream in time order, or on a copy of it whose rows are shuffled."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import OrdinalEncoder

from obil.arrays import FloatArray, IntArray
from obil.datasets.named_set import NamedSet, load_named
from obil.estimators.ratio_classifier import RatioClassifier

DATES = ("year", "month", "day")  # left out: a date never returns


class Deployed(NamedTuple):
    """A fitted model and the stream it is deployed on."""

    classifier: RatioClassifier
    log_ratios: FloatArray  # (n, 2)
    evidence: FloatArray  # (n, 1 + V, 2)
    rows: FloatArray  # (n, d)
    labels: IntArray  # (n,)
    training_rows: FloatArray
    training_labels: IntArray


@lru_cache(maxsize=1)
def deployed(name: str, most_rows: int, *, shuffled: bool = False, seed: int = 0, without: str = "") -> Deployed:
    """Fit on the first part of a set and score the rest, all but the column `without`.

    With `shuffled`, all rows are put in random order first.
    """
    data = stream_data(name)
    left_out = [column for column in (*DATES, without) if column in data.features]
    n_rows = min(len(data.labels), most_rows)
    n_train = int(n_rows * (data.train_size or 0.5))
    order = np.random.default_rng(seed).permutation(len(data.labels))[:n_rows] if shuffled else np.arange(n_rows)
    features, labels = data.features.iloc[order].drop(columns=left_out), data.labels[order].astype(np.int64)
    text = [column for column in data.categorical if column != without]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    encoder.fit(features[text].iloc[:n_train].astype(str))
    codes = encoder.transform(features[text].astype(str))
    rows = np.column_stack([features.drop(columns=text).to_numpy(dtype=np.float64), codes])
    classifier = RatioClassifier(random_state=0)
    classifier.fit(rows[:n_train], labels[:n_train], time=None if shuffled else np.arange(n_train))
    model = classifier.model_
    log_ratios, evidence, n_scored = [], [], 0
    for part in np.array_split(rows[n_train:], max(1, n_rows // 200_000)):
        scores = model.score(part)
        log_ratios.append(scores.log_ratios)
        evidence.append(scores.evidence_from(n_scored))
        n_scored += len(part)
    return Deployed(
        classifier=classifier,
        log_ratios=np.concatenate(log_ratios),
        evidence=np.concatenate(evidence),
        rows=rows[n_train:],
        labels=labels[n_train:],
        training_rows=rows[:n_train],
        training_labels=labels[:n_train],
    )


@lru_cache(maxsize=2)
def stream_data(name: str) -> NamedSet:
    """Return a named set, read once."""
    return load_named(name)


def with_jump(labels: IntArray, *, quiet_rows: int, prior: float, seed: int) -> IntArray:
    """Return the rows of a stream whose prior jumps after the quiet rows, (n,): four times the odds, or a quarter.

    Rows are left out, not repeated: of the class that becomes rarer.
    """
    rng = np.random.default_rng(seed)
    odds = prior / (1.0 - prior)
    target = odds * (4.0 if prior < 0.5 else 0.25)
    positive = labels[quiet_rows:] == 1
    own = positive.mean() / (1.0 - positive.mean())
    kept_positive, kept_negative = min(1.0, target / own), min(1.0, own / target)
    kept = rng.random(positive.size) < np.where(positive, kept_positive, kept_negative)
    return np.concatenate([np.arange(quiet_rows), quiet_rows + np.flatnonzero(kept)])
