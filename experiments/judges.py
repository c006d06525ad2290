"""Measure coverage and width of intervals for a prevalence from the verdicts of a judge and few labels.

Simulated: a grid of judges and prevalences. The labelled items are a random sample of all (`same`), or their prevalence
is three times as high or as low as that of the judged ones (`shifted`). Real: verdicts of two language models on
comparisons that people judged too. A random part of each file is labelled, and one judge is read (`real`) or both
(`fused`), or the labels are of another file, with other models compared (`transfer`).
"""

import csv
import os
import warnings
import zlib
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from experiments.judge_intervals import (
    Counts,
    Interval,
    integrated,
    maximum_likelihood,
    ppi,
    ppi_plus_plus,
    profile_likelihood,
    rogan_gladen,
    rogan_gladen_exact,
)
from experiments.judges_page import judges_page
from experiments.runner import Cell, Settings
from obil import prevalence_from_judge
from obil.arrays import FloatArray, IntArray

FILE = Path("judges") / "llm_judges.csv"
JUDGES = ("judge_gpt_4o_mini", "judge_gpt_5_2")
WALD = {"rogan_gladen": rogan_gladen, "ppi": ppi, "ppi_plus_plus": ppi_plus_plus, "likelihood": maximum_likelihood}
LOGIT = "_logit"
METHODS = ("integrated", "profile", "exact", *WALD, *(name + LOGIT for name in WALD))


def cells(settings: Settings) -> list[Cell]:
    """List the cells of both grids, and of the real files where they are at hand."""
    simulated = [
        {"kind": kind, "judge": judge, "prevalence": judged, "labelled": labelled}
        for kind, pairs in (("same", [[one, one] for one in settings["prevalences"]]), ("shifted", settings["shifted"]))
        for judge in settings["judges"]
        for judged, labelled in pairs
    ]
    path = _path()
    if path is None:
        return simulated
    pairs = list(_files(path))
    real = [{"kind": "real", "file": pair, "judge": judge} for pair in pairs for judge in JUDGES]
    fused = [{"kind": "fused", "file": pair} for pair in pairs]
    transfer = [
        {"kind": "transfer", "file": judged, "labelled": labelled, "judge": judge}
        for judged, labelled in permutations(pairs, 2)
        for judge in JUDGES
    ]
    return simulated + real + fused + transfer


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Return the coverage and mean width of every method in a cell."""
    seed = zlib.crc32(repr(sorted(cell.items())).encode())
    rng = np.random.default_rng(seed)
    if cell["kind"] in ("same", "shifted"):
        return _run_simulated(cell, settings, rng)
    path = _path()
    assert path is not None  # `cells` lists no others
    items = _files(path)
    own = items[cell["file"]]
    if cell["kind"] == "fused":
        return _run_fused(own, settings, rng)
    column = 1 + JUDGES.index(cell["judge"])
    truth, verdicts = own[:, 0], own[:, column]
    other = own if cell["kind"] == "real" else items[cell["labelled"]]
    counts = _labelled_samples(other[:, 0], other[:, column], settings, rng)
    if cell["kind"] == "real":  # what is not labelled is judged
        judged_positive = verdicts.sum() - counts.true_positive - counts.false_positive
        n_judged = len(own) - settings["n_labels"]
    else:
        judged_positive, n_judged = np.full_like(counts.true_positive, verdicts.sum()), len(own)
    counts = counts._replace(judged_positive=judged_positive, judged_negative=n_judged - judged_positive)
    sensitivity, specificity = verdicts[truth == 1].mean(), 1.0 - verdicts[truth == 0].mean()
    about = {"prevalence": truth.mean(), "sensitivity": sensitivity, "specificity": specificity}
    measured = _measured(counts, float(truth.mean()), settings, random_sample=cell["kind"] == "real")
    return {"methods": measured, "about": {key: float(value) for key, value in about.items()}}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name coverage and width by cell and method, and how ours compare with those that cover enough."""
    found: dict[str, float] = {}
    for kind in dict.fromkeys(cell["kind"] for cell, _ in results):
        runs = [(cell, result) for cell, result in results if cell["kind"] == kind]
        for cell, result in runs:
            for key, value in result.get("about", {}).items():
                found[f"{cell_name(cell)}.{key}"] = value
            for method, (coverage, width) in result["methods"].items():
                found[f"{cell_name(cell)}.{method}.coverage"] = coverage
                found[f"{cell_name(cell)}.{method}.width"] = width
        for method in METHODS:
            of_method = np.array([result["methods"][method] for _, result in runs if method in result["methods"]])
            if len(of_method):
                found[f"{kind}.{method}.least"] = float(of_method[:, 0].min())
                found[f"{kind}.{method}.enough"] = float((of_method[:, 0] >= settings["enough"]).mean())
                found[f"{kind}.{method}.coverage"], found[f"{kind}.{method}.width"] = of_method.mean(axis=0).tolist()
        if kind in ("same", "shifted"):
            others = [name for name in METHODS if found.get(f"{kind}.{name}.least", 0.0) >= settings["enough"]]
            widths = [found[f"{kind}.{name}.width"] for name in others if name != "integrated"]
            width = found[f"{kind}.integrated.width"]
            if widths:
                found[f"{kind}.integrated.against_others"] = width / min(widths)
            found[f"{kind}.integrated.against_exact"] = width / found[f"{kind}.exact.width"]
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    return judges_page(figures, settings)


