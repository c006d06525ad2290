"""Build every tracker at any number of classes, and streams to run them on."""

import json
from typing import Any

import numpy as np

from obil import trackers
from obil.arrays import FloatArray
from obil.trackers import BBSE, Algorithm2, BayesBank, FixedPrior, GridFilter, OnlineEM, SafeTracker, WindowEM
from obil.trackers.restore import NAMES as RESTORED
from obil.trackers.tracker import CompiledTracker

SIZES = (2, 3, 7)
TRACKERS: dict[str, type[CompiledTracker]] = {name: getattr(trackers, name) for name in RESTORED}


def confusion(n_classes: int) -> FloatArray:
    """Return predictions that are right with probability .7 and spread their errors evenly."""
    matrix = np.full((n_classes, n_classes), 0.3 / (n_classes - 1))
    np.fill_diagonal(matrix, 0.7)
    return matrix


def start_prior(n_classes: int) -> FloatArray:
    """Return a prior that is different for every class."""
    weights = 1.0 / np.arange(1.0, n_classes + 1.0)
    return np.asarray(weights / weights.sum())


def unstarted(name: str, n_classes: int = 2) -> CompiledTracker:
    """Return the tracker of a case, short windows and all, before it has a prior."""
    builders: dict[str, Any] = {
        "BayesBank": BayesBank,
        "BayesBank-small": lambda: BayesBank(memories=(10, None), n_snapshots=2, switching_rates=(0.01,)),
        "BayesBank-endless": lambda: BayesBank(memories=(None,), n_snapshots=0),
        "GridFilter": lambda: GridFilter(n_points=33, reset_rates=()),
        "GridFilter-resets": lambda: GridFilter(n_points=33, reset_rates=(1e-3, 1e-2)),
        "Algorithm2": lambda: Algorithm2(window=20),
        "Algorithm2-inverted": lambda: Algorithm2(window=20, confusion=confusion(n_classes)),
        "OnlineEM": lambda: OnlineEM(rate=0.05),
        "WindowEM": lambda: WindowEM(window=20),
        "BBSE": lambda: BBSE(confusion=confusion(n_classes), window=20),
        "BBSE-soft": lambda: BBSE(
            confusion=confusion(n_classes), training_prior=np.full(n_classes, 1 / n_classes), soft=True, window=20
        ),
        "FixedPrior": FixedPrior,
        "SafeTracker": SafeTracker,
        "SafeTracker-fast": lambda: SafeTracker(lead="fast"),
    }
    tracker: CompiledTracker = builders[name]()
    return tracker


NAMES = (
    "BayesBank", "BayesBank-small", "BayesBank-endless", "GridFilter", "GridFilter-resets", "Algorithm2",
    "Algorithm2-inverted", "OnlineEM", "WindowEM", "BBSE", "BBSE-soft", "FixedPrior", "SafeTracker", "SafeTracker-fast",
)  # fmt: skip
CASES = [(name, size) for name in NAMES for size in SIZES if size == 2 or not name.startswith("GridFilter")]


def started(name: str, n_classes: int) -> CompiledTracker:
    """Return the tracker of a case, started at `start_prior`."""
    return unstarted(name, n_classes).start(start_prior(n_classes))


def class_of(name: str) -> type[CompiledTracker]:
    """Return the class a case is a setting of."""
    return TRACKERS[name.split("-", maxsplit=1)[0]]


def stream(n_rows: int, n_classes: int, seed: int) -> FloatArray:
    """Return log ratios of rows that lean to one class and then to another, some of them very sure."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(scale=2.0, size=(n_rows, n_classes))
    rows[: n_rows // 2, 1] += 2.0
    rows[n_rows // 2 :, n_classes - 1] -= 3.0
    rows[rng.random(n_rows) < 0.05] *= 20.0
    rows[:, 0] = 0.0
    return rows


def with_views(rows: FloatArray, views: FloatArray) -> FloatArray:
    """Return the evidence of rows (n, K), or of one row (K,), and of their views (n, V, K), or (V, K)."""
    return np.concatenate([np.expand_dims(rows, -2), views], axis=-2)


def through_json(tracker: CompiledTracker) -> CompiledTracker:
    """Return the tracker that a text file of its state would give."""
    return type(tracker).from_state(json.loads(json.dumps(tracker.state(), allow_nan=False)))


def assert_in_simplex(priors: FloatArray) -> None:
    """Every row is a probability for each class, and they sum to 1 to rounding."""
    assert np.isfinite(priors).all()
    assert (priors >= 0.0).all()
    assert (priors <= 1.0).all()
    assert abs(np.asarray(priors).sum(axis=-1) - 1.0).max(initial=0.0) < 1e-9
