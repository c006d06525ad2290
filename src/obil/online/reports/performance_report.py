"""Hold how good the decisions are: expected of the next rows, and measured on the last ones."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from obil.online.state.outcome_tally import ENOUGH_LABELS
from obil.readable import Table, as_html, as_text

# Expected from posteriors; known from labels; labels for the alerts and posteriors for what was missed, or
# the reverse; counted, as alerts are; unknown where nothing bounds the error of what is expected.
Source: TypeAlias = Literal["expected", "labels", "both", "counted", "unknown"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval and where it comes from.

    NaN with [0, 1] where there is nothing to measure, NaN with a wide interval where the source is "unknown".
    """

    value: float
    low: float
    high: float
    source: Source


@dataclass(frozen=True, slots=True)
class Performance:
    """How good the decisions are, now or over the remembered rows."""

    precision: Estimate
    recall: Estimate
    f1: Estimate
    alert_rate: Estimate
    cost: Estimate | None  # per row; None where no costs are given
    level: float  # of the intervals
    trusted: bool  # False after the monitor's alarm: what is expected then need not hold
    n_rows: float  # decided rows it is about, each counted by how recent it is; 0 for now
    n_labels: float  # effective number of labels among them
    one_class_labels: bool = False  # whether all labels are of one class though others were to be expected

    def describe(self) -> str:
        """Return one sentence.

        >>> sure = Estimate(0.5, 0.5, 0.5, "counted")
        >>> Performance(sure, sure, sure, sure, None, 0.9, True, 0.0, 0.0).describe()
        'Now: precision 50 % (50 to 50, counted), recall 50 % (50 to 50, counted), F1 50 % (50 to 50, counted), alerts 50 % (50 to 50, counted).'
        """  # noqa: E501  # one sentence is one line
        if np.isnan(self.alert_rate.value):
            return "No rows yet."
        when = f"Over the last {self.n_rows:,.0f} rows or so" if self.n_rows else "Now"
        parts = []
        for name, one in self.figures():
            value, interval, source = _cells(name, one)
            parts.append(f"{name} {value}" + (f" ({interval.removesuffix(' %')}, {source})" if source else ""))
        return "; ".join([f"{when}: {', '.join(parts)}", *self.doubts()]) + "."

    def figures(self) -> list[tuple[str, Estimate]]:
        """Return every figure with its name."""
        found = [("precision", self.precision), ("recall", self.recall), ("F1", self.f1), ("alerts", self.alert_rate)]
        return found if self.cost is None else [*found, ("cost per row", self.cost)]

    def doubts(self) -> list[str]:
        """Return why the figures may not hold."""
        found = [] if self.trusted else ["the monitor has alarmed, so do not trust what is expected"]
        if self.one_class_labels:
            found.append("all labels are of one class where others were to be expected, so do not trust them")
        unknown = [name for name, one in self.figures() if one.source == "unknown"]
        if unknown:
            found.append(
                f"{' and '.join(unknown)} cannot be known without labels here: feed back those of {ENOUGH_LABELS:.0f} "
                f"alerts, and of other rows at random until {ENOUGH_LABELS:.0f} positives are among them"
            )
        return found


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
            (name, *_cells(name, now), *_cells(name, window))
            for (name, now), (_, window) in zip(self.now.figures(), self.window.figures(), strict=True)
        ]
        title = f"Performance, with {100 * self.now.level:.3g} % intervals"
        header = ("", "now", "interval", "from", f"last {self.window.n_rows:,.0f} rows", "interval", "from")
        return Table(title, header, rows, list(dict.fromkeys([*self.now.doubts(), *self.window.doubts()])))


def _cells(name: str, one: Estimate) -> tuple[str, str, str]:
    if np.isnan(one.value) and one.source != "unknown":
        return "undefined", "", ""
    unit, scale = ("", 1) if name == "cost per row" else (" %", 100)
    value = "unknown" if np.isnan(one.value) else f"{scale * one.value:.3g}{unit}"
    source = "" if one.source == "unknown" else one.source
    return value, f"{scale * one.low:.3g} to {scale * one.high:.3g}{unit}", source
