"""Follow a prior that jumps and decays, and tell how late a tracker is from how far off it is.

The plot is the paper's: estimate, threshold and cumulative F1 along the jump. Lag is measured on a plain step to
the same height, where it has a meaning: against a tracker's *own* levels before and long after the step (lag alone),
and against the true levels (lag and bias together).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.gaussian_pair import GaussianPair, binary_log_thresholds
from experiments.markdown import markdown_table
from experiments.online_methods import FROM_HOLDOUT, ORACLE, PRINTED, priors_used
from experiments.paper_claims import ADAPTATION_LAG
from experiments.plots import COLOURS, band, panels
from experiments.runner import Cell, Settings
from experiments.scenarios import SCENARIOS
from experiments.spread import standard_deviation
from obil.arrays import FloatArray, IntArray
from obil.datasets import prior_paths
from obil.datasets.gaussian_stream import GaussianClasses, Stream

TRACKERS = (PRINTED, "bank", "SafeTracker", *FROM_HOLDOUT)
METHODS = (ORACLE, *TRACKERS, "SMOTE")
FRACTIONS = (50, 90)  # per cent of the step
POINT_EVERY = 10
F1_FROM = 10  # of the points: before row 100 there is hardly a positive
EDGES = ("low", "middle", "high")
LOOK = {  # colour, line style, name in the legend
    ORACLE: ("black", "-", "truth, oracle"),
    PRINTED: ("orange", "-", "OBIL, Algorithm 2 as printed"),
    "bank": ("blue", "--", "OBIL, bank"),
    "SafeTracker": ("green", ":", "OBIL, SafeTracker (here: its slow bank)"),
    "BBSE soft 1,000": ("pink", "-.", "BBSE, soft, window 1,000"),
    "SMOTE": ("grey", ":", "SMOTE: fixed threshold"),
}
PRIOR_CURVES = (PRINTED, "bank", "SafeTracker", "BBSE soft 1,000")
F1_CURVES = (PRINTED, "bank", "BBSE soft 1,000", "SMOTE", ORACLE)


def cells(settings: Settings) -> list[Cell]:
    """List the work: one method at one separation."""
    return [
        {"separation": separation, "method": method} for separation in settings["separations"] for method in METHODS
    ]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one method along the jump, and, where it estimates the prior, on a plain step."""
    method, separation = cell["method"], cell["separation"]
    result = _along_the_jump(method, separation, settings)
    if method in TRACKERS:
        result["step"] = _on_a_step(method, separation, settings)
    return result


def cumulative_f1(decided: npt.ArrayLike, labels: IntArray) -> FloatArray:
    """Return the F1 of the rows up to and including each, (n,); 0 until there is a positive, decided or true."""
    positive = np.asarray(decided, dtype=bool)
    found = np.cumsum(positive & (labels == 1))
    f1: FloatArray = 2.0 * found / np.maximum(np.cumsum(positive) + np.cumsum(labels == 1), 1)
    return f1


