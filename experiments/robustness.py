"""Break the assumptions on purpose: features that blur, ratios that lie, a prior that races.

The paper says that its method loses little up to some noise and fails beyond, that it falls below BBSE and SMOTE at
given calibration errors, and that a short window is better where the prior moves fast. Noise and calibration errors are
for gradient boosting, and for the paper's own ensemble on fewer sets and splits. `experiments.stress` has one file for
each; the tables are written in `experiments.robustness_page`, and drawn in `experiments.robustness_plots`.
"""

import importlib
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from experiments import robustness_page, robustness_plots
from experiments.choices.losses import loaded
from experiments.one_thread import one_thread
from experiments.paper_claims import LEAD_OVER_BBSE, NOISE_LOSS
from experiments.robustness_page import of_paper, part_of
from experiments.runner import Cell, Settings
from experiments.spread import standard_deviation
from experiments.stress.contest import BOOSTING, METHODS, OURS, PAPER, RIVALS
from experiments.stress.drift import TRACKERS
from experiments.stress.miscalibration import FAMILIES
from obil.errors import InvalidInputError

plots, table = robustness_plots.plots, robustness_page.table


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    if find_spec("torch") is None:
        return "networks are trained with torch: pip install 'obil[torch]'"
    for name in {*settings["sets"], *settings["paper_sets"]}:
        try:
            loaded(name)
        except InvalidInputError as error:
            return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: noise and miscalibration of a model on one split of one set, drift by seed."""
    work: list[Cell] = [
        {"part": part, "set": name, "split": split, "model": model}
        for model, own in ((PAPER, of_paper(settings)), (BOOSTING, settings))
        for name in own["sets"]
        for split in range(own["splits"])
        for part in ("noise", "miscalibration")
    ]
    return work + [{"part": "drift", "seed": seed} for seed in range(settings["drift_seeds"])]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    with one_thread():
        found: dict[str, Any] = importlib.import_module(f"experiments.stress.{cell['part']}").run(cell, settings)
    return found


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits, sets and seeds, after `sd` their spread, and what the paper's claims come to.

    Those of the paper's ensemble begin with `paper`.
    """
    found: dict[str, float] = {}

    def add(place: str, runs: dict[Any, list[dict[str, Any]]]) -> None:
        """Name what was measured in each run, a mean over its sets where it has several."""
        first = next(iter(runs.values()))[0]
        for step, measure in [(step, measure) for step, measures in first.items() for measure in measures]:
            values = [np.mean([result[step][measure] for result in own]) for own in runs.values()]
            found[f"{place}/{step}/{measure}"] = float(np.mean(values))
            if measure.rpartition("/")[2] in (*METHODS, *TRACKERS):
                found[f"sd {place}/{step}/{measure}"] = standard_deviation(values)

    def of(part: str, run: str, **wanted: Any) -> dict[Any, list[dict[str, Any]]]:
        runs: dict[Any, list[dict[str, Any]]] = {}
        for cell, result in results:
            if cell["part"] == part and wanted.items() <= cell.items():
                runs.setdefault(cell[run], []).append(result)
        return runs

    for model, place, own in ((BOOSTING, "", settings), (PAPER, f"{PAPER}/", of_paper(settings))):
        for name in own["sets"]:
            add(f"{place}noise/{name}", of("noise", "split", set=name, model=model))
        add(f"{place}miscalibration", of("miscalibration", "split", model=model))
    add("drift", of("drift", "seed"))
    claims = {f"{PAPER}/{name}": value for name, value in _claims(part_of(found), of_paper(settings)).items()}
    return found | _claims(found, settings) | claims


def _claims(figures: dict[str, float], settings: Settings) -> dict[str, float]:
    return _losses(figures, settings) | _leads(figures, settings)


def _losses(figures: dict[str, float], settings: Settings) -> dict[str, float]:
    """Return the largest fraction of F1 that noise up to the paper's moderate one costs."""
    found: dict[str, float] = {}
    levels = [f"{level:g}" for level in settings["noise"] if 0.0 < level <= NOISE_LOSS[0]]
    for name, factor, method in product(settings["sets"], settings["factors"], METHODS):
        before = figures[f"noise/{name}/0/{factor:g}/{method}"]
        after = [figures[f"noise/{name}/{level}/{factor:g}/{method}"] for level in levels]
        if after and before > 0.0:
            found[f"loss/{name}/{factor:g}/{method}"] = 1.0 - min(after) / before
    return found


def _leads(figures: dict[str, float], settings: Settings) -> dict[str, float]:
    """Return the least lead over BBSE at small calibration errors, and where each method crosses its rivals."""
    found: dict[str, float] = {}
    for family, factor, method in product(FAMILIES, (f"{factor:g}" for factor in settings["factors"]), OURS):
        curves = curves_of(figures, family)
        small = np.array(curves["ece"]) < LEAD_OVER_BBSE[0]
        if small.any():
            lead = np.array(curves[f"{factor}/{method}"]) / np.array(curves[f"{factor}/BBSE"]) - 1.0
            found[f"lead/{family}/{factor}/{method}"] = float(lead[small].min())
        for rival in RIVALS:
            lead = np.array(curves[f"{factor}/{method}"]) - np.array(curves[f"{factor}/{rival}"])
            crossing = first_crossing(curves["ece"], lead + settings["margin"])
            if crossing is not None:
                found[f"crossing/{family}/{factor}/{method}/{rival}"] = crossing
    return found


def curves_of(figures: dict[str, float], family: str) -> dict[str, list[float]]:
    """Return every measure of a family of faults as a curve over its steps."""
    curves: dict[str, list[float]] = {}
    for key, value in figures.items():
        if key.startswith(f"miscalibration/{family}/"):
            curves.setdefault(key.split("/", 3)[3], []).append(value)
    return curves


def first_crossing(x: list[float], difference: Any) -> float | None:
    """Return where a curve first falls below 0, on a straight line between points: 0 where it starts there.

    >>> first_crossing([0.0, 0.1, 0.2], np.array([1.0, 1.0, -1.0]))
    0.15
    """
    below = np.flatnonzero(np.asarray(difference) < 0.0)
    if not below.size:
        return None
    at = int(below[0])
    if at == 0:
        return 0.0
    fraction = difference[at - 1] / (difference[at - 1] - difference[at])
    return float(round(x[at - 1] + fraction * (x[at] - x[at - 1]), 9))
