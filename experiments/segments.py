"""Hold segments that learn from each other against separate estimates and against one for all rows."""

from typing import Any

import numpy as np

from experiments.markdown import markdown_table
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.online.evidence_bins import EvidenceBins
from obil.online.noisy_counts import BINS_PER_CLASS, NoisyCounts
from obil.online.row_counts import RowCounts
from obil.online.segments import SegmentEvidence, estimate_segments
from obil.serving.holdout import Holdout
from obil.trackers.evidence import BinaryEvidence

NOISE_FIGURES = {"error": 4, "exact": 4, "coverage": 3}  # and their digits
UNEQUAL = "unequal"  # rows of the segments
TEXT = """{segments} segments whose priors are drawn from a Beta distribution, exact log ratios of two normals,
{repetitions} repetitions. Mean absolute error of each segment's prevalence, what its {level:.0%} interval covers, and
how wide that is against the interval from its own rows. Unequal segments have {fewest} to {most:,} rows, uniform on a
logarithmic scale. Three classes are normals at the corners of a right triangle, {separation:g} from the first to each
other, with priors from a Dirichlet distribution; figures are means over the classes.
"""
MOVED_TEXT = """**Which segments moved.** {moved} of {segments} segments have a prior of {moved_prior:g}, all
others .05; 200 rows each, separation 2.5, {moved_repetitions} repetitions: {found:.1f} of the {moved} are named on
average, and {wrong:.1%} of the named have not moved (standard error {error:.1%}; 10 % are allowed).
"""
NOISE_TEXT = """**Counts with noise.** {rows:,} rows at a prevalence of {prior:g}, separation {separation:g},
{repetitions:,} repetitions: root mean squared error and coverage of the estimate from counts with two-sided geometric
noise (`obil prior --noise`), in bins made from {held_out:,} held-out rows.
"""


def cells(settings: Settings) -> list[Cell]:
    """List the work: one kind of segments at a time, and segments of which a few have moved."""
    work: list[Cell] = [
        {"separation": separation, "beta": beta, "rows": rows}
        for separation in settings["separations"]
        for beta in settings["betas"]
        for rows in [*settings["rows"], UNEQUAL]
    ]
    separation, dirichlet = settings["three_classes"]["separation"], settings["three_classes"]["dirichlet"]
    work += [{"separation": separation, "beta": dirichlet, "rows": rows} for rows in settings["three_classes"]["rows"]]
    return [*work, *({"epsilon": epsilon} for epsilon in settings["noise"]["epsilons"]), {"moved": True}]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Draw segments again and again, and estimate them."""
    rng = np.random.default_rng(0)
    if cell.get("moved"):
        return {"named": [_moved(rng, settings) for _ in range(settings["moved_repetitions"])]}
    if "epsilon" in cell:
        return _from_noisy_counts(rng, cell["epsilon"], settings["noise"], settings["level"])
    drawn = []
    for _ in range(settings["repetitions"]):
        n_rows = _rows(rng, cell["rows"], settings)
        if len(cell["beta"]) == 2:
            truth = rng.beta(cell["beta"][0], cell["beta"][1], size=settings["segments"])
            parts: SegmentEvidence = dict(enumerate(_evidence(rng, truth, n_rows, cell["separation"])))
            drawn.append(_judged(np.stack([1.0 - truth, truth], axis=1), parts, settings["level"]))
        else:
            truth = rng.dirichlet(cell["beta"], size=settings["segments"])
            parts = _evidence_of_three(rng, truth, n_rows, cell["separation"])
            drawn.append(_judged(truth, parts, settings["level"]))
    return {name: float(np.mean([one[name] for one in drawn])) for name in drawn[0]}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name errors and coverage by kind of segments, and the worst of each."""
    found: dict[str, float] = {}
    for cell, result in results:
        if "epsilon" in cell:
            found |= {f"noise.{cell['epsilon']:g}.{name}": value for name, value in result.items()}
            continue
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
    kinds = [_key(cell) for cell, _ in results if "beta" in cell]
    found["error.worst"] = max(found[f"{key}.ratio"] for key in kinds)
    found["coverage.least"] = min(found[f"{key}.coverage"] for key in kinds)
    found["noise.coverage.least"] = min(
        found[f"noise.{epsilon:g}.coverage"] for epsilon in settings["noise"]["epsilons"]
    )
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    rows = []
    for cell in (cell for cell in cells(settings) if "beta" in cell):
        key = _key(cell)
        errors = [f"{figures[f'{key}.{name}']:.4f}" for name in ("alone", "pooled", "error")]
        shown = [f"{figures[f'{key}.coverage']:.3f}", f"{figures[f'{key}.width']:.2f}"]
        name = f"{'Beta' if len(cell['beta']) == 2 else 'Dirichlet'}({', '.join(f'{a:g}' for a in cell['beta'])})"
        n_rows = cell["rows"] if cell["rows"] == UNEQUAL else f"{cell['rows']:,}"
        rows.append([f"{cell['separation']:g}", name, n_rows, *errors, *shown])
    header = ["separation", "priors", "rows each", "alone", "all rows", "from the others", "coverage", "relative width"]
    moved = MOVED_TEXT.format(
        **settings,
        found=figures["moved.found"],
        wrong=figures["false_discoveries"],
        error=figures["false_discoveries.error"],
    )
    (fewest, most), three = settings["unequal"], settings["three_classes"]
    text = TEXT.format(**settings, fewest=fewest, most=most, separation=three["separation"])
    noise = settings["noise"]
    noisy = [
        [
            f"{epsilon:g}",
            *(f"{figures[f'noise.{epsilon:g}.{name}']:.{digits}f}" for name, digits in NOISE_FIGURES.items()),
        ]
        for epsilon in noise["epsilons"]
    ]
    noise_table = markdown_table(["epsilon", "error", "error without noise", "coverage"], noisy)
    return f"{text}\n{markdown_table(header, rows)}\n{moved}\n{NOISE_TEXT.format(**noise)}\n{noise_table}"


