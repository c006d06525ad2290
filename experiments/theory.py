"""Hold every theorem, proposition, corollary, remark and definition with a claim against what can be measured.

The claims stand in `theory_rows`, one row each, parted by idea. Each row measures on classes whose ratios are known,
and its verdict is worked out from its figures.
"""

from collections import Counter
from importlib.util import find_spec
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.growth import exponent
from experiments.paper_claims import THEORY_LABELS
from experiments.plots import COLOURS, panels
from experiments.runner import Cell, Settings
from experiments.theory_rows import (
    complexity,
    cost,
    feedback,
    losses,
    lower_bound,
    many_classes,
    networks,
    ratios,
    regret_rows,
    resampling,
    tracking,
)
from experiments.theory_rows.row import VERDICTS, Row

_MODULES = (
    losses, ratios, networks, resampling, feedback, tracking, complexity, regret_rows, lower_bound, cost, many_classes
)  # fmt: skip
ROWS: dict[str, Row] = {
    row.name: row
    for row in sorted(
        (row for module in _MODULES for row in module.ROWS),
        key=lambda row: min(THEORY_LABELS.index(label) for label in row.covers),
    )
}
SEPARATOR = " / "  # between a row's name and its figure's


def missing(settings: Settings) -> str | None:  # every experiment has it
    """Return why this experiment cannot run here, or None."""
    for module, extra in (("torch", "torch"), ("imblearn", "experiments")):
        if find_spec(module) is None:
            return f"{module} is not installed: pip install 'obil[{extra}]'"
    return None


def cells(settings: Settings) -> list[Cell]:  # every experiment has it
    """List the work: one claim each."""
    return [{"row": name} for name in ROWS]


def run(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Measure one claim."""
    figures, curves = ROWS[cell["row"]].measure(settings)
    return {"figures": figures, "curves": curves}


def figures(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, float]:
    """Name every row's figures after the row."""
    return {
        f"{cell['row']}{SEPARATOR}{name}": value
        for cell, result in results
        for name, value in result["figures"].items()
    }


def series(results: list[tuple[Cell, dict[str, Any]]], settings: Settings) -> dict[str, list[float]]:
    """Gather the curves of the plot."""
    return {name: values for _, result in results for name, values in result["curves"].items()}


def own_figures(figures: dict[str, float], row: Row) -> dict[str, float]:
    """Return the figures of one row, by their short names."""
    prefix = row.name + SEPARATOR
    return {key.removeprefix(prefix): value for key, value in figures.items() if key.startswith(prefix)}


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write one line a claim: what the paper says, what was measured, the verdict, and the test that shows it."""
    lines, verdicts = [], Counter[str]()
    for row in ROWS.values():
        own = own_figures(figures, row)
        verdict = row.verdict(own)
        verdicts[verdict.split("**")[1]] += 1
        tests = "<br>".join(f"`{test}`" for test in row.shown_by) or "this page"
        parts = (f"{row.claim} ({', '.join(row.covers)})", row.measured(own, settings), verdict, tests)
        lines.append("| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |")
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS)
    return (
        f"**What the paper claims**, in its order, {len(lines)} rows: {counts}. Measured on normal classes "
        f"{settings['separation']:g} standard deviations apart unless a row says otherwise, where every ratio and "
        "every expected "
        "cost is known. A verdict is worked out from the figures beside it. Tests are under `tests/`; "
        "`python -m experiments theory` measures all rows again.\n\n"
        "![What the bounds say and what was measured](../figures/theory.svg)\n\n"
        "| claim | measured | verdict | also shown by |\n| --- | --- | --- | --- |\n" + "\n".join(lines) + "\n"
    )


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw four bounds beside what was measured: the ratio's error, tracking, regret, and the least regret."""
    curves, settings = record["series"], record["settings"]
    figure, axes = panels(2, n_rows=2, width=4.4, height=3.3)
    _draw_propagation(axes[0], curves)
    _draw_tracking(axes[1], curves)
    _draw_stationary(axes[2], curves, settings)
    _draw_least(axes[3], curves)
    return {"theory": figure}


def _draw_propagation(axes: Axes, curves: dict[str, list[float]]) -> None:
    x = curves["propagation.posterior"]
    axes.plot(x, curves["propagation.truth"], color=COLOURS["black"], label="largest error, e/(P(1-P-e))")
    axes.plot(x, curves["propagation.printed"], color=COLOURS["orange"], linestyle="--", label="bound as printed")
    axes.set(
        title="Error propagation, e = 0.05", xlabel="posterior P", ylabel="relative error of the ratio", yscale="log"
    )
    axes.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["20 %", "50 %", "100 %", "200 %", "500 %"])
    axes.minorticks_off()
    axes.legend(loc="upper center")


