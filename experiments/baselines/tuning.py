"""Pick the setting with the best F1 on a validation split, and fit it again on all training rows."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score

from experiments.baselines.network import Prepared
from experiments.baselines.trained import Build
from obil.arrays import FloatArray

REFUSALS = (ValueError, RuntimeError)  # what a sampler raises where a set has too few rows for it


class Tuned(NamedTuple):
    """The winner, and what validation rows can say about it."""

    setting: str
    validated: Any  # fitted on the fitting part alone
    model: Any  # fitted on all training rows


def tuned(builds: Mapping[str, Build], data: Prepared, *, seed: int, unfilled: bool = False) -> Tuned:
    """Try the settings in order; those that a sampler refuses are passed over."""
    rows = data.unfilled if unfilled else data.rows
    imbalance = float((data.labels == 0).sum() / (data.labels == 1).sum())
    tried: list[tuple[float, str, Any]] = []
    for setting, build in builds.items():
        model = _fitted(build(seed, imbalance), rows[data.fit], data.labels[data.fit])
        if model is not None:
            found = f1_score(data.labels[data.validation], decisions(model, rows[data.validation]), zero_division=0.0)
            tried.append((float(found), setting, model))
    for _, setting, validated in sorted(tried, key=lambda one: -one[0]):  # the sort is stable: ties go to the first
        model = _fitted(builds[setting](seed, imbalance), rows, data.labels)
        if model is not None:
            return Tuned(setting, validated, model)
    raise RuntimeError(f"every one of {list(builds)} was refused")


def decisions(model: Any, rows: FloatArray) -> FloatArray:
    """Return what a model decides: by its own tuned threshold, or at probability 1/2."""
    if hasattr(model, "best_threshold_"):
        return np.asarray(model.predict(rows))
    return np.asarray(model.predict_proba(rows)[:, 1] > 0.5)


def _fitted(model: Any, rows: FloatArray, labels: Any) -> Any | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks stop after a number of epochs, as they are told to
        try:
            return model.fit(rows, labels)
        except REFUSALS:
            return None
