"""Plot how trackers followed the prior of a stream, simulated or replayed."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from obil.arrays import FloatArray
from obil.evaluation.backtest_advice import BANK, FAST, LABELLED, SAFE, STATIC, TITLES
from obil.evaluation.backtest_result import Backtest

# Okabe and Ito's colours, which colour-blind readers can distinguish
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TRACKED = ("#E69F00", "#CC79A7", "#009E73", "#D55E00", "#56B4E9")  # beside the last estimate, which is blue
LARGEST_WIDTH = 2_000  # points per curve; more cannot be seen
DRAWN = (STATIC, BANK, SAFE, FAST, LABELLED)
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
        curves = {"local prior, counted": (found.truth, "black", 2.0)}
        for method, colour in zip(DRAWN, COLOURS[1:] + COLOURS[:1], strict=False):
            curves[TITLES[method]] = (found.priors[method], "grey" if method == STATIC else colour, 1.2)
        for name, (priors, colour, width) in curves.items():
            means = np.add.reduceat(priors[:, k], edges[:-1]) / np.diff(edges)
            axes.plot(rows, means, color=colour, linewidth=width, label=name)
        axes.set(xlim=(0, n_rows), ylim=(0, None))
        axes.set_ylabel(f"prior of {found.classes[k]!s:.30}", parse_math=False)  # a $ in a name is only that
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel(
        f"row after the {found.n_earlier:,} that were fitted on, in the order of time\n"
        f"local prior: counted in {found.rows_around}, error about +-{found.truth_error:.3f}"
    )
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name in letters that the font lacks is drawn as boxes
        figure.savefig(path, dpi=130, format="png")