def rows_until(mean_estimates: FloatArray, level: float, *, jump_at: int, level_before: float) -> int | None:
    """Return how many rows of the new prior were seen when the mean estimate first reached a level above the old one.

    0: it stood there before the jump. None: it never came.
    """
    if level_before >= level:
        return 0
    reached = np.flatnonzero(mean_estimates[jump_at:] >= level)
    return int(reached[0]) if reached.size else None


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name the figures of every method; a fraction of a step that is never covered has none."""
    found: dict[str, float] = {}
    for cell, result in results:
        own = f"{cell['separation']}.{cell['method']}"
        for measure, value in (result["jump"] | result.get("step", {})).items():
            if value is not None:
                found[f"{measure}.{own}"] = float(value)
    return found


def series(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, list[float]]:
    """Name the curves of the plot: every tenth row, low, middle and high over the runs."""
    rows = np.arange(settings["n_rows"])[::POINT_EVERY]
    found = {"row": rows.tolist(), "truth": _jump(settings)[rows].tolist()}
    for cell, result in results:
        for kind, drawn in (("prior", PRIOR_CURVES), ("f1", F1_CURVES)):
            if cell["method"] in drawn:
                for edge, values in zip(EDGES, result["curves"][kind], strict=True):
                    found[f"{kind}.{cell['separation']}.{cell['method']}.{edge}"] = values
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    before, after = settings["step_from"], settings["step_to"]
    parts = [
        f"Two normal classes with exact ratios, Qc = 1; every tracker starts at {settings['start_prior']}, the prior "
        "before the jump. SafeTracker has neither views nor labels here: it is then its slow bank. BBSE has "
        f"{settings['holdout_rows']:,} held-out rows of its own in every run, and estimates from the first row on. "
        "SMOTE decides at ratio 1, as a balanced training set with an exact ratio would have it.\n",
        f"**Lag and bias**, run means over {settings['step_runs']:,} runs. The prior steps from {before:g} to "
        f"{after:g} and stays. *Estimate before*: mean over the last {settings['level_rows_before']} rows before the "
        "step; *error before*: mean distance from the truth there, run by run. *Estimate long after*: mean over the "
        f"last {settings['level_rows_after']:,} of {settings['step_rows']:,} rows. *Own step*: rows after the step "
        "until the run-mean estimate has covered 50 % and 90 % of the way between these two levels of its own: the "
        f"lag, whatever the bias. *True step*: the same for the step from {before:g} to {after:g}: lag and bias "
        "together; *at once* means that the bias put it there before anything happened.\n",
    ]
    for separation in settings["separations"]:
        parts.append(f"Separation {separation:g}:\n\n" + _lag_table(figures, separation))
    parts.append(
        f"**F1 and cost along the paper's path** ({settings['n_rows']:,} rows, jump at {settings['jump_at']}, then "
        f"decay), {settings['measured_runs']} runs. Before and after: F1 of the pooled decisions of the "
        f"{settings['jump_at']} rows on either side of the jump. End: cumulative F1 after the last row, mean over runs "
        "(standard deviation). Excess: expected cost in closed form over the oracle's, whole path. The oracle knows "
        "the prior and minimises the cost; it does not maximise F1, which wants lower thresholds, so that a tracker "
        "that overestimates the prior can pass it in F1 and lose in cost. The plot shows the median and the "
        f"{settings['band'][0]:.0%} to {settings['band'][1]:.0%} band of the first {settings['runs']} runs, F1 from "
        f"row {F1_FROM * POINT_EVERY} on.\n"
    )
    for separation in settings["separations"]:
        parts.append(f"Separation {separation:g}:\n\n" + _f1_table(figures, separation))
    return "\n".join(parts)


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw prior, threshold and cumulative F1, a row of panels for each separation."""
    curves, settings = record["series"], record["settings"]
    separations = settings["separations"]
    figure, axes = panels(3, n_rows=len(separations), width=4.0, height=2.9)
    for number, separation in enumerate(separations):
        prior, threshold, f1 = axes[3 * number : 3 * number + 3]
        prior.plot(curves["row"], curves["truth"], color=COLOURS["black"], label=LOOK[ORACLE][2])
        threshold.plot(curves["row"], _threshold(curves["truth"]), color=COLOURS["black"])
        for method in PRIOR_CURVES:
            edges = _edges(curves, f"prior.{separation}.{method}")
            _draw(prior, curves["row"], edges, method)
            _draw(threshold, curves["row"], [_threshold(edge) for edge in edges], method)
        for method in F1_CURVES:
            edges = [edge[F1_FROM:] for edge in _edges(curves, f"f1.{separation}.{method}")]
            _draw(f1, curves["row"][F1_FROM:], edges, method)
        prior.set(title=f"(a) prior, separation {separation:g}", ylabel="P(1)", ylim=(0.0, 0.3))
        threshold.set(title=f"(b) threshold, separation {separation:g}", ylabel="Qc (1 - P) / P")
        threshold.set(yscale="log", ylim=(2.0, 200.0))
        f1.set(title=f"(c) cumulative F1, separation {separation:g}", ylabel="F1 so far", ylim=(0.0, 1.0))
        for panel in (prior, threshold, f1):
            panel.axvline(settings["jump_at"], color=COLOURS["grey"], linewidth=0.8)
            panel.set(xlabel="row", xlim=(0, settings["n_rows"]))
    named = {name: line for panel in axes[:3] for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=3)
    return {"adaptation": figure}


def _along_the_jump(method: str, separation: float, settings: Settings) -> dict[str, Any]:
    classes, pair = GaussianClasses.pair(separation), GaussianPair(separation)
    truth, jump_at = _jump(settings), settings["jump_at"]
    priors, f1s, excesses = [], [], []
    blocks = {"before": slice(0, jump_at), "after": slice(jump_at, 2 * jump_at)}
    pooled: dict[str, list[IntArray]] = {name: [] for name in blocks}  # (2, rows): decided, true
    for seed in range(settings["measured_runs"]):
        stream = classes.draw(truth, random_state=seed)
        used = _used(method, stream, classes, seed, settings)
        decided = stream.log_ratios[:, 1] > binary_log_thresholds(used)
        priors.append(used[::POINT_EVERY])
        excesses.append(pair.excess(used, truth))
        f1s.append(cumulative_f1(decided, stream.labels))
        for name, block in blocks.items():
            pooled[name].append(np.stack([decided[block], stream.labels[block]]))
    ends = [f1[-1] for f1 in f1s]
    measured = {name: float(cumulative_f1(*np.concatenate(rows, axis=1))[-1]) for name, rows in pooled.items()}
    measured |= {"end": float(np.mean(ends)), "end_sd": standard_deviation(ends), "excess": float(np.mean(excesses))}
    drawn = {"prior": priors, "f1": [f1[::POINT_EVERY] for f1 in f1s]}
    quantiles = [settings["band"][0], 0.5, settings["band"][1]]
    return {
        "jump": measured,
        "curves": {
            kind: np.quantile(values[: settings["runs"]], quantiles, axis=0).tolist() for kind, values in drawn.items()
        },
    }


