"""Plot what happened to a stream: the prevalence of a class, the threshold, and the evidence against label shift."""

import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.evaluation.prior_plots import COLOURS
from obil.online.reports.explain import ChangeReport
from obil.online.reports.stream_facts import StreamFacts
from obil.online.state.history import Bucket, StreamHistory

FORMATS = (".png", ".svg", ".pdf")
SMOOTHING = 0.04  # of the buckets on either side of a point of the curve: single buckets are noisy
MOST_CLASSES = 5  # drawn, those that moved most
HIGHEST_EVIDENCE = 2.5  # of the alarm's, in logarithms: beyond it, the curve just leaves the figure
LOWEST_EVIDENCE = -2.0
MOST_TICKS = 4
FINE_STEPS = (
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0, 3.0),
)
TICK_STEPS = (*((steps, 1) for steps in FINE_STEPS), *(((1.0,), every) for every in (1, 2, 3, 5, 10, 20, 50)))
GREY = "#666666"
LONGEST_NAME = 24  # letters of a class beside a curve
MARGINS = 1.1  # inches of the width that a legend leaves to the axis and its numbers


def draw_change(facts: StreamFacts, report: ChangeReport, history: StreamHistory, path: Path) -> None:
    """Write a figure of a stream's history, PNG, SVG or PDF by the name of the file."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidInputError(f"a figure must be a file that ends in {', '.join(FORMATS)}, got {path.name!r:.80}")
    figure = change_figure(facts, report, history)
    with mpl.rc_context({"svg.hashsalt": "obil"}), _boxes_for_unknown_letters():  # the same bytes each time
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def change_figure(facts: StreamFacts, report: ChangeReport, history: StreamHistory) -> Figure:
    """Return the figure of a stream's history, as matplotlib's."""
    buckets = history.buckets()
    if not buckets:
        raise InvalidInputError("there is nothing to draw: the stream has no rows yet")
    with_threshold = any(bucket.threshold is not None for bucket in buckets)
    with_evidence = facts.monitor is not None and any(bucket.log_evidence is not None for bucket in buckets)
    heights = [2.0] + [1.0] * (with_threshold + with_evidence)
    figure = Figure(figsize=(9.0, 1.5 + 1.45 * sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    rows = np.array([bucket.first_row + bucket.n_rows / 2.0 for bucket in buckets])
    end = buckets[-1].first_row + buckets[-1].n_rows
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        if report.changed_since:
            panel.axvline(report.changed_since, color=GREY, linewidth=1.2, linestyle=":", label="changed from here on")
    _draw_prevalence(panels[0], facts, report, buckets, rows, end)
    if with_threshold:
        _draw_threshold(panels[1], facts, buckets, rows)
    if with_evidence:
        _draw_evidence(panels[-1], facts, buckets)
    panels[-1].set(xlabel="row", xlim=(0, end * 1.02))
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda row, _: f"{row:,.0f}"))
    figure.align_ylabels()
    headline = textwrap.fill(report.sentences[0], 105) + f"\nTo do: {report.action}."
    figure.suptitle(headline, x=0.01, ha="left", fontsize=11, parse_math=False)
    return figure


def _draw_prevalence(
    axes: Any, facts: StreamFacts, report: ChangeReport, buckets: Sequence[Bucket], rows: FloatArray, end: int
) -> None:
    subject = facts.class_names.index(report.class_name)
    drawn = [subject]
    if len(facts.class_names) > 2:
        moves = np.abs(np.log(facts.prior / facts.start_prior))
        others = [k for k in np.argsort(-moves, kind="stable").tolist() if k != subject]
        drawn += others[: MOST_CLASSES - 1]
    weights = np.array([bucket.n_rows for bucket in buckets], dtype=np.float64)
    cut = sum(bucket.first_row < (report.changed_since or 0) for bucket in buckets)
    parts = (slice(0, cut), slice(cut, None))  # a change would be smoothed into a slope that starts before it
    reach = math.ceil(SMOOTHING * len(buckets)) if len(buckets) > 4 else 0
    top = 0.0
    for colour, k in zip(COLOURS[1:], drawn, strict=False):
        means = np.array([bucket.prevalence[k] for bucket in buckets])
        curves = [_smoothed(means[part], weights[part], reach) for part in parts]
        name = _short_name(facts.class_names[k])
        if k == subject:
            each = f"mean of {buckets[0].n_rows:,} rows"
            axes.scatter(rows, means, s=9.0, color=colour, alpha=0.35, linewidths=0.0, label=each)
        axes.plot(rows[parts[0]], curves[0], color=colour, linewidth=1.8)
        axes.plot(rows[parts[1]], curves[1], color=colour, linewidth=1.8, label=f"mean posterior of {name}")
        curve = np.concatenate(curves)
        origin = "in training" if facts.starts_at_training else "at the start"
        axes.axhline(
            facts.start_prior[k],
            color="black" if len(drawn) == 1 else colour,
            linewidth=1.0,
            linestyle="--",
            label=origin if k == subject else None,
        )
        top = max(top, float(curve.max()), float(np.quantile(means, 0.98)), float(facts.start_prior[k]))
    if report.interval is not None:
        low, high = report.interval
        source = "current prior, by labels" if report.by_labels else "current prior"
        label = f"{source} ({100.0 * report.level:.3g} % interval)"
        axes.errorbar(
            [end], [report.prior_now], yerr=[[max(report.prior_now - low, 0.0)], [max(high - report.prior_now, 0.0)]],
            fmt="o", color=COLOURS[0], markersize=5.0, capsize=4.0, linewidth=1.8, clip_on=False, label=label,
        )  # fmt: skip
        top = max(top, high)
    axes.set(ylabel="prevalence", ylim=(0.0, min(1.08 * top, 1.02)))
    digits = 0 if top >= 0.1 else 1 if top >= 0.01 else 2
    axes.yaxis.set_major_formatter(FuncFormatter(lambda level, _: f"{100.0 * level:.{digits}f} %"))
    _draw_legend(axes)


def _draw_legend(axes: Any) -> None:
    """Put a legend above an axis, in as many columns as the figure is wide enough for."""
    handles, labels = axes.get_legend_handles_labels()
    # curves first: they may be many, and stand below each other
    order = sorted(range(len(labels)), key=lambda i: labels[i].startswith("mean posterior"), reverse=True)
    widest = (axes.figure.get_figwidth() - MARGINS) * axes.figure.dpi
    for ncols in range(len(labels), 0, -1):
        legend = axes.legend(
            [handles[i] for i in order], [labels[i] for i in order], frameon=False, loc="lower left",
            bbox_to_anchor=(0.0, 1.0), ncols=ncols, borderaxespad=0.2, fontsize=9,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
        with _boxes_for_unknown_letters():
            if legend.get_window_extent().width <= widest:
                break


@contextmanager
def _boxes_for_unknown_letters() -> Iterator[None]:
    """Draw letters that the font lacks as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _short_name(name: str) -> str:
    """Return a class's name, short enough to stand beside a curve.

    >>> _short_name("fraud"), _short_name("a chargeback reported by the card holder")
    ("'fraud'", "'a chargeback reported b…'")
    """
    return f"'{name}'" if len(name) <= LONGEST_NAME else f"'{name[: LONGEST_NAME - 1]}…'"


