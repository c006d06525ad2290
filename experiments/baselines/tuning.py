"""Pick the setting with the best F1 on a validation split, and fit it again on all training rows.

Where F1 ties, as it does at 0 where positives are few, the better ranking (average precision) wins.
"""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, f1_score

from experiments.baselines.network import Prepared
from experiments.baselines.trained import Build
from obil.arrays import FloatArray

REFUSALS = (ValueError, RuntimeError)  # what a sampler raises where a set has too few rows for it


class Tuned(NamedTuple):
    """The winner."""

    setting: str
    model: Any  # fitted on all training rows


def tuned(builds: Mapping[str, Build], data: Prepared, *, seed: int, unfilled: bool = False) -> Tuned:
    """Try the settings in order; those that a sampler refuses are passed over."""
    rows = data.unfilled if unfilled else data.rows
    imbalance = float((data.labels == 0).sum() / (data.labels == 1).sum())
    fit, validation = rows[data.fit], rows[data.validation]
    tried: list[tuple[float, float, str]] = []
    for setting, build in builds.items():
        model = fitted_or_none(build(seed, imbalance), fit, data.labels[data.fit])
        if model is None:
            continue
        labels = data.labels[data.validation]
        f1 = f1_score(labels, decisions(model, validation), zero_division=0.0)
        ranking = average_precision_score(labels, model.predict_proba(validation)[:, 1])
        tried.append((-float(f1), -float(ranking), setting))
    for _, _, setting in sorted(tried, key=lambda one: one[:2]):  # the sort is stable: ties go to the first
        model = fitted_or_none(builds[setting](seed, imbalance), rows, data.labels)
        if model is not None:
            return Tuned(setting, model)
    raise RuntimeError(f"every one of {list(builds)} was refused")


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
