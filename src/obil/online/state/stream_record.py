"""Keep the record of a stream, and take single rows in by blocks: each costs a fraction of what it does alone."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Self

import numpy as np

from obil.arrays import BoolArray, FloatArray
from obil.bayes.posterior import posteriors_at
from obil.online.decision import Decisions
from obil.online.state.history import HistoryMemory, StreamHistory
from obil.online.state.outcome_tally import OutcomeTally, TallyMemory

BLOCK = 256  # rows, or labels, that wait at most

_NO_ROWS = (np.empty(0), np.empty(0, dtype=np.bool_), np.empty(0))


class StreamRecord:
    """The tally and the history of a stream: single rows and labels wait for a block, or for whoever reads either.

    Rows and labels, however cut and whenever read, leave the same bits as if each had been added at once.

    >>> record = StreamRecord(OutcomeTally(), StreamHistory(2), positive=1)
    >>> record.add_one(np.zeros(2), np.array([0.75, 0.25]), 1.0, False)
    >>> record.tally.n_seen, record.history.buckets()[0].prevalence
    (1, (0.75, 0.25))
    """

    __slots__ = ("_history", "_labels", "_positive", "_rows", "_tally")

    def __init__(self, tally: OutcomeTally, history: StreamHistory, *, positive: int | None) -> None:
        self._tally, self._history = tally, history
        self._positive = positive  # the class that the tally counts; without one it stays empty
        self._rows: list[tuple[list[float], list[float], float | None, bool, float | None]] = []  # as in add_one
        self._labels: list[tuple[int, bool, bool, float, int, int]] = []  # rows that waited when it came, and the label
        nothing = np.empty((0, history.n_classes))
        posteriors_at(nothing, nothing)  # compiles now, so that no block waits for it

    def on(self, tally: TallyMemory, history: HistoryMemory) -> Self:
        """Return the record of a stream whose tally and history have these memories; nothing waits in it."""
        return type(self)(self._tally.on(tally), StreamHistory.on(history), positive=self._positive)

    @property
    def tally(self) -> OutcomeTally:
        """What the decisions led to; ask again after more rows."""
        self.pass_on()
        return self._tally

    @property
    def history(self) -> StreamHistory:
        """The whole stream so far; ask again after more rows."""
        self.pass_on()
        return self._history

    def add_one(
        self,
        log_ratios: FloatArray,
        prior: FloatArray,
        threshold: float | None,
        alert: bool,
        log_evidence: float | None = None,
    ) -> None:
        """Take in one decided row, its log ratios and prior (K,); a stream has evidence for all its rows or none."""
        rows = self._rows
        # as plain floats: whoever holds the decision may change its arrays
        rows.append((log_ratios.tolist(), prior.tolist(), threshold, alert, log_evidence))
        if len(rows) == BLOCK:
            self.pass_on()

    def add(self, decisions: Decisions, *, log_evidence: Sequence[float] | None = None) -> None:
        """Add decided rows, with the evidence at the `ends` that the history asks for."""
        self.pass_on()
        posteriors, alerts, k = decisions.posteriors, decisions.alerts, self._positive
        if k is not None:
            self._tally.add(posteriors[:, k], alerts, priors=decisions.effective_priors[:, k])
        self._history.add(posteriors, decisions.thresholds, alerts, log_evidence=log_evidence)

    def add_label(self, alert: bool, positive: bool, *, propensity: float = 1.0, age: int = 0, sign: int = 1) -> None:
        """Take in a true label, checked already, or take one back: see `OutcomeTally.add_label`."""
        self._labels.append((len(self._rows), alert, positive, propensity, age, sign))
        if len(self._labels) == BLOCK:
            self.pass_on()

    def pass_on(self) -> None:
        """Add what waits: all rows to the history at once, and to the tally those between two labels."""
        posteriors, alerts, before = self._pass_on_to_history() if self._rows else _NO_ROWS
        labels, self._labels = self._labels, []
        first = 0
        for n_before, alert, positive, propensity, age, sign in labels:
            part, first = slice(first, n_before), n_before
            if part.stop > part.start:
                self._tally.add_checked(posteriors[part], alerts[part], before[part])
            self._tally.add_label(alert, positive, propensity=propensity, age=age, sign=sign)
        if len(alerts) > first:
            self._tally.add_checked(posteriors[first:], alerts[first:], before[first:])

    def _pass_on_to_history(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """Add the rows that wait; return what the tally wants: posteriors, alerts and priors, (n,)."""
        ratios, priors, thresholds, flags, evidence = zip(*self._rows, strict=True)
        self._rows = []
        before = self._as_rows(priors)
        posteriors = posteriors_at(self._as_rows(ratios), before)
        alerts = np.array(flags, dtype=np.bool_)
        limits = np.array(thresholds, dtype=np.float64)  # None becomes NaN: neither counts
        at_ends = None if evidence[0] is None else [evidence[end - 1] for end in self._history.ends(len(alerts))]
        self._history.add(posteriors, limits, alerts, log_evidence=at_ends)
        if self._positive is None:
            return _NO_ROWS
        column = self._positive
        return np.ascontiguousarray(posteriors[:, column]), alerts, np.ascontiguousarray(before[:, column])

    def _as_rows(self, values: Iterable[list[float]]) -> FloatArray:
        # from one long run of numbers: numpy takes three times as long to look into many short lists
        return np.fromiter(chain.from_iterable(values), np.float64).reshape(-1, self._history.n_classes)