def _draw_threshold(axes: Any, facts: StreamFacts, buckets: Sequence[Bucket], rows: FloatArray) -> None:
    thresholds = np.array([np.nan if bucket.threshold is None else bucket.threshold for bucket in buckets])
    axes.plot(rows, thresholds, color=COLOURS[2], linewidth=1.8)
    start = facts.start_log_threshold
    if start is not None and math.isfinite(start):
        axes.axhline(start, color="black", linewidth=1.0, linestyle="--")
    low, high = axes.get_ylim()
    if high - low < 1.0:  # a threshold that hardly moves should look like it
        middle = (low + high) / 2.0
        axes.set_ylim(middle - 0.5, middle + 0.5)
    axes.set_ylabel("alert from")
    _odds_axis(axes)


def _draw_evidence(axes: Any, facts: StreamFacts, buckets: Sequence[Bucket]) -> None:
    monitor = facts.monitor
    if monitor is None:
        return
    ends = np.array([bucket.first_row + bucket.n_rows for bucket in buckets])
    values = np.array([np.nan if bucket.log_evidence is None else bucket.log_evidence for bucket in buckets])
    run_of = np.searchsorted([past.ended_after for past in facts.monitoring_runs], ends)
    for number in np.unique(run_of):  # each monitoring run has a curve of its own: its evidence starts at nothing
        axes.plot(ends[run_of == number], values[run_of == number], color=COLOURS[1], linewidth=1.8)
    axes.axhline(monitor.log_alarm, color=COLOURS[0], linewidth=1.2, linestyle="--")
    axes.annotate(
        "alarm", (0.0, monitor.log_alarm), xytext=(4, 3), textcoords="offset points", color=COLOURS[0], fontsize=9
    )
    if monitor.alarm_row is not None:
        axes.plot([monitor.alarm_row], [monitor.log_alarm], marker="o", color=COLOURS[0], markersize=6.0)
    for past in facts.monitoring_runs:
        axes.axvline(past.ended_after, color=GREY, linewidth=1.2, linestyle="-.")
        if past.alarm_row is not None:
            axes.plot(
                [past.alarm_row], [monitor.log_alarm], marker="o", color=COLOURS[0], markersize=6.0, fillstyle="none"
            )
    if facts.monitoring_runs:
        axes.annotate(
            "restarted", (facts.monitoring_runs[-1].ended_after, 1.0), xycoords=("data", "axes fraction"),
            xytext=(4, -9), textcoords="offset points", color=GREY, fontsize=9,
        )  # fmt: skip
    bottom = max(float(np.nanmin(values)), LOWEST_EVIDENCE * monitor.log_alarm) - 0.5
    top = min(max(1.2 * float(np.nanmax(values)), 1.3 * monitor.log_alarm), HIGHEST_EVIDENCE * monitor.log_alarm)
    axes.set(ylabel="evidence against\nlabel shift", ylim=(min(bottom, -0.5), top))
    _odds_axis(axes)


