"""Draw the ranks with the critical difference, and what adapting gains at each shift."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from experiments.runner import Settings


def ranks(figures: Mapping[str, float]) -> Figure:
    """Draw mean ranks, joined where they are not significantly different."""
    return Figure()


def adapting(figures: Mapping[str, float], settings: Settings) -> Figure:
    """Draw what adapting gains at each shift."""
    return Figure()
