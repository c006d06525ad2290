"""Put side by side what is to be expected of the next rows, and how good the last ones were."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

from obil.arrays import FloatArray
from obil.bayes.costs import Costs
from obil.online.reports.performance import Estimate, Performance, performance_now, performance_over_window
from obil.online.state.outcome_tally import OutcomeTally
from obil.readable import Table, as_html, as_text
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import calibration_variance, widen


class PerformanceReport(NamedTuple):
    """What is to be expected of the next rows, and how good the last ones were.

    >>> from obil import OnlineClassifier, RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> report = OnlineClassifier(model).performance()
    >>> report.now.recall.source  # no label has come
    'expected'
    """

    now: Performance
    window: Performance

    def describe(self) -> str:
        """Return a sentence on each."""
        return f"{self.now.describe()} {self.window.describe()}"

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        rows = [
            (name, *_cells(now, name), *_cells(window, name))
            for (name, now), (_, window) in zip(self.now.figures(), self.window.figures(), strict=True)
        ]
        title = f"Performance, with {100 * self.now.level:.3g} % intervals"
        header = ("", "now", "interval", "from", f"last {self.window.n_rows:,.0f} rows", "interval", "from")
        return Table(title, header, rows, self.now.doubts())


def performance_report(
    tally: OutcomeTally,
    model: RatioModel,
    *,
    prior: FloatArray,  # (K,)
    interval: FloatArray | None,  # (K, 2) the tracker's own
    log_threshold: float | None,
    positive: int,
    costs: Costs | None,
    level: float,
    trusted: bool,
    one_class_labels: bool = False,
) -> PerformanceReport:
    """Return both, from what a stream holds at one moment."""
    known: dict[str, Any] = {
        "prior": prior,
        "interval": with_calibration_spread(interval, model, prior, level),
        "log_threshold": math.inf if log_threshold is None else log_threshold,
        "positive": positive,
        "costs": costs if costs is not None and costs.n_classes == 2 else None,
        "level": level,
        "trusted": trusted,
    }
    both = performance_now(model, **known), performance_over_window(tally, model, **known)
    return PerformanceReport(*(replace(one, one_class_labels=one_class_labels) for one in both))


def with_calibration_spread(
    interval: FloatArray | None, model: RatioModel, prior: FloatArray, level: float
) -> FloatArray | None:
    """Return a tracker's interval, (K, 2), with the calibrator's own uncertainty in it."""
    if interval is None:
        return None
    return widen(prior, interval, calibration_variance(model.calibrator, model.holdout_, prior), level=level)


def _cells(one: Estimate, name: str) -> tuple[str, str, str]:
    if math.isnan(one.value):
        return "undefined", "", ""
    if name == "cost per row":
        return f"{one.value:.3g}", f"{one.low:.3g} to {one.high:.3g}", one.source
    return f"{100 * one.value:.3g} %", f"{100 * one.low:.3g} to {100 * one.high:.3g} %", one.source
