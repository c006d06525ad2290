"""Pick the setting with the best F1 on a validation split, and fit it again on all training rows.

Once at the method's own threshold, and once with the threshold that is best for F1 on the validation part. Where F1
ties, as it does at 0 where positives are few, the better ranking (average precision) wins.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, f1_score

from experiments.baselines.network import Prepared
from experiments.baselines.thresholds import best_threshold
from experiments.baselines.trained import Build
from obil.arrays import FloatArray

REFUSALS = (ValueError, RuntimeError)  # what a sampler raises where a set has too few rows for it


class Tuned(NamedTuple):
    """The winner."""

    setting: str
    model: Any  # fitted on all training rows
    threshold: float | None = None  # of the probability, tuned for F1; None: the model's own, or 1/2


class _Trial(NamedTuple):
    """What a setting reached on the validation part."""

    setting: str
    own: float  # F1 at the model's own threshold, or at 1/2
    best: float  # F1 at the threshold that is best there
    threshold: float
    ranking: float  # average precision


def tuned(builds: Mapping[str, Build], data: Prepared, *, seed: int, unfilled: bool = False) -> Tuned:
    """Try the settings in order and return the best at its own threshold; what a sampler refuses is passed over."""
    search = _Search(builds, data, seed, unfilled)
    return search.winner(lambda trial: trial.own)


def tuned_twice(
    builds: Mapping[str, Build], data: Prepared, *, seed: int, unfilled: bool = False
) -> tuple[Tuned, Tuned]:
    """Return what `tuned` does, and the best with a threshold tuned for F1; the validation fits are shared."""
    search = _Search(builds, data, seed, unfilled)
    own = search.winner(lambda trial: trial.own)
    best = search.winner(lambda trial: trial.best)
    threshold = next(trial.threshold for trial in search.trials if trial.setting == best.setting)
    return own, best._replace(threshold=threshold)


class _Search:
    """Every setting tried on the validation part; winners are fitted on all rows, each once."""

    def __init__(self, builds: Mapping[str, Build], data: Prepared, seed: int, unfilled: bool) -> None:
        self._rows = data.unfilled if unfilled else data.rows
        self._labels, self._seed, self._builds = data.labels, seed, builds
        self._imbalance = float((data.labels == 0).sum() / (data.labels == 1).sum())
        self._fitted: dict[str, Any | None] = {}
        tried = (self._try(setting, data) for setting in builds)
        self.trials = [trial for trial in tried if trial is not None]

    def winner(self, f1: Callable[[_Trial], float]) -> Tuned:
        """Return the best setting, fitted on all training rows."""
        for trial in sorted(self.trials, key=lambda one: (-f1(one), -one.ranking)):  # stable: ties go to the first
            setting = trial.setting
            if setting not in self._fitted:
                self._fitted[setting] = fitted_or_none(self._build(setting), self._rows, self._labels)
            if self._fitted[setting] is not None:
                return Tuned(setting, self._fitted[setting])
        raise RuntimeError(f"every one of {list(self._builds)} was refused")

    def _build(self, setting: str) -> Any:
        return self._builds[setting](self._seed, self._imbalance)

    def _try(self, setting: str, data: Prepared) -> _Trial | None:
        model = fitted_or_none(self._build(setting), self._rows[data.fit], self._labels[data.fit])
        if model is None:
            return None
        rows, labels = self._rows[data.validation], self._labels[data.validation]
        probabilities = np.asarray(model.predict_proba(rows)[:, 1])
        threshold = best_threshold(probabilities, labels)
        return _Trial(
            setting, float(f1_score(labels, decisions(model, rows), zero_division=0.0)),
            float(f1_score(labels, probabilities > threshold, zero_division=0.0)), threshold,
            float(average_precision_score(labels, probabilities)),
        )  # fmt: skip


def decisions(model: Any, rows: FloatArray) -> FloatArray:
    """Return what a model decides: by its own tuned threshold, or at probability 1/2."""
    if hasattr(model, "best_threshold_"):
        return np.asarray(model.predict(rows))
    return np.asarray(model.predict_proba(rows)[:, 1] > 0.5)


def fitted_or_none(model: Any, rows: FloatArray, labels: Any) -> Any | None:
    """Return the model fitted, or None where a sampler refuses the rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks stop after a number of epochs, as they are told to
        try:
            return model.fit(rows, labels)
        except REFUSALS:
            return None
