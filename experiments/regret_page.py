"""Write the tables and draw the plot of `experiments.regret`."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.growth import growth_measures, root_reference
from experiments.markdown import markdown_table
from experiments.online_methods import FROM_HOLDOUT, PRINTED, THEOREM
from experiments.paper_claims import REGRET
from experiments.plots import COLOURS, band, panels

Settings = dict[str, Any]

LA_EXACT, LA_FITTED = "LA, known prior, exact ratio", "LA, known prior, fitted ratio"
BANK_FITTED = "bank, fitted ratio"
CLAIMS = {  # the paper's names by ours
    PRINTED: REGRET["OBIL"],
    "BBSE soft 1,000": REGRET["BBSE"],
    "SMOTE": REGRET["SMOTE"],
    "Vanilla": REGRET["Vanilla"],
    LA_EXACT: REGRET["LA, known prior"],
}
METHODS = (
    PRINTED, THEOREM, "bank", "SafeTracker", *FROM_HOLDOUT, "SMOTE", "Vanilla", LA_EXACT, LA_FITTED, BANK_FITTED,
)  # fmt: skip
GROWTH_METHODS = (PRINTED, THEOREM, "BBSE soft 1,000", "bank")
PATHS = {"constant": "constant prior", "drift": "drift"}
EDGES = ("low", "middle", "high")
LOOK = {  # colour, line style, name in the legend; the curves that are drawn
    "SMOTE": ("grey", ":", "SMOTE: fixed threshold"),
    "Vanilla": ("amber", "--", "Vanilla: fixed prior"),
    "SafeTracker": ("green", ":", "OBIL, SafeTracker (slow bank)"),
    "BBSE soft 1,000": ("pink", "-.", "BBSE, soft, window 1,000"),
    PRINTED: ("orange", "-", "OBIL, Algorithm 2 as printed"),
    "bank": ("blue", "--", "OBIL, bank"),
    LA_FITTED: ("black", "-.", "LA: known prior, fitted ratio"),
}
THEOREM_LOOK = ("sky", ":", "OBIL, Algorithm 2, theorem's rate")
REFERENCE_LABEL = "c sqrt(T log T): (a) to the bank's end, (c, d) from its start"


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    n_rows, walk, horizons = settings["n_rows"], settings["walk"], settings["regret_horizons"]
    low, high = settings["band"]
    root = growth_measures(horizons, root_reference(horizons))
    by_root = float(np.divide(*root_reference([n_rows, n_rows // 2]))) - 1.0
    parts = [
        f"**Regret along a drift**: two normal classes {settings['regret_separation']:g} apart, Qc = 1; a bounded walk "
        f"of {walk['step_size']:g} per row between {walk['low']:g} and {walk['high']:g} from {walk['start']:g}, where "
        f"all start, another walk in every one of {settings['measured_runs']} runs. Mean expected cost beyond that of "
        f"the oracle (in brackets: {low:.0%} to {high:.0%} of the runs). Second / first: regret of the second half of "
        f"the rows over that of the first; linear growth gives 1, sqrt(T log T) {by_root:.2f}. LA with the known prior "
        "and the exact ratio is the oracle; with a ratio fitted by logistic regression on "
        f"{settings['training_rows']:,} rows, its regret is the ratio's error alone. SafeTracker has neither views nor "
        "labels: it is its slow bank. BBSE estimates from the first row on, with "
        f"{settings['holdout_rows']:,} held-out rows. The plot shows {settings['runs']} runs along one walk, the "
        f"drift of the trackers' page: the median and the {low:.0%} to {high:.0%} band, which has no width for a fixed "
        "threshold.\n",
        _curve_table(figures, n_rows),
        f"**Growth with the horizon**, {settings['regret_seeds']} seeds. Constant prior {settings['regret_prior']:g}, "
        f"start {settings['start_prior']:g}; and the walk above. Exponent: slope of log regret on log T by least "
        "squares over all horizons, and over the last decade; increase: what the last decade adds over what the one "
        "before added. Linear growth has 1, 1 and 10; sqrt(T log T) "
        f"{root['exponent']:.2f}, {root['last_exponent']:.2f} and {root['increase']:.1f}; log T has an increase of 1. "
        "The paper proves, and calls tight, sqrt(T log T) for a constant prior, and adds a term linear in T for a "
        "drift.\n",
    ]
    rows = []
    for path, text in PATHS.items():
        for method in GROWTH_METHODS:
            name = f"{path}.{method}"
            shown = [f"{figures[f'growth.{name}.{horizon}']:,.1f}" for horizon in horizons if _is_decade(horizon)]
            measures = [f"{figures[f'{measure}.{name}']:.2f}" for measure in ("exponent", "last_exponent", "increase")]
            rows.append([f"{text}: {method}", *shown, *measures])
    header = [f"T = {horizon:,}" for horizon in horizons if _is_decade(horizon)]
    parts.append(markdown_table(["path and method", *header, "exponent", "last decade", "increase"], rows))
    return "\n".join(parts)


def plots(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw cumulative and per-row regret along the drift, and the final regret against the horizon."""
    figure, axes = panels(2, n_rows=2, width=5.0, height=3.2)
    _draw_curves(axes[0], axes[1], record["series"], record["settings"])
    for panel, path in zip(axes[2:], PATHS, strict=True):
        _draw_growth(panel, path, record["figures"], record["settings"])
    axes[2].set(title=f"(c) constant prior {record['settings']['regret_prior']:g}: regret against the horizon")
    axes[3].set(title=f"(d) drift {record['settings']['walk']['step_size']:g} per row: regret against the horizon")
    named = {name: line for panel in axes for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=3)
    return {"regret": figure}


