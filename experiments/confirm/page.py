"""Write the comparison: findings first, then tables."""

from collections.abc import Mapping

from experiments.runner import Settings


def text(figures: Mapping[str, float], settings: Settings) -> str:
    """Write the page."""
    return f"{figures['sets']:.0f} sets\n"