def _on_a_step(method: str, separation: float, settings: Settings) -> dict[str, float | int | None]:
    classes = GaussianClasses.pair(separation)
    low, high, jump_at = settings["step_from"], settings["step_to"], settings["jump_at"]
    truth = prior_paths.step(jump_at + settings["step_rows"], low, high, at=jump_at)
    settled = slice(jump_at - settings["level_rows_before"], jump_at)
    total, errors = np.zeros(len(truth)), []
    for seed in range(settings["step_runs"]):
        stream = classes.draw(truth, random_state=seed)
        estimate = _used(method, stream, classes, seed, settings)
        total += estimate
        errors.append(abs(estimate[settled] - low).mean())
    means = total / settings["step_runs"]
    before, long_after = float(means[settled].mean()), float(means[-settings["level_rows_after"] :].mean())
    measured: dict[str, float | int | None] = {
        "estimate_before": before,
        "error_before": float(np.mean(errors)),
        "estimate_long_after": long_after,
    }
    for fraction in FRACTIONS:
        for step, (first, last) in {"own": (before, long_after), "true": (low, high)}.items():
            level = first + fraction / 100.0 * (last - first)
            measured[f"{step}_{fraction}"] = rows_until(means, level, jump_at=jump_at, level_before=before)
    return measured


def _lag_table(figures: dict[str, float], separation: float) -> str:
    def rows_of(step: str, tracker: str) -> str:
        found = [figures.get(f"{step}_{fraction}.{separation}.{tracker}") for fraction in FRACTIONS]
        return " / ".join("never" if rows is None else "at once" if rows == 0 else f"{rows:,.0f}" for rows in found)

    rows = []
    for tracker in TRACKERS:
        own = f"{separation}.{tracker}"
        levels = [f"{figures[f'{level}.{own}']:.3f}" for level in ("estimate_before", "error_before")]
        levels.append(f"{figures[f'estimate_long_after.{own}']:.3f}")
        rows.append([tracker, *levels, *(rows_of(step, tracker) for step in ("own", "true"))])
        rows[-1].append(ADAPTATION_LAG if tracker == PRINTED else "")
    header = ["tracker", "estimate before", "error before", "estimate long after"]
    header += ["own step, 50 / 90 %", "true step, 50 / 90 %", "the paper's lag"]
    return markdown_table(header, rows)


def _f1_table(figures: dict[str, float], separation: float) -> str:
    rows = []
    for method in METHODS:
        before, after, end, spread, excess = (
            figures[f"{measure}.{separation}.{method}"] for measure in ("before", "after", "end", "end_sd", "excess")
        )
        rows.append([method, f"{before:.3f}", f"{after:.3f}", f"{end:.3f} ({spread:.3f})", f"{100.0 * excess:+.1f} %"])
    return markdown_table(["method", "F1 before", "F1 after", "F1 at the end", "excess cost"], rows)


def _used(method: str, stream: Stream, classes: GaussianClasses, seed: int, settings: Settings) -> FloatArray:
    start, holdout_rows = settings["start_prior"], settings["holdout_rows"]
    return priors_used(method, stream, classes, start=start, holdout_rows=holdout_rows, seed=seed)


def _jump(settings: Settings) -> FloatArray:
    return SCENARIOS["jump"](settings["n_rows"])


def _threshold(priors: list[float]) -> list[float]:
    return [float(threshold) for threshold in np.exp(binary_log_thresholds(priors))]


def _edges(curves: dict[str, list[float]], name: str) -> list[list[float]]:
    return [curves[f"{name}.{edge}"] for edge in EDGES]


def _draw(axes: Axes, rows: list[float], edges: list[list[float]], method: str) -> None:
    colour, style, label = LOOK[method]
    low, middle, high = edges
    band(axes, rows, low, middle, high, colour=colour, label=label, style=style)
