"""Add up what not knowing the prior costs: along a drift as in the paper, and up to a million rows.

Regret is the expected cost in closed form at the threshold used, minus that of the oracle that knows the prior and
the exact ratio. The false alarm carries Qc, not the miss as the paper prints it; at Qc = 1, here, the two agree.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from experiments import trackers
from experiments.contenders import CONTENDERS
from experiments.growth import growth_measures, root_reference
from experiments.markdown import markdown_table
from experiments.online_methods import FROM_HOLDOUT, ORACLE, PRINTED, THEOREM, priors_used
from experiments.pictures import COLOURS, band, panels
from experiments.runner import Cell, Settings
from obil.arrays import FloatArray
from obil.bayes.costs import binary_log_thresholds
from obil.bayes.regret import GaussianPair
from obil.data import prior_paths
from obil.data.gaussian_stream import GaussianClasses, Stream

WALK_SEED = 5  # walk 0 is the drift of experiments/scenarios
TRAINING_SEED = 2_000_003
LA_EXACT, LA_FITTED = "LA, known prior, exact ratio", "LA, known prior, fitted ratio"
BANK_FITTED = "bank, fitted ratio"
FITTED = {LA_FITTED: ORACLE, BANK_FITTED: "bank"}  # the prior they decide with
PAPER = {  # section "Empirical Regret Analysis"
    PRINTED: "follows sqrt(T log T); per step towards 0",
    "BBSE soft 1,000": "sublinear, larger constant",
    "SMOTE": "linear",
    "Vanilla": "linear",
    LA_EXACT: "best achievable; OBIL approaches it",
}
METHODS = (
    PRINTED, THEOREM, "bank", "SafeTracker", *FROM_HOLDOUT, "SMOTE", "Vanilla", LA_EXACT, LA_FITTED, BANK_FITTED,
)  # fmt: skip
GROWTH_METHODS = (PRINTED, THEOREM, "BBSE soft 1,000", "bank")
PATHS = {"constant": "constant prior", "drift": "drift"}
EDGES = ("low", "middle", "high")
POINT_EVERY = 10
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
    """Name the curves of the picture: every tenth row, low, middle and high over the runs."""
    rows = _points(settings)
    found = {"row": rows.tolist()}
    for cell, result in results:
        if cell["measure"] == "curve" and cell["method"] in LOOK:
            for kind in ("cumulative", "each"):
                for edge, values in zip(EDGES, result[kind], strict=True):
                    found[f"{kind}.{cell['method']}.{edge}"] = values
    return found


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    n_rows, walk, horizons = settings["n_rows"], settings["walk"], settings["regret_horizons"]
    low, high = settings["band"]
    root = growth_measures(horizons, root_reference(horizons))
    by_root = float(np.divide(*root_reference([n_rows, n_rows // 2]))) - 1.0
    parts = [
        f"**Regret along a drift**: two normal classes {settings['regret_separation']:g} apart, Qc = 1; a bounded walk "
        f"of {walk['step_size']:g} a row between {walk['low']:g} and {walk['high']:g} from {walk['start']:g}, where "
        f"all start, another walk in every one of {settings['measured_runs']} runs. Mean expected cost beyond that of "
        f"the oracle (in brackets: {low:.0%} to {high:.0%} of the runs). Second / first: regret of the second half of "
        f"the rows over that of the first; linear growth gives 1, sqrt(T log T) {by_root:.2f}. LA with the known prior "
        "and the exact ratio is the oracle; with a ratio fitted by logistic regression on "
        f"{settings['training_rows']:,} rows, its regret is the ratio's error alone. SafeTracker has neither views nor "
        "labels: it is its slow bank. BBSE estimates from the first row on, with "
        f"{settings['holdout_rows']:,} held-out rows. The picture shows {settings['runs']} runs along one walk, the "
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
    for path, words in PATHS.items():
        for method in GROWTH_METHODS:
            name = f"{path}.{method}"
            shown = [f"{figures[f'growth.{name}.{horizon}']:,.1f}" for horizon in horizons if _is_decade(horizon)]
            measures = [f"{figures[f'{measure}.{name}']:.2f}" for measure in ("exponent", "last_exponent", "increase")]
            rows.append([f"{words}: {method}", *shown, *measures])
    header = [f"T = {horizon:,}" for horizon in horizons if _is_decade(horizon)]
    parts.append(markdown_table(["path and method", *header, "exponent", "last decade", "increase"], rows))
    return "\n".join(parts)


def pictures(record: dict[str, Any]) -> dict[str, Figure]:
    """Draw cumulative and per-row regret along the drift, and the final regret against the horizon."""
    figure, axes = panels(2, n_rows=2, width=5.0, height=3.2)
    _draw_curves(axes[0], axes[1], record["series"], record["settings"])
    for panel, path in zip(axes[2:], PATHS, strict=True):
        _draw_growth(panel, path, record["figures"], record["settings"])
    axes[2].set(title=f"(c) constant prior {record['settings']['regret_prior']:g}: regret against the horizon")
    axes[3].set(title=f"(d) drift {record['settings']['walk']['step_size']:g} a row: regret against the horizon")
    named = {name: line for panel in axes for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=3)
    return {"regret": figure}


def fitted_ratio(classes: GaussianClasses, settings: Settings, *, seed: int) -> tuple[float, float]:
    """Return offset and slope of the log ratio in x that a logistic regression finds on training rows."""
    truth = np.full(settings["training_rows"], settings["walk"]["start"])
    rows = classes.draw(truth, random_state=TRAINING_SEED + seed)
    model = LogisticRegression(C=1e6).fit(rows.features, rows.labels)
    return float(model.intercept_[0] - logit(rows.labels.mean())), float(model.coef_[0, 0])


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
    offset, slope = fitted_ratio(classes, settings, seed=seed)
    seen = stream._replace(log_ratios=np.insert(offset + slope * stream.features, 0, 0.0, axis=1))
    thresholds = binary_log_thresholds(_used(FITTED[method], seen, classes, seed, settings))
    # where the fitted ratio is at its threshold, the exact one is at
    exact: FloatArray = separation * (thresholds - offset) / slope - separation**2 / 2.0
    return exact


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


def _is_decade(horizon: int) -> bool:
    return set(str(horizon)) == {"1", "0"}


def _curve_table(figures: dict[str, float], n_rows: int) -> str:
    rows = []
    for method in METHODS:
        half, whole, low, high = (figures[f"{name}.{method}"] for name in ("half", "whole", "whole_low", "whole_high"))
        ratio = figures.get(f"second_over_first.{method}")
        rows.append([method, f"{half:.1f}", f"{whole:.1f} ({low:.1f} to {high:.1f})"])
        rows[-1] += ["" if ratio is None else f"{ratio:.2f}", PAPER.get(method, "")]
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
        ylabel="expected cost a row beyond the oracle",
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
