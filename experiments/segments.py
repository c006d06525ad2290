"""Hold segments that learn from each other against separate estimates and against one for all rows."""

from typing import Any

import numpy as np

from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.online.segments import estimate_segments
from obil.trackers.evidence import BinaryEvidence

TEXT = """{segments} segments whose priors are drawn from a Beta distribution, exact log ratios of two normals,
{repetitions} repetitions. Mean absolute error of each segment's prevalence, what its {level:.0%} interval covers, and
how wide that is against the interval from its own rows.
"""
MOVED_TEXT = """**Which segments moved.** {moved} of {segments} segments have a prior of {moved_prior:g}, all
others .05; 200 rows each, separation 2.5, {moved_repetitions} repetitions: {found:.1f} of the {moved} are named on
average, and {wrong:.1%} of the named have not moved (standard error {error:.1%}; 10 % are allowed).
"""


def cells(settings: Settings) -> list[Cell]:
    """List the work: one kind of segments at a time, and segments of which a few have moved."""
    work: list[Cell] = [
        {"separation": separation, "beta": beta, "rows": rows}
        for separation in settings["separations"]
        for beta in settings["betas"]
        for rows in settings["rows"]
    ]
    return [*work, {"moved": True}]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Draw segments again and again, and estimate them."""
    rng = np.random.default_rng(0)
    if cell.get("moved"):
        return {"named": [_moved(rng, settings) for _ in range(settings["moved_repetitions"])]}
    drawn = []
    for _ in range(settings["repetitions"]):
        truth = rng.beta(cell["beta"][0], cell["beta"][1], size=settings["segments"])
        drawn.append(_judged(truth, _evidence(rng, truth, cell["rows"], cell["separation"]), settings["level"]))
    return {name: float(np.mean([one[name] for one in drawn])) for name in drawn[0]}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name errors and coverage by kind of segments, and the worst of each."""
    found: dict[str, float] = {}
    for cell, result in results:
        if not cell.get("moved"):
            key = _key(cell)
            found |= {f"{key}.{name}": value for name, value in result.items()}
            found[f"{key}.ratio"] = result["error"] / min(result["alone"], result["pooled"])
            continue
        right, wrong = np.array(result["named"]).T
        found["moved.found"] = float(right.mean())
        wrongly = wrong / np.maximum(right + wrong, 1)
        error = float(wrongly.std(ddof=1) / np.sqrt(len(wrongly)))
        found |= {"false_discoveries": float(wrongly.mean()), "false_discoveries.error": error}
        found["false_discoveries.least"] = found["false_discoveries"] - 2.0 * error
    kinds = [_key(cell) for cell, _ in results if not cell.get("moved")]
    found["error.worst"] = max(found[f"{key}.ratio"] for key in kinds)
    found["coverage.least"] = min(found[f"{key}.coverage"] for key in kinds)
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    rows = []
    for cell in cells(settings)[:-1]:
        key, (a, b) = _key(cell), cell["beta"]
        errors = [f"{figures[f'{key}.{name}']:.4f}" for name in ("alone", "pooled", "error")]
        shown = [f"{figures[f'{key}.coverage']:.3f}", f"{figures[f'{key}.width']:.2f}"]
        rows.append([f"{cell['separation']:g}", f"Beta({a:g}, {b:g})", f"{cell['rows']:,}", *errors, *shown])
    header = ["separation", "priors", "rows each", "alone", "all rows", "from the others", "coverage", "relative width"]
    moved = MOVED_TEXT.format(
        **settings,
        found=figures["moved.found"],
        wrong=figures["false_discoveries"],
        error=figures["false_discoveries.error"],
    )
    return f"{TEXT.format(**settings)}\n{markdown_table(header, rows)}\n{moved}"


def _key(cell: Cell) -> str:
    return f"{cell['separation']:g}.{cell['beta'][0]:g}.{cell['rows']}"


def _evidence(rng: np.random.Generator, truth: FloatArray, n_rows: int, separation: float) -> list[BinaryEvidence]:
    labels = rng.random((len(truth), n_rows)) < truth[:, None]
    scores = separation * (rng.standard_normal(labels.shape) + separation * labels) - separation**2 / 2.0
    return [BinaryEvidence.of(np.stack([np.zeros(n_rows), own], axis=1)) for own in scores]


def _judged(truth: FloatArray, parts: list[BinaryEvidence], level: float) -> dict[str, float]:
    found = estimate_segments(dict(enumerate(parts)), level=level)
    ends = np.array([found[name].interval[1] for name in found])
    own_ends = np.array([found.alone[name].interval[1] for name in found])
    return {
        "error": float(np.abs([found[name].prior[1] for name in found] - truth).mean()),
        "alone": float(np.abs([found.alone[name].prior[1] for name in found] - truth).mean()),
        "pooled": float(np.abs(found.common.prior[1] - truth).mean()),
        "coverage": float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean()),
        "width": float(np.mean(ends[:, 1] - ends[:, 0]) / np.mean(own_ends[:, 1] - own_ends[:, 0])),
    }


def _moved(rng: np.random.Generator, settings: Settings) -> tuple[int, int]:
    """Return how many segments that moved are named, and how many others."""
    truth = np.full(settings["segments"], 0.05)
    truth[: settings["moved"]] = settings["moved_prior"]
    named = estimate_segments(dict(enumerate(_evidence(rng, truth, 200, 2.5)))).deviating()
    right = sum(name < settings["moved"] for name in named if isinstance(name, int))
    return right, len(named) - right