def _odds_axis(axes: Any) -> None:
    """Put round odds beside an axis of log ratios: 1, 2 and 5 times powers of ten, or as many of these as fit."""
    low, high = axes.get_ylim()
    digits = range(math.floor(low / math.log(10.0)) - 1, math.ceil(high / math.log(10.0)) + 1)
    for steps, every in TICK_STEPS:
        ticks = [math.log(step) + power * math.log(10.0) for power in digits if power % every == 0 for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MOST_TICKS:
            break
    axes.set_yticks(ticks, [_odds(tick) for tick in ticks])


def _odds(log_ratio: float) -> str:
    """Return a log ratio as odds that fit beside an axis.

    >>> _odds(3.0), _odds(0.0), _odds(-2.0), _odds(20.0)
    ('20:1', '1:1', '1:7.4', '5e8:1')
    """
    size = math.exp(min(abs(log_ratio), 700.0))
    if size < 10.0:
        text = f"{size:.2g}"
    elif size < 1e5:
        text = f"{size:,.0f}"
    else:
        text = f"{size:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{text}:1" if log_ratio > -1e-9 else f"1:{text}"


def _smoothed(values: FloatArray, weights: FloatArray, reach: int) -> FloatArray:
    """Return weighted means over `reach` neighbours on either side, fewer at the ends, (n,)."""
    if not len(values):
        return values
    kernel = np.ones(2 * reach + 1)
    inside = slice(reach, reach + len(values))
    return np.asarray(np.convolve(values * weights, kernel)[inside] / np.convolve(weights, kernel)[inside])
