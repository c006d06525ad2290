"""Time: of training and inference against their sizes, of adaptation against the age of the stream."""

import time
from collections.abc import Callable

import numpy as np

from experiments.growth import exponent
from experiments.theory_rows.row import (
    CORRECTED,
    FAILS,
    HOLDS,
    Figures,
    Measured,
    Row,
    Settings,
    judged,
    named,
)
from obil.trackers import Algorithm2, BayesBank


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of a few: the one that others disturbed least."""
    work()  # the first call compiles, allocates and fills caches
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def measure_complexity(settings: Settings) -> Measured:
    """Fit the powers of time in each size, the others held fixed."""
    from experiments.theory_rows import small_networks  # torch is an extra: the page needs none

    repeats = settings["timing_repeats"]
    rows, widths, members = settings["timing_rows"], settings["timing_widths"], settings["timing_members"]
    inputs = settings["timing_inputs"]

    def training(n_rows: int, width: int, n_members: int) -> float:
        return seconds(small_networks.training_work(n_rows=n_rows, width=width, n_members=n_members), repeats)

    def inference(n_inputs: int, width: int, n_members: int) -> float:
        return seconds(small_networks.inference_work(n_inputs=n_inputs, width=width, n_members=n_members), repeats)

    figures = {
        "training.rows": exponent(rows, [training(n, 64, 1) for n in rows]),
        "training.width": exponent(widths, [training(1_024, width, 1) for width in widths]),
        "training.members": exponent(members, [training(2_048, 32, m) for m in members]),
        "inference.width": exponent(widths, [inference(16, width, 1) for width in widths]),
        "inference.members": exponent(members, [inference(16, 128, m) for m in members]),
        "inference.inputs": exponent(inputs, [inference(d, 16, 1) for d in inputs]),
    }
    block, blocks = settings["timing_block"], 10
    log_ratios = np.random.default_rng(1).normal(size=(block * blocks, 2)) * np.array([0.0, 2.0])
    for name, tracker in (("algorithm2", Algorithm2(0.1)), ("bank", BayesBank(0.1))):
        parts = []
        for rows in np.split(log_ratios, blocks):
            started = time.perf_counter()
            tracker.update_many(rows)
            parts.append(time.perf_counter() - started)
        figures[f"{name}.late_over_early"] = float(np.median(parts[-4:]) / np.median(parts[:4]))
        figures[f"{name}.nanoseconds"] = 1e9 * float(np.median(parts)) / block
    return Measured(figures, {})


def _complexity_verdict(figures: Figures) -> str:
    powers = {"training.rows": 1.0, "training.width": 2.0, "training.members": 1.0,
              "inference.width": 2.0, "inference.members": 1.0}  # fmt: skip
    within = all(figures[key] < power + 0.4 for key, power in powers.items())
    constant = all(0.4 < figures[f"{name}.late_over_early"] < 2.5 for name in ("algorithm2", "bank"))
    if not (within and constant):
        return judged(FAILS, "a time grows faster than claimed")
    if figures["inference.inputs"] > 0.3:
        return judged(
            CORRECTED,
            "within the claimed powers; the first layer's d H is missing and rules where inputs outnumber units",
        )
    return judged(HOLDS, "no time grows faster than claimed")


ROWS = (
    Row(
        name="complexity",
        covers=("prop:complexity",),
        claim="Training takes O(K N H^2), inference O(K H^2) a row, adaptation O(1) a row",
        measure=measure_complexity,
        measured=lambda f, s: (
            f"fitted powers of time. Training: rows {f['training.rows']:.2f}, width {f['training.width']:.2f} "
            f"({named(s['timing_widths'])} units), members {f['training.members']:.2f}. Inference: width "
            f"{f['inference.width']:.2f}, members {f['inference.members']:.2f}, inputs {f['inference.inputs']:.2f} "
            f"(up to {s['timing_inputs'][-1]:,}, 16 units). Adaptation, last over first rows of a stream: Algorithm "
            f"2 {f['algorithm2.late_over_early']:.2f}, bank {f['bank.late_over_early']:.2f}. One core; times differ "
            "from run to run"
        ),
        verdict=_complexity_verdict,
    ),
)
