"""Plot PPV, NPV and sensitivity against the prevalence of the class."""

from collections.abc import Sequence

import numpy as np

from obil.arrays import FloatArray
from obil.evaluation.inline_svg import Axes
from obil.evaluation.markup import percent
from obil.evaluation.operating_points import FEW_ROWS, OperatingPoint

N_PLACES = 61
DECADES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5)
Y_TICKS = tuple((level, percent(level)) for level in (0.0, 0.25, 0.5, 0.75, 1.0))
CURVES = (
    ("sensitivity", "sensitivity", "curve one"),
    ("PPV", "positive_predictive_value", "curve two"),
    ("NPV", "negative_predictive_value", "curve three"),
)


def plot_priors(training_prior: float) -> FloatArray:
    """Return evenly spaced places on the log scale of the prior, wide enough to hold the training prior.

    >>> plot_priors(0.1)[[0, -1]]
    array([0.001, 0.5  ])
    """
    low, high = min(1e-3, training_prior / 2.0), 0.5 if training_prior < 0.5 else (1.0 + training_prior) / 2.0
    return np.geomspace(low, high, N_PLACES)


def operating_plot(points: Sequence[OperatingPoint], training_prior: float) -> str:
    """Return inline SVG of points at `plot_priors`, with the training prior marked."""
    axes = Axes(440, 300, left=54.0, top=14.0)
    priors = np.array([point.prior for point in points])
    low, high = np.log(priors[0]), np.log(priors[-1])

    def place(prior: float) -> float:
        return float((np.log(prior) - low) / (high - low))

    ticks = [(place(prior), percent(prior)) for prior in DECADES if priors[0] * 0.999 <= prior <= priors[-1] * 1.001]
    across = [place(float(prior)) for prior in priors]
    at = axes.x(place(training_prior))
    parts = [
        axes.frame(ticks, Y_TICKS, "prevalence of the class in the stream (prior)", ""),
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