def _is_decade(horizon: int) -> bool:
    return set(str(horizon)) == {"1", "0"}


def _curve_table(figures: dict[str, float], n_rows: int) -> str:
    rows = []
    for method in METHODS:
        half, whole, low, high = (figures[f"{name}.{method}"] for name in ("half", "whole", "whole_low", "whole_high"))
        ratio = figures.get(f"second_over_first.{method}")
        rows.append([method, f"{half:.1f}", f"{whole:.1f} ({low:.1f} to {high:.1f})"])
        rows[-1] += ["" if ratio is None else f"{ratio:.2f}", CLAIMS.get(method, "")]
    header = ["method", f"T = {n_rows // 2:,}", f"T = {n_rows:,}", "second / first", "the paper says"]
    return markdown_table(header, rows)


def _draw_curves(cumulative: Axes, each: Axes, curves: dict[str, list[float]], settings: Settings) -> None:
    rows = curves["row"]
    for panel, kind in ((cumulative, "cumulative"), (each, "each")):
        for method, (colour, style, label) in LOOK.items():
            low, middle, high = (curves[f"{kind}.{method}.{edge}"] for edge in EDGES)
            band(panel, rows, low, middle, high, colour=colour, label=label, style=style)
        panel.set(xlabel="row", xlim=(0, settings["n_rows"]))
    root = root_reference(rows)
    through_the_end = root * curves["cumulative.bank.middle"][-1] / root[-1]
    cumulative.plot(rows, through_the_end, color=COLOURS["black"], linewidth=0.9, label=REFERENCE_LABEL)
    cumulative.set(title="(a) cumulative regret along the drift", ylabel="expected cost beyond the oracle")
    each.set(
        title=f"(b) regret a row, mean of the last {settings['smoothing_rows']} rows",
        ylabel="expected cost per row beyond the oracle",
    )


def _draw_growth(panel: Axes, path: str, figures: dict[str, float], settings: Settings) -> None:
    horizons = settings["regret_horizons"]
    for method in GROWTH_METHODS:
        colour, style, label = LOOK.get(method, THEOREM_LOOK)
        regrets = [figures[f"growth.{path}.{method}.{horizon}"] for horizon in horizons]
        panel.plot(horizons, regrets, style, color=COLOURS[colour], marker="o", markersize=3, label=label)
    root = root_reference(horizons)
    first = figures[f"growth.{path}.bank.{horizons[0]}"]
    panel.plot(horizons, root * first / root[0], color=COLOURS["black"], linewidth=0.9, label=REFERENCE_LABEL)
    panel.set(xscale="log", yscale="log", xlabel="horizon T, rows", ylabel="expected cost beyond the oracle")
