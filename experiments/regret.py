"""Add up what not knowing the prior costs: along a drift as in the paper, and up to a million rows.

Regret is the expected cost in closed form at the threshold used, minus that of the oracle that knows the prior and
the exact ratio. The false alarm carries Qc, not the miss as the paper prints it; at Qc = 1, here, the two agree.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments import regret_page, trackers
from experiments.contenders import CONTENDERS
from experiments.fitted_ratio import fitted_ratio
from experiments.gaussian_pair import GaussianPair, binary_log_thresholds
from experiments.growth import growth_measures
from experiments.online_methods import ORACLE, priors_used
from experiments.regret_page import BANK_FITTED, EDGES, GROWTH_METHODS, LA_EXACT, LA_FITTED, LOOK, METHODS, PATHS
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.datasets import prior_paths
from obil.datasets.gaussian_stream import GaussianClasses, Stream

plots, table = regret_page.plots, regret_page.table
WALK_SEED = 5  # walk 0 is the drift of experiments/scenarios
TRAINING_SEED = 2_000_003
FITTED = {LA_FITTED: ORACLE, BANK_FITTED: "bank"}  # the prior they decide with
POINT_EVERY = 10


def cells(settings: Settings) -> list[Cell]:
    """List the work: every method along the drift, and the growth of some by path and seed."""
    work: list[Cell] = [{"measure": "curve", "method": method} for method in METHODS]
    work += [
        {"measure": "growth", "path": path, "method": method, "seed": seed}
        for path in PATHS
        for method in GROWTH_METHODS
        for seed in range(settings["regret_seeds"])
    ]
    return work


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    if cell["measure"] == "curve":
        return _curve(cell["method"], settings)
    if cell["path"] == "constant" and cell["method"] in CONTENDERS:
        return trackers.run({"measure": "regret", "tracker": cell["method"], "seed": cell["seed"]}, settings)
    return _growth(cell, settings)


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the regrets, how much of them came in the second half, and the exponents of their growth."""
    found: dict[str, float] = {}
    growth: dict[str, list[list[float]]] = {}
    for cell, result in results:
        if cell["measure"] == "growth":
            growth.setdefault(f"{cell['path']}.{cell['method']}", []).append(result["regret"])
            continue
        middle, end = result["half"], result["whole"]
        found |= {f"{name}.{cell['method']}": result[name] for name in ("half", "whole", "whole_low", "whole_high")}
        if end > 0.0:
            found[f"second_over_first.{cell['method']}"] = (end - middle) / middle
    horizons = np.asarray(settings["regret_horizons"])
    for name, regrets in growth.items():
        means = np.mean(regrets, axis=0)
        found |= {f"growth.{name}.{horizon}": float(mean) for horizon, mean in zip(horizons, means, strict=True)}
        found |= {f"{measure}.{name}": value for measure, value in growth_measures(horizons, means).items()}
    return found


def series(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, list[float]]:
    """Name the curves of the plot: every tenth row, low, middle and high over the runs."""
    rows = _points(settings)
    found = {"row": rows.tolist()}
    for cell, result in results:
        if cell["measure"] == "curve" and cell["method"] in LOOK:
            for kind in ("cumulative", "each"):
                for edge, values in zip(EDGES, result[kind], strict=True):
                    found[f"{kind}.{cell['method']}.{edge}"] = values
    return found


def _curve(method: str, settings: Settings) -> dict[str, Any]:
    n_rows, window = settings["n_rows"], settings["smoothing_rows"]
    low, high = settings["band"]
    totals = np.cumsum(_regrets(method, range(settings["measured_runs"]), settings), axis=1)
    ends = np.quantile(totals[:, -1], [low, high])
    drawn = np.cumsum(_regrets(method, [0] * settings["runs"], settings), axis=1)
    lagged = np.pad(drawn, ((0, 0), (window, 0)))[:, :n_rows]
    # the rows before the first full window are averaged as far as they go
    smooth = (drawn - lagged) / np.minimum(np.arange(n_rows) + 1, window)
    points = _points(settings) - 1
    return {
        "half": float(totals[:, n_rows // 2 - 1].mean()),
        "whole": float(totals[:, -1].mean()),
        "whole_low": float(ends[0]),
        "whole_high": float(ends[1]),
        "cumulative": np.quantile(drawn[:, points], [low, 0.5, high], axis=0).tolist(),
        "each": np.quantile(smooth[:, points], [low, 0.5, high], axis=0).tolist(),
    }


def _regrets(method: str, walks: Sequence[int], settings: Settings) -> FloatArray:
    """Return the regret of every row, (runs, rows), for one run along each of the walks."""
    pair = GaussianPair(settings["regret_separation"])
    each = np.empty((len(walks), settings["n_rows"]))
    for seed, walk in enumerate(walks):
        truth = _walk(settings["n_rows"], walk, settings)
        thresholds = _exact_thresholds(method, truth, seed, settings)
        each[seed] = pair.expected_cost(thresholds, truth) - pair.oracle_cost(truth)
    return each


def _exact_thresholds(method: str, truth: FloatArray, seed: int, settings: Settings) -> FloatArray:
    """Return the exact log ratio above which a method decides 1, row by row."""
    separation = settings["regret_separation"]
    classes = GaussianClasses.pair(separation)
    stream = classes.draw(truth, random_state=seed)
    if method not in FITTED:
        return binary_log_thresholds(_used(ORACLE if method == LA_EXACT else method, stream, classes, seed, settings))
    training = np.full(settings["training_rows"], settings["walk"]["start"])
    ratio = fitted_ratio(separation, training, seed=TRAINING_SEED + seed)
    seen = stream._replace(log_ratios=ratio.of(stream.log_ratios))
    return ratio.true_thresholds(binary_log_thresholds(_used(FITTED[method], seen, classes, seed, settings)))


def _growth(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure the final regret of every horizon afresh: the theorem's rate knows the horizon."""
    separation, horizons = settings["regret_separation"], settings["regret_horizons"]
    truth, start = prior_paths.constant(horizons[-1], settings["regret_prior"]), settings["start_prior"]
    if cell["path"] == "drift":
        truth, start = _walk(horizons[-1], cell["seed"], settings), settings["walk"]["start"]
    classes, pair = GaussianClasses.pair(separation), GaussianPair(separation)
    stream = classes.draw(truth, random_state=cell["seed"])
    regrets = []
    for horizon in horizons:
        head = Stream._make(part[:horizon] for part in stream)
        used = priors_used(
            cell["method"], head, classes, start=start, holdout_rows=settings["holdout_rows"], seed=cell["seed"]
        )
        regrets.append(float(pair.regret(used, truth[:horizon])[-1]))
    return {"regret": regrets}


def _used(method: str, stream: Stream, classes: GaussianClasses, seed: int, settings: Settings) -> FloatArray:
    start, holdout_rows = settings["walk"]["start"], settings["holdout_rows"]
    return priors_used(method, stream, classes, start=start, holdout_rows=holdout_rows, seed=seed)


def _walk(n_rows: int, seed: int, settings: Settings) -> FloatArray:
    return prior_paths.bounded_walk(n_rows, random_state=WALK_SEED + seed, **settings["walk"])


def _points(settings: Settings) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that are drawn, from 1; the last row is one of them."""
    return np.arange(POINT_EVERY, settings["n_rows"] + 1, POINT_EVERY)
