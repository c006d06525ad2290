"""Plot how trackers followed the prior of a stream, simulated or replayed."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from obil.arrays import FloatArray
from obil.evaluation.backtest_advice import BANK, FAST, LABELLED, SAFE, STATIC, TITLES
from obil.evaluation.backtest_result import Backtest

# Okabe and Ito's colours, which colour-blind readers can distinguish
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TRACKED = ("#E69F00", "#CC79A7", "#009E73", "#D55E00", "#56B4E9")  # beside the last estimate, which is blue
LARGEST_WIDTH = 2_000  # points per curve; more cannot be seen
TRUTH = "local prior, counted"
# (colour, line style, width), the first drawn below: where curves are the same, the wider one shows beside the dashes
CURVES = {
    TRUTH: ("#BBBBBB", "-", 4.5),
    SAFE: (COLOURS[1], "-", 2.4),
    LABELLED: (COLOURS[0], "-", 1.1),
    BANK: (COLOURS[2], (0, (5, 2)), 1.2),
    FAST: (COLOURS[3], (0, (4, 2, 1, 2)), 1.4),
    STATIC: ("#333333", (0, (1, 2)), 1.6),
}
CONNECTION = {"arrowstyle": "-", "linewidth": 0.8, "shrinkA": 1, "shrinkB": 0, "relpos": (0.0, 0.5)}
LABEL_GAP = 0.075  # least distance between the names of curves, in heights of a panel
MOST_PANELS = 6
MOST_POINTS = 500  # per curve of a backtest: with labels each row has its own prior, and more would show only that


def draw_tracking(truth: FloatArray, estimates: Mapping[str, FloatArray], path: Path) -> None:
    """Write a PNG of the true positive prior (n,) and each tracker's estimate of it (n,), the last one on top."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows = np.unique(np.linspace(0, len(truth) - 1, min(len(truth), LARGEST_WIDTH)).astype(int))
    axes.plot(rows, truth[rows], color="black", linewidth=2.0, label="truth (oracle)")
    *_, last = estimates
    for colour, (name, estimate) in zip(TRACKED, estimates.items(), strict=False):
        own, width = (COLOURS[1], 2.2) if name == last else (colour, 0.8)
        axes.plot(rows, estimate[rows], color=own, linewidth=width, label=name)
    axes.set(xlabel="row", ylabel="positive prior", xlim=(0, len(truth)), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper center", ncols=1 + len(estimates))
    figure.savefig(path, dpi=130)


def draw_backtest(found: Backtest, path: Path) -> None:
    """Write a PNG of the local prior of the positive class, and of each method's prior.

    Of more than two classes each has a panel, or the six whose prior moved most. A point is a mean over its rows.
    """
    moved = np.argsort(-found.truth.std(axis=0), kind="stable")[:MOST_PANELS]
    shown = [1] if len(found.classes) == 2 else sorted(moved.tolist())
    figure = Figure(figsize=(9.0, 1.6 + 2.8 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
    n_rows = found.n_later
    edges = np.unique(np.linspace(0, n_rows, min(n_rows, MOST_POINTS) + 1).astype(int))
    rows = (edges[:-1] + edges[1:]) / 2.0
    for axes, k in zip(panels, shown, strict=True):
        ends = {}
        for name, (colour, style, width) in CURVES.items():
            priors = found.truth if name == TRUTH else found.priors[name]
            means = np.add.reduceat(priors[:, k], edges[:-1]) / np.diff(edges)
            title = TITLES.get(name, name)
            axes.plot(rows, means, color=colour, linestyle=style, linewidth=width, label=title)
            ends[title] = float(means[-1])
        axes.set(xlim=(0, n_rows), ylim=(0, None))
        axes.set_ylabel(f"prior of {found.classes[k]!s:.30}", parse_math=False)  # a $ in a name is only that
        _name_ends(axes, ends)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(
        f"row after the {found.n_earlier:,} that were fitted on, in the order of time\n"
        f"local prior: counted in {found.rows_around}, error about +-{found.truth_error:.3f}"
    )
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name in letters that the font lacks is drawn as boxes
        figure.savefig(path, dpi=130, format="png")


def _name_ends(axes: Any, ends: Mapping[str, float]) -> None:
    """Write the name of each curve beside its end, as high as it ends or where there is room."""
    colours = {TITLES.get(name, name): colour for name, (colour, *_) in CURVES.items()}
    names = sorted(ends, key=lambda name: ends[name])
    levels = np.array([ends[name] for name in names]) / axes.get_ylim()[1]
    for name, level, place in zip(names, levels, spread(levels, LABEL_GAP), strict=True):
        axes.annotate(
            name, (1.0, level), xytext=(1.025, place), xycoords="axes fraction", textcoords="axes fraction",
            color="#666666" if name == TRUTH else colours[name], fontsize=9, va="center", annotation_clip=False,
            arrowprops={"color": colours[name]} | CONNECTION,
        )  # fmt: skip


def spread(levels: FloatArray, gap: float) -> FloatArray:
    """Return the places in [0, 1] nearest to increasing levels (n,) that are each a gap or more above the one before.

    >>> spread(np.array([0.5, 0.5, 0.9]), 0.1).round(2)
    array([0.45, 0.55, 0.9 ])
    >>> spread(np.array([0.9, 1.0, 1.0]), 0.1).round(2)
    array([0.8, 0.9, 1. ])
    """
    steps = gap * np.arange(len(levels))
    places: FloatArray = isotonic_regression(levels - steps).x + steps
    return np.clip(places, steps, 1.0 - steps[::-1])