def _draw_tracking(axes: Axes, curves: dict[str, list[float]]) -> None:
    drifts = curves["tracking.drift"]
    shown = {
        "algorithm2.best": ("Algorithm 2, best rate", "orange", "-", "s"),
        "average.stated": ("unbiased average, rate $\\sqrt{\\delta}$", "pink", "--", "^"),
        "average.best": ("unbiased average, best rate", "blue", "-", "o"),
        "bank": ("bank", "green", "-.", "D"),
    }
    for name, (label, colour, line, marker) in shown.items():
        slope = exponent(drifts, curves[f"tracking.{name}"])
        axes.plot(
            drifts, curves[f"tracking.{name}"], color=COLOURS[colour], linestyle=line, marker=marker, markersize=4,
            label=f"{label}: {slope:.2f}",
        )  # fmt: skip
    last = curves["tracking.average.best"][-1]
    claimed = [last * (drift / drifts[-1]) ** 0.5 for drift in drifts]
    axes.plot(drifts, claimed, color=COLOURS["grey"], linestyle=":", label="claimed: 0.50")
    axes.set(
        title="Tracking error, with its exponent", xlabel="drift $\\delta$ a row", ylabel="mean error of the prior",
        xscale="log", yscale="log",
    )  # fmt: skip
    axes.set_ylim(top=1.2)
    axes.legend(loc="upper left")


def _draw_stationary(axes: Axes, curves: dict[str, list[float]], settings: Settings) -> None:
    rows, prior = curves["stationary.rows"], settings["stationary_priors"][0]
    shown = {
        "algorithm2": ("Algorithm 2", "orange", "-", "s"),
        "bank": ("bank", "green", "-.", "D"),
        "endless": ("one endless filter", "blue", "-", "o"),
    }
    for name, (label, colour, line, marker) in shown.items():
        values = curves[f"stationary.{name}.{prior}"]
        axes.plot(rows, values, color=COLOURS[colour], linestyle=line, marker=marker, markersize=4, label=label)
    first = curves[f"stationary.endless.{prior}"][0]
    root = [first * (n / rows[0]) ** 0.5 for n in rows]
    axes.plot(rows, root, color=COLOURS["grey"], linestyle=":", label="a multiple of $\\sqrt{T}$")
    axes.set(
        title=f"Regret without drift, prior {prior:g}", xlabel="rows T", ylabel="regret, misclassified rows",
        xscale="log", yscale="log",
    )  # fmt: skip
    axes.legend(loc="upper left")


def _draw_least(axes: Axes, curves: dict[str, list[float]]) -> None:
    drifts = curves["lower.drift"]
    shown = {
        "bank": ("bank", "green", "-.", "D"),
        "least": ("exact Bayes filter: the least possible", "blue", "-", "o"),
        "by_hand": ("lower bound by hand", "black", "--", None),
    }
    for name, (label, colour, line, marker) in shown.items():
        values = curves[f"lower.{name}"]
        axes.plot(drifts, values, color=COLOURS[colour], linestyle=line, marker=marker, markersize=4, label=label)
    axes.plot(drifts, drifts, color=COLOURS["grey"], linestyle=":", label="the paper's $\\delta$")
    axes.set(
        title="Regret a row under drift",
        xlabel="drift $\\delta$ a row",
        ylabel="regret a row",
        xscale="log",
        yscale="log",
    )
    axes.set_ylim(top=20.0 * max(curves["lower.bank"]))
    axes.legend(loc="upper left")
