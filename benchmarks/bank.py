"""Time the bank against plain EM over the same rows, and weigh its state."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers import Algorithm2, BayesBank, GridFilter
from obil.trackers.evidence import BinaryEvidence


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return the fastest of a few runs of each, as times and as ratios."""
    path = np.full(settings["n_rows"], settings["prior"])
    rows = GaussianClasses.pair(settings["separation"]).draw(path, random_state=0).log_ratios
    repeats = settings["repeats"]
    BinaryEvidence.of(rows[:1])  # compiles
    bank = _seconds(lambda: BayesBank(0.05).update_many(rows), repeats)
    em = _seconds(lambda: _numpy_em(rows[:, 1], settings["em_iterations"]), repeats)
    per_row = 1e6 / len(rows)

    def grid() -> object:
        return GridFilter(0.05, reset_rates=()).update_many(rows)

    used = BayesBank(0.05)
    used.update_many(rows)
    return {
        "bank_over_numpy_em": bank / em,
        "bank_microseconds_a_row": bank * per_row,
        "algorithm2_microseconds_a_row": _seconds(lambda: Algorithm2(0.05).update_many(rows), repeats) * per_row,
        "grid_microseconds_a_row": _seconds(grid, repeats) * per_row,
        "evidence_microseconds_a_row": _seconds(lambda: BinaryEvidence.of(rows), repeats) * per_row,
        "bank_state_bytes": len(json.dumps(used.state())),
    }


def _numpy_em(log_ratios: FloatArray, iterations: int) -> float:
    """Estimate P1 by EM in numpy, as one would write it: the yardstick."""
    ratios = np.exp(log_ratios)
    positive = 0.05
    for _ in range(iterations):
        weighted = positive * ratios
        positive = float((weighted / (weighted + (1.0 - positive))).mean())
    return positive


def _seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
