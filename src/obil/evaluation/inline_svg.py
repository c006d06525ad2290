"""Draw axes as inline SVG: no script, no font and no file beside the page, colours from its style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from obil.evaluation.markup import escaped

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Axes:
    """A plot of given size; x and y run over the unit square."""

    width: float
    height: float
    left: float = 58.0
    right: float = 22.0
    top: float = 10.0
    bottom: float = 42.0

    def x(self, place: float) -> float:
        """Return where a place in [0, 1] lies across."""
        return self.left + place * (self.width - self.left - self.right)

    def y(self, place: float) -> float:
        """Return where a place in [0, 1] lies from the top."""
        return self.height - self.bottom - place * (self.height - self.top - self.bottom)

    def frame(self, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick], x_label: str, y_label: str) -> str:
        """Return grid lines, tick labels and the names of the axes."""
        parts = []
        for place, text in x_ticks:
            at = self.x(place)
            parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{self.y(0):.1f}" y2="{self.y(1):.1f}"/>')
            parts.append(f'<text x="{at:.1f}" y="{self.y(0) + 18:.1f}" text-anchor="middle">{escaped(text)}</text>')
        for place, text in y_ticks:
            at = self.y(place)
            parts.append(f'<line class="grid" x1="{self.x(0):.1f}" x2="{self.x(1):.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
            parts.append(f'<text x="{self.x(0) - 6:.1f}" y="{at + 4:.1f}" text-anchor="end">{escaped(text)}</text>')
        middle, low = self.x(0.5), self.height - 6
        parts.append(f'<text x="{middle:.1f}" y="{low:.1f}" text-anchor="middle">{escaped(x_label)}</text>')
        turned = f"translate(12 {self.y(0.5):.1f}) rotate(-90)"
        parts.append(f'<text transform="{turned}" text-anchor="middle">{escaped(y_label)}</text>')
        return "".join(parts)

    def line(self, xs: Sequence[float], ys: Sequence[float], css: str) -> str:
        """Return a curve through the places that are numbers, broken where one is not."""
        parts, open_part = [], False
        for across, up in zip(xs, ys, strict=True):
            if np.isfinite(across) and np.isfinite(up):
                parts.append(f"{'L' if open_part else 'M'}{self.x(across):.1f} {self.y(up):.1f}")
            open_part = bool(np.isfinite(across) and np.isfinite(up))
        return f'<path class="{css}" d="{"".join(parts)}"/>' if parts else ""

    def svg(self, content: str, alternative: str) -> str:
        """Return the drawing with its alternative text."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escaped(alternative)}">'
            f"{content}</svg>"
        )
