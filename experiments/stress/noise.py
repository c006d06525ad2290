"""Add noise to the features of a stream whose prior has changed as well, and ask who notices."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from experiments.stress.contest import Fitted, f1, fitted, means_at, scored, scores_of_methods, streams_of
from obil.arrays import FloatArray, IntArray
from obil.datasets.shift_protocol import thinned_rows
from obil.monitor import LabelShiftMonitor
from obil.serving.holdout import Holdout

NOISE_SEED = 6_000_101


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return, for each amount of noise, by factor, the mean F1 of every method and the alarm rate."""
    part = fitted(cell["set"], cell["split"], settings["test_share"], cell["model"])
    gathered: dict[str, list[tuple[float, dict[str, float]]]] = _alarms_without_repeats(part, cell["split"], settings)
    for number, stream in enumerate(streams_of(part, settings, cell["split"])):
        labels = part.labels[stream.rows]
        for level, noisy in _noisy(part, stream.rows, [cell["split"], number], settings):
            arrivals = scored(part, noisy, labels, stream.prior)
            measures = scores_of_methods(part.model, arrivals)
            measures["SMOTE"] = f1(part.resampled.predict(noisy) == 1, labels)
            measures["alarm"] = _alarms(part, arrivals.evidence[:, 0])
            gathered[level].append((stream.factor, measures))
    return {level: means_at(measured) for level, measured in gathered.items()}


def _noisy(part: Fitted, rows: IntArray, seed: list[int], settings: dict[str, Any]) -> list[tuple[str, FloatArray]]:
    """Return the rows at each amount of noise: the same draw, scaled, each arrival with its own."""
    drawn = np.random.default_rng([NOISE_SEED, *seed]).standard_normal((len(rows), part.rows.shape[1])) * part.spread
    return [(f"{level:g}", part.rows[rows] + level * drawn) for level in settings["noise"]]


def _evidence(part: Fitted, rows: FloatArray) -> FloatArray:
    """Return what a monitor reads of a stream, (n, 2)."""
    return replace(part.model, view_members=()).score(rows).evidence_from(0)[:, 0]


def _alarms(part: Fitted, evidence: FloatArray, held_out: Holdout | None = None) -> float:
    """Return 1 if a monitor alarms: the one an `OnlineClassifier` has, or an exact one on other held-out rows."""
    monitor = LabelShiftMonitor.for_model(part.model) if held_out is None else LabelShiftMonitor(held_out)
    monitor.update_many(evidence)
    return float(not monitor.trusted)


def _alarms_without_repeats(
    part: Fitted, split: int, settings: dict[str, Any]
) -> dict[str, list[tuple[float, dict[str, float]]]]:
    """Return, for each amount of noise, which streams alarmed although no row comes twice, as the monitor assumes.

    Once with its usual held-out rows, each scored by the fold that left it out; once with half of the test part for
    held-out rows, which no fold has seen, scored like the stream, and the stream drawn from the other half.
    """
    ratio = float(part.model.prior_[0] / part.model.prior_[1])
    mixed = np.random.default_rng([NOISE_SEED, split]).permutation(len(part.labels))
    kept_back, rest = np.array_split(mixed, 2)
    own_scores = Holdout.of(_evidence(part, part.rows[kept_back]), part.labels[kept_back])
    gathered: dict[str, list[tuple[float, dict[str, float]]]] = {f"{level:g}": [] for level in settings["noise"]}
    for (number, factor), draw in product(enumerate(settings["factors"]), range(settings["draws"])):
        for measure, pool, held_out in (("alarm_once", mixed, None), ("alarm_own", rest, own_scores)):
            kept = thinned_rows(part.labels[pool], target_ratio=ratio * factor, random_state=draw)
            order = np.random.default_rng([split, number, draw]).permutation(pool[kept])
            for level, noisy in _noisy(part, order, [split, number, draw, 1], settings):
                gathered[level].append((factor, {measure: _alarms(part, _evidence(part, noisy), held_out)}))
    return gathered
