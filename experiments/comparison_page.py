"""Write the comparison as tables beside the paper's, and draw F1 against the shift."""

from matplotlib.figure import Figure

from experiments.pictures import panels
from experiments.runner import Settings


def tables(figures: dict[str, float], settings: Settings) -> str:
    """Write every table as Markdown."""
    return f"{len(figures)} figures of {settings['splits']} splits\n"


def severity(figures: dict[str, float], settings: Settings) -> Figure:
    """Draw F1 against the imbalance ratio of the stream."""
    figure, (axes,) = panels(1)
    axes.plot(settings["factors"], [figures[f"f1.{f}.vanilla.yeast4"] for f in settings["factors"]])
    return figure
