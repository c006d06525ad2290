"""Draw the plots of the experiments alike: legible, safe for the colour-blind, the same bytes each time."""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito: safe for the colour-blind, and in print
COLOURS = {
    "orange": "#D55E00",
    "blue": "#0072B2",
    "green": "#009E73",
    "pink": "#CC79A7",
    "amber": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
    "grey": "#666666",
}
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "obil",
    "svg.fonttype": "path",
}
_PLACES = re.compile(r'\b(?:d|x|y)="[^"]*"')  # where coordinates stand: paths and marks
_NUMBER = re.compile(r"-?\d+\.\d+")


def style() -> AbstractContextManager[None]:
    """Return the context in which plots are drawn and saved."""
    return mpl.rc_context(STYLE)


def panels(n_columns: int, *, n_rows: int = 1, width: float = 3.6, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, and the panels in reading order."""
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return figure, list(figure.subplots(n_rows, n_columns, squeeze=False).ravel())


def band(
    axes: Axes, x: Sequence[float], low: Sequence[float], middle: Sequence[float], high: Sequence[float], *,
    colour: str, label: str, style: str = "-",
) -> None:  # fmt: skip
    """Draw a curve with the band its runs lie in."""
    axes.fill_between(x, low, high, color=COLOURS[colour], alpha=0.18, linewidth=0.0)
    axes.plot(x, middle, color=COLOURS[colour], linestyle=style, label=label)


def save_plot(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, without a date, and with no more digits than can be seen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    path.write_text(_PLACES.sub(lambda place: _NUMBER.sub(_rounded, place[0]), text.getvalue()))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")
