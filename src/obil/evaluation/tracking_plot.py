"""Draw how trackers followed the prior of a stream."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from obil.arrays import FloatArray

# Okabe and Ito's colours, which colour-blind readers can distinguish
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
LARGEST_WIDTH = 2_000  # points per curve; more cannot be seen


def draw_tracking(truth: FloatArray, estimates: Mapping[str, FloatArray], path: Path) -> None:
    """Write a PNG of the true positive prior (n,) and each tracker's estimate of it (n,)."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows = np.unique(np.linspace(0, len(truth) - 1, min(len(truth), LARGEST_WIDTH)).astype(int))
    axes.plot(rows, truth[rows], color="black", linewidth=2.0, label="truth (oracle)")
    for colour, (name, estimate) in zip(COLOURS, estimates.items(), strict=False):
        axes.plot(rows, estimate[rows], color=colour, linewidth=1.3, label=name)
    axes.set(xlabel="row", ylabel="positive prior", xlim=(0, len(truth)), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper center", ncols=1 + len(estimates))
    figure.savefig(path, dpi=130)
