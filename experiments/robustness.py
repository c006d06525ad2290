"""Break the assumptions on purpose: features that blur, ratios that lie, a prior that races.

The paper says that its method loses little up to some noise and fails beyond, that it falls below BBSE and SMOTE at
given calibration errors, and that a short window is better where the prior moves fast. `experiments.stress` has one
file for each; the tables and pictures are made in `experiments.robustness_page`.
"""

import importlib
from typing import Any

import numpy as np

from experiments import robustness_page
from experiments.choices.losses import loaded
from experiments.runner import Cell, Settings
from experiments.stress.contest import OURS, RIVALS
from obil.errors import InvalidInputError

pictures, table = robustness_page.pictures, robustness_page.table
FAMILIES = ("too high", "too low", "too unsure", "too sure")


def missing(settings: Settings) -> str | None:
    """Return why this experiment cannot run here, or None."""
    for name in settings["sets"]:
        try:
            loaded(name)
        except InvalidInputError as error:
            return str(error)
    return None


def cells(settings: Settings) -> list[Cell]:
    """List the work: noise and miscalibration on one split of one set, drift by seed."""
    work: list[Cell] = [
        {"part": part, "set": name, "split": split}
        for name in settings["sets"]
        for split in range(settings["splits"])
        for part in ("noise", "miscalibration")
    ]
    return work + [{"part": "drift", "seed": seed} for seed in range(settings["drift_seeds"])]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    found: dict[str, Any] = importlib.import_module(f"experiments.stress.{cell['part']}").run(cell, settings)
    return found


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the means over splits, sets and seeds, and where the paper's method crosses its rivals."""
    found: dict[str, float] = {}

    def add(place: str, own: list[dict[str, Any]]) -> None:
        for step in own[0]:
            for measure in own[0][step]:
                found[f"{place}/{step}/{measure}"] = float(np.mean([result[step][measure] for result in own]))

    def of(part: str, **wanted: Any) -> list[dict[str, Any]]:
        return [result for cell, result in results if cell["part"] == part and wanted.items() <= cell.items()]

    for name in settings["sets"]:
        add(f"noise/{name}", of("noise", set=name))
    add("miscalibration", of("miscalibration"))
    add("drift", of("drift"))
    for family in FAMILIES:
        curves = curves_of(found, family)
        for rival in RIVALS:
            for method in OURS:
                lead = np.array(curves[method]) - np.array(curves[rival])
                crossing = first_crossing(curves["ece"], lead + settings["margin"])
                if crossing is not None:
                    found[f"crossing/{family}/{method}/{rival}"] = crossing
    return found


def curves_of(figures: dict[str, float], family: str) -> dict[str, list[float]]:
    """Return every measure of a family of faults as a curve over its steps."""
    curves: dict[str, list[float]] = {}
    for key, value in figures.items():
        if key.startswith(f"miscalibration/{family}/"):
            curves.setdefault(key.rpartition("/")[2], []).append(value)
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
    share = difference[at - 1] / (difference[at - 1] - difference[at])
    return float(round(x[at - 1] + share * (x[at] - x[at - 1]), 9))
