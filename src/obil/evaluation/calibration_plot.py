"""Plot a reliability diagram: the observed rate against the predicted probability."""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit, ndtri

from obil.arrays import FloatArray
from obil.calibration.reliability import ReliabilityBin
from obil.evaluation.inline_svg import Axes
from obil.evaluation.markup import percent
from obil.serving.holdout import Holdout

LEVEL = 0.9
TICKS = tuple((level, percent(level)) for level in (0.0, 0.25, 0.5, 0.75, 1.0))
SMALLEST_DOT, LARGEST_DOT = 2.5, 8.0  # radius


def reliability_plot(bins: Sequence[ReliabilityBin], holdout: Holdout, prior: FloatArray, title: str) -> str:
    """Return inline SVG of one class's reliability table at a prior (K,); larger dots hold more of the rows."""
    axes = Axes(310, 300)
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
