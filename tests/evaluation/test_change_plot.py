"""The figure of a stream is whole, whatever the classes are called."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from obil.evaluation.change_plot import change_figure, draw_change
from obil.online.reports.explain import explain
from obil.online.reports.stream_facts import MonitorFacts, StreamFacts
from obil.online.state.history import StreamHistory
from obil.online.state.monitoring_runs import MonitoringRun

NAMES = (
    ("ok", "fraud"),
    ("a quite long name for what is a legitimate transaction", "z a chargeback reported by the card holder"),
    ("chargeback", "disputed", "legitimate"),
    tuple(f"class {k} with a rather long name" for k in range(7)),
    ("WWWWWWWWWWWWWWWWWWWWWWWWWWWWWW", "$x_1$", "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 30),
)


def moved_stream(names: tuple[str, ...], *, n_rows: int = 1_600) -> tuple[StreamFacts, StreamHistory]:
    """Return the facts and the history of a stream whose last class rose halfway."""
    n_classes = len(names)
    then = np.full(n_classes, 0.9 / (n_classes - 1))
    now = np.full(n_classes, 0.6 / (n_classes - 1))
    then[-1], now[-1] = 0.1, 0.4
    history = StreamHistory(n_classes)
    rows = np.vstack([np.tile(then, (n_rows // 2, 1)), np.tile(now, (n_rows - n_rows // 2, 1))])
    history.add(rows, None, np.zeros(n_rows, dtype=bool))
    interval = np.stack([now * 0.9, np.minimum(now * 1.1, 1.0)], axis=1)
    return StreamFacts(names, n_classes - 1, n_rows, 0.9, then, now, interval), history


@pytest.mark.parametrize("names", NAMES, ids=lambda names: f"{len(names)} classes, {names[0]:.10}")
def test_the_legend_fits_and_the_axes_keep_their_width(names: tuple[str, ...], tmp_path: Path) -> None:
    facts, history = moved_stream(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a layout that gave up says so by a warning
        draw_change(facts, explain(facts, history), history, tmp_path / "change.png")
        figure = change_figure(facts, explain(facts, history), history)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_position().width > 0.8
    box = axes.get_legend().get_window_extent()
    assert box.x0 >= 0.0
    assert box.x1 <= figure.bbox.width


def test_curves_are_named_for_the_mean_posterior_that_they_show() -> None:
    facts, history = moved_stream(("ok", "fraud"))
    axes = change_figure(facts, explain(facts, history), history).axes[0]
    said = {text.get_text() for text in axes.get_legend().get_texts()}
    assert said == {
        "mean posterior of 'fraud'", "mean of 16 rows", "changed from here on", "in training",
        "current prior (90 % interval)",
    }  # fmt: skip


def test_a_curve_is_not_drawn_through_the_change_it_is_smoothed_apart_at() -> None:
    facts, history = moved_stream(("ok", "fraud"))
    report = explain(facts, history)
    axes = change_figure(facts, report, history).axes[0]
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert len(curves) == 2
    assert np.max(curves[0].get_xdata()) < report.changed_since < np.min(curves[1].get_xdata())
    assert np.allclose(curves[0].get_ydata(), 0.1)
    assert np.allclose(curves[1].get_ydata(), 0.4)


def test_restarts_and_earlier_alarms_are_marked() -> None:
    facts, history = moved_stream(("ok", "fraud"))
    monitored = StreamHistory(2)
    for bucket in history.buckets():
        monitored.add(
            np.tile(bucket.prevalence, (16, 1)),
            None,
            np.zeros(16, dtype=bool),
            log_evidence=[1.0] * len(monitored.ends(16)),
        )
    monitor = MonitorFacts(600, 1.0, np.log(200.0), None, "No difference.")
    past = (MonitoringRun(700, None), MonitoringRun(1_000, 854))
    again = replace(facts, monitor=monitor, monitoring_runs=past)
    axes = change_figure(again, explain(again, monitored), monitored).axes[-1]
    assert [text.get_text() for text in axes.texts] == ["alarm", "restarted"]
    xs = [line.get_xdata()[0] for line in axes.lines]
    assert {700, 1_000, 854} <= set(xs)
    curves = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 2]
    assert [(min(rows), max(rows)) for rows in curves] == [(16, 688), (704, 992), (1_008, 1_600)]