def cell_name(cell: Cell) -> str:
    """Return the name of a cell in the figures."""
    if cell["kind"] in ("same", "shifted"):
        sensitivity, specificity = cell["judge"]
        return f"{cell['kind']}.{sensitivity:g}_{specificity:g}.{cell['prevalence']:g}_{cell['labelled']:g}"
    labelled = f"{cell['labelled']}_to_" if "labelled" in cell else ""
    return f"{cell['kind']}.{labelled}{cell['file']}.{cell.get('judge', 'both')}"


def _run_simulated(cell: Cell, settings: Settings, rng: np.random.Generator) -> dict[str, Any]:
    (sensitivity, specificity), prevalence = cell["judge"], cell["prevalence"]
    n_labels, n_samples = settings["n_labels"], settings["n_samples"]
    n_judged = settings["n_items"] - n_labels
    positive = rng.binomial(n_labels, cell["labelled"], size=n_samples)
    true_positive, true_negative = rng.binomial(positive, sensitivity), rng.binomial(n_labels - positive, specificity)
    rate = prevalence * sensitivity + (1.0 - prevalence) * (1.0 - specificity)
    said_yes = rng.binomial(n_judged, rate, size=n_samples)
    counts = Counts(
        true_positive, positive - true_positive, n_labels - positive - true_negative, true_negative,
        said_yes, n_judged - said_yes,
    )  # fmt: skip
    return {"methods": _measured(counts, prevalence, settings, random_sample=cell["kind"] == "same")}


def _labelled_samples(truth: IntArray, verdicts: IntArray, settings: Settings, rng: np.random.Generator) -> Counts:
    """Return the labelled counts of random parts of a file, nothing judged yet."""
    cells = np.bincount(2 * truth + verdicts, minlength=4)
    drawn = rng.multivariate_hypergeometric(cells, settings["n_labels"], size=settings["n_real_samples"])
    none = np.zeros(len(drawn), dtype=np.int64)
    return Counts(drawn[:, 3], drawn[:, 2], drawn[:, 1], drawn[:, 0], none, none)


def _run_fused(items: IntArray, settings: Settings, rng: np.random.Generator) -> dict[str, Any]:
    """Return what both judges together give: ours, by the public function."""
    prevalence, ends = items[:, 0].mean(), []
    warnings.simplefilter("ignore")  # one draw in many looks unlike a random sample
    for _ in range(settings["n_real_samples"] // 4):  # rows are counted one by one here
        order = rng.permutation(len(items))
        seen, judged = items[order[: settings["n_labels"]]], items[order[settings["n_labels"] :]]
        estimate = prevalence_from_judge(
            judged[:, 1:], seen[:, 1:], seen[:, 0], random_sample=True, level=settings["level"]
        )
        ends.append(estimate.interval[1])
    low, high = np.array(ends).T
    return {"methods": {"integrated": _summary((low, high), prevalence)}}


def _measured(
    counts: Counts, prevalence: float, settings: Settings, *, random_sample: bool
) -> dict[str, tuple[float, float]]:
    """Return coverage and mean width by method; samples that are alike are computed once."""
    different, which = np.unique(np.array(counts), axis=1, return_inverse=True)
    own, level, place = Counts(*different), settings["level"], which.ravel()
    intervals = {
        "integrated": integrated(own, level=level, random_sample=random_sample),
        "profile": profile_likelihood(own, level=level, random_sample=random_sample),
        "exact": rogan_gladen_exact(own, level=level),
    }
    for name, method in WALD.items():
        if random_sample or name != "likelihood":  # otherwise it is Rogan-Gladen's estimate
            intervals[name] = method(own, level=level)
            intervals[name + LOGIT] = method(own, level=level, in_logit=True)
    return {name: _summary((low[place], high[place]), prevalence) for name, (low, high) in intervals.items()}


def _summary(interval: Interval, prevalence: float) -> tuple[float, float]:
    low, high = interval
    covered: FloatArray = ((low <= prevalence) & (prevalence <= high)).astype(np.float64)
    return float(covered.mean()), float((high - low).mean())


def _path() -> Path | None:
    folder = os.environ.get("OBIL_DATA")
    path = None if not folder else Path(folder) / FILE
    return path if path is not None and path.is_file() else None


def _files(path: Path) -> dict[str, IntArray]:
    """Return truth and verdicts, (n, 3), by the second of the models compared."""
    found: dict[str, list[list[int]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = row["pair"].partition("_vs_")[2]
            found.setdefault(name, []).append([int(row[column]) for column in ("human", *JUDGES)])
    return {name.replace(".", "_"): np.array(rows) for name, rows in found.items()}