def _key(cell: Cell) -> str:
    return f"{cell['separation']:g}.{cell['beta'][0]:g}{'.three' * (len(cell['beta']) > 2)}.{cell['rows']}"


def _rows(rng: np.random.Generator, rows: int | str, settings: Settings) -> IntArray:
    """Return the number of rows of each segment."""
    if rows != UNEQUAL:
        return np.full(settings["segments"], rows, dtype=np.int64)
    low, high = np.log(settings["unequal"])
    return np.asarray(np.exp(rng.uniform(low, high, size=settings["segments"])), dtype=np.int64)


def _evidence(rng: np.random.Generator, truth: FloatArray, n_rows: IntArray, separation: float) -> list[BinaryEvidence]:
    parts = []
    for prior, n in zip(truth.tolist(), n_rows.tolist(), strict=True):
        scores = separation * (rng.standard_normal(n) + separation * (rng.random(n) < prior)) - separation**2 / 2.0
        parts.append(BinaryEvidence.of(np.stack([np.zeros(n), scores], axis=1)))
    return parts


def _evidence_of_three(
    rng: np.random.Generator, truth: FloatArray, n_rows: IntArray, separation: float
) -> SegmentEvidence:
    classes = GaussianClasses(np.array([[0.0, 0.0], [separation, 0.0], [0.0, separation]]), np.eye(2))
    parts = {}
    for name, (prior, n) in enumerate(zip(truth, n_rows.tolist(), strict=True)):
        rows = classes.draw(np.tile(prior, (n, 1)), random_state=int(rng.integers(2**31)))
        parts[name] = RowCounts.of(rows.log_ratios).weighted()
    return parts


def _judged(truth: FloatArray, parts: SegmentEvidence, level: float) -> dict[str, float]:
    found = estimate_segments(parts, level=level)
    ends, own_ends = (np.array([by[name].interval for name in found]) for by in (found, found.alone))
    return {
        "error": float(np.abs(np.array([found[name].prior for name in found]) - truth).mean()),
        "alone": float(np.abs(np.array([found.alone[name].prior for name in found]) - truth).mean()),
        "pooled": float(np.abs(found.common.prior - truth).mean()),
        "coverage": float(((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean()),
        "width": float(np.ptp(ends, axis=2).mean() / np.ptp(own_ends, axis=2).mean()),
    }


def _from_noisy_counts(
    rng: np.random.Generator, epsilon: float, noise: dict[str, Any], level: float
) -> dict[str, float]:
    """Return the errors of estimates from counts with noise and from the rows, and what the interval covers."""
    classes, prior = GaussianClasses.pair(noise["separation"]), noise["prior"]
    held_out = classes.draw(np.full(noise["held_out"], 0.2), random_state=0)
    most = BINS_PER_CLASS * classes.n_classes
    bins = EvidenceBins.of(Holdout.of(held_out.log_ratios, held_out.labels), most=most)
    errors, exact, covered = [], [], []
    for _ in range(noise["repetitions"]):
        rows = classes.draw(np.full(noise["rows"], prior), random_state=int(rng.integers(2**31))).log_ratios
        found = NoisyCounts.of(rows, bins, epsilon=epsilon, rng=rng).weighted(bins).estimate(level=level)
        errors.append(found.prior[1] - prior)
        exact.append(BinaryEvidence.of(rows).estimate().prior[1] - prior)
        covered.append(found.interval[1, 0] <= prior <= found.interval[1, 1])
    return {
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "exact": float(np.sqrt(np.mean(np.square(exact)))),
        "coverage": float(np.mean(covered)),
    }


def _moved(rng: np.random.Generator, settings: Settings) -> tuple[int, int]:
    """Return how many segments that moved are named, and how many others."""
    truth = np.full(settings["segments"], 0.05)
    truth[: settings["moved"]] = settings["moved_prior"]
    named = estimate_segments(dict(enumerate(_evidence(rng, truth, np.full(len(truth), 200), 2.5)))).deviating()
    right = sum(name < settings["moved"] for name in named if isinstance(name, int))
    return right, len(named) - right
