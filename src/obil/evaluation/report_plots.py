"""Plot for the report as inline SVG: no script, font or file beside the page, colours from its style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, ndtri

from obil.arrays import FloatArray
from obil.calibration.reliability import ReliabilityBin
from obil.evaluation.markup import escaped, percent
from obil.evaluation.operating_points import FEW_ROWS, OperatingPoint
from obil.serving.holdout import Holdout

Tick = tuple[float, str]
LEVEL = 0.9  # of a bin's interval
SMALLEST_DOT, LARGEST_DOT = 2.5, 8.0  # radius
N_PLACES = 61
DECADES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5)
TICKS = tuple((level, percent(level)) for level in (0.0, 0.25, 0.5, 0.75, 1.0))
CURVES = (
    ("sensitivity", "sensitivity", "curve one"),
    ("PPV", "positive_predictive_value", "curve two"),
    ("NPV", "negative_predictive_value", "curve three"),
)


@dataclass(frozen=True, slots=True)
class Axes:
    """A plot as wide as the page shows it, so that letters of all plots are equally large; x and y run over [0, 1]."""

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


def reliability_plot(bins: Sequence[ReliabilityBin], holdout: Holdout, prior: FloatArray, title: str) -> str:
    """Return inline SVG of one class's reliability table at a prior (K,); larger dots hold more of the rows."""
    axes = Axes(352, 330)
    parts = [axes.frame(TICKS, TICKS, "predicted", "observed"), axes.line([0.0, 1.0], [0.0, 1.0], "ideal")]
    for row in bins:
        low, high = rate_interval(row, holdout, prior)
        at = axes.x(row.mean_posterior)
        parts.append(f'<line class="bar" x1="{at:.1f}" x2="{at:.1f}" y1="{axes.y(low):.1f}" y2="{axes.y(high):.1f}"/>')
        radius = SMALLEST_DOT + (LARGEST_DOT - SMALLEST_DOT) * np.sqrt(row.weight)
        parts.append(f'<circle class="dot" cx="{at:.1f}" cy="{axes.y(row.observed_rate):.1f}" r="{radius:.1f}"/>')
    points = "; ".join(
        f"{percent(row.mean_posterior)} predicted, {percent(row.observed_rate)} observed ({row.n_rows} rows)"
        for row in bins
    )
    return axes.svg("".join(parts), f"{title}: {points}.")


def rate_interval(
    row: ReliabilityBin, holdout: Holdout, prior: FloatArray, *, level: float = LEVEL
) -> tuple[float, float]:
    """Return Wilson's confidence interval of a bin's observed rate, moved from the rows' own class prior to `prior`.

    Weighting the classes adds one number to the log odds of every bin, so the interval of the plain count moves
    along; with more than two classes the rest is reweighted within itself too, and this is close, not exact.

    >>> rows = Holdout.of([[0.0, 0.0]] * 2, [0, 1])
    >>> low, high = rate_interval(ReliabilityBin(1, 0.5, 0.5, 1.0, 100), rows, rows.prior)
    >>> round(low, 2), round(high, 2)
    (0.42, 0.58)
    """
    k = row.class_number
    shift = float(logit(prior[k]) - logit(holdout.prior[k]))
    counted = float(expit(logit(row.observed_rate) - shift))
    z = float(ndtri((1.0 + level) / 2.0))
    n = max(row.n_rows, 1)
    middle = (counted + z**2 / (2 * n)) / (1.0 + z**2 / n)
    half = z * np.sqrt(counted * (1.0 - counted) / n + z**2 / (4 * n**2)) / (1.0 + z**2 / n)
    ends = expit(logit(np.clip([middle - half, middle + half], 0.0, 1.0)) + shift)
    return float(min(ends[0], row.observed_rate)), float(max(ends[1], row.observed_rate))


def plot_priors(training_prior: float) -> FloatArray:
    """Return evenly spaced places on the log scale of the prior, wide enough to hold the training prior.

    >>> plot_priors(0.1)[[0, -1]]
    array([0.001, 0.5  ])
    """
    low, high = min(1e-3, training_prior / 2.0), 0.5 if training_prior < 0.5 else (1.0 + training_prior) / 2.0
    return np.geomspace(low, high, N_PLACES)


def operating_plot(points: Sequence[OperatingPoint], training_prior: float) -> str:
    """Return inline SVG of points at `plot_priors`, with the training prior marked."""
    axes = Axes(496, 340, top=14.0)
    priors = np.array([point.prior for point in points])
    low, high = np.log(priors[0]), np.log(priors[-1])

    def place(prior: float) -> float:
        return float((np.log(prior) - low) / (high - low))

    ticks = [(place(prior), percent(prior)) for prior in DECADES if priors[0] * 0.999 <= prior <= priors[-1] * 1.001]
    across = [place(float(prior)) for prior in priors]
    at = axes.x(place(training_prior))
    parts = [
        axes.frame(ticks, TICKS, "prevalence of the class in the stream (prior)", ""),
        f'<line class="now" x1="{at:.1f}" x2="{at:.1f}" y1="{axes.y(0):.1f}" y2="{axes.y(1):.1f}"/>',
    ]
    spans = []
    for title, field, css in CURVES:
        values = [float(getattr(point, field)) for point in points]
        if title == "PPV":  # the PPV of a few rows at the top is noise
            values = [float("nan") if point.is_rough else value for value, point in zip(values, points, strict=True)]
        parts.append(axes.line(across, values, css))
        numbers = [value for value in values if np.isfinite(value)]
        spans.append(
            f"{title} from {percent(numbers[0])} to {percent(numbers[-1])}" if numbers else f"{title} is undefined"
        )
    span = f"{percent(float(priors[0]))} to {percent(float(priors[-1]))}"
    return axes.svg("".join(parts), f"As the prior goes from {span}: {', '.join(spans)}. The table has the values.")


def legend() -> str:
    """Return the key of the curves, as markup for a caption."""
    samples = [
        f'<span class="key"><svg viewBox="0 0 30 8" aria-hidden="true"><path class="{css}" d="M0 4L30 4"/></svg>'
        f"{title}</span>"
        for title, _, css in CURVES
    ]
    mark = '<svg viewBox="0 0 30 8" aria-hidden="true"><path class="now" d="M0 4L30 4"/></svg>'
    note = f"PPV is drawn where {FEW_ROWS} hits and {FEW_ROWS} false alarms or more support it."
    return " ".join([*samples, f'<span class="key">{mark}training prior</span>', note])
