"""Monitor whether any sequence of priors can explain a stream of log ratios."""

import copy
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, IntArray, as_log_ratio_row, as_log_ratios, restore_arrays
from obil.errors import InvalidStateError
from obil.flat_record import copy_into
from obil.monitor.difference import Difference, difference_from
from obil.monitor.monitor_memory import MonitorConstants, MonitorMemory, check_memory, update_wealths
from obil.monitor.reference import MonitorReference, allowances_of, fingerprint_of, monitor_reference, place_bets
from obil.monitor.score_bins import place_rows
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel, as_ratio_model


class LabelShiftMonitor:
    """Test, row by row and for ever, whether some sequence of priors explains the stream.

    The log ratios are put into bins. Under label shift each row is drawn from a mixture of the classes'
    histograms, which the held-out rows pin down to a set (`NullHull`). The monitor bets against *all* those
    mixtures at once: on shifted and on noisier scores and on what it saw of late, so that under any path of
    the prior it cannot expect to gain. What it gains is the evidence against label shift, an e-value.

    Guarantee
    ---------
    If p(x | y) has not changed, the evidence ever reaches 1 / alpha with probability at most alpha + delta,
    whatever the prior does: alpha is the chance of a lucky gambler (Ville), delta that the held-out rows
    mislead. Proof: docs/theory.md, Proposition 8; for classes with many held-out rows delta rests on the chi-square
    law. It holds for any fixed score, calibrated or not; after `restart` alpha is spent anew.

    It assumes that rows are independent given their class, among the held-out rows and in the stream.
    *Repeated customers break it*: rows that come in near copies are weaker evidence than they look, and it
    alarms without cause. Where neighbouring rows depend on each other, bets are settled once per `block` of them, at
    the price of more rows until a change is found: the guarantee holds where blocks are independent of each other, and
    about where the dependence is shorter than a block.

    It also takes the held-out scores for scores of the deployed model: that is why evidence comes from the model of one
    fold per row, which scores new rows as it scored its held-out rows. Where folds are blocks of time or groups, that
    holds only as far as blocks are alike, and the model's `tolerance` allows for it.

    Parameters
    ----------
    holdout
        Held-out rows of every class.
    alpha
        The chance of a false alarm in an endless stream, had the held-out rows been endless too.
    delta
        The chance that the held-out rows mislead.
    tolerance
        How far each class's histogram may differ from the held-out one beyond chance, as a Kullback-Leibler
        divergence in nats: a shift by d standard deviations is about d^2 / 2. 0 allows for none; 0.02 for a shift
        of a fifth.
    block
        How many neighbouring rows may depend on each other: bets are settled once per block, with their mean.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], [2000, 200])
    >>> scores = 2.0 * (rng.normal(size=2200) + 2.0 * labels) - 2.0
    >>> monitor = LabelShiftMonitor(Holdout.of(np.stack([0.0 * scores, scores], axis=1), labels))
    >>> more_positives = scores[labels.argsort()[-700:]]  # 500 negatives, 200 positives
    >>> _ = monitor.update_many(np.stack([0.0 * more_positives, more_positives], axis=1))
    >>> monitor.trusted
    True
    >>> lower = scores[:700] - 2.0  # a standard deviation below
    >>> _ = monitor.update_many(np.stack([0.0 * lower, lower], axis=1))
    >>> monitor.trusted
    False
    """

    def __init__(
        self,
        holdout: Holdout,
        *,
        alpha: float = 0.005,
        delta: float = 0.005,
        tolerance: float = 0.0,
        block: int = 1,
    ) -> None:
        self._take(MonitorReference.of(holdout, alpha=alpha, delta=delta, tolerance=tolerance, block=block))

    @classmethod
    def on(cls, reference: MonitorReference) -> Self:
        """Return a monitor on a reference that exists: another stream of the same model costs little."""
        monitor = cls.__new__(cls)
        monitor._take(reference)
        return monitor

    @classmethod
    def for_model(
        cls,
        model: Any,
        *,
        alpha: float = 0.005,
        delta: float = 0.005,
        tolerance: float | None = None,
        block: int | None = None,
    ) -> Self:
        """Return a monitor for a stream of a fitted classifier, or of what `obil.load` returns.

        It compares with the model's own held-out rows, and allows the tolerance and the block that the model was fitted
        with: 0 and 1, unless folds were blocks of time or groups.
        """
        fitted = as_ratio_model(model)
        given = {"tolerance": tolerance, "block": block}
        allowed = allowances_of(fitted) | {name: value for name, value in given.items() if value is not None}
        return cls.on(monitor_reference(fitted).with_settings({"alpha": alpha, "delta": delta, **allowed}))

    def _take(self, reference: MonitorReference) -> None:
        self._reference = reference
        self._log_alarm = -math.log(reference.settings["alpha"])
        self._bins, self._hull = reference.bins, reference.hull
        n_alternatives = len(reference.start_wealths) // 2
        n_classes, n_bins = self._hull.histograms.shape
        self._every, self._block = reference.every, int(reference.settings["block"])
        self._alternatives = np.empty((n_alternatives, n_bins))
        self._bets = np.empty((n_alternatives, n_bins))
        self._row = np.zeros((1, n_classes))  # one row is a batch of one, and needs no new arrays
        self._number = np.zeros(1, dtype=np.int64)
        self._was_trusted = np.empty(1, dtype=np.bool_)
        self._memory = reference.fresh_memory()
        self._pay(self._number[:0], self._was_trusted[:0])  # compiles now, and not when the first row comes

    def with_memory(self, memory: MonitorMemory) -> Self:
        """Return a monitor on the same reference whose memory is this one: another stream costs little."""
        monitor = copy.copy(self)
        monitor._memory = memory
        monitor._row, monitor._number = np.zeros_like(self._row), np.zeros_like(self._number)
        monitor._was_trusted = np.empty_like(self._was_trusted)
        monitor._alternatives, monitor._bets = np.empty_like(self._alternatives), np.empty_like(self._bets)
        return monitor

    @property
    def constants(self) -> MonitorConstants:
        """What the kernels take beside the memory: the same for all streams with these settings."""
        known, hull = self._reference, self._hull
        return MonitorConstants(
            known.kept, known.warped, known.start_prior, hull.histograms, hull.radii, known.start_wealths,
            self._log_alarm, self._block, self._every,
        )  # fmt: skip

    def bins_of(self, log_ratios: FloatArray) -> IntArray:
        """Return the bin of each row, (n,)."""
        return self._bins.numbers(log_ratios)

    @property
    def memory(self) -> MonitorMemory:
        """The arrays that the monitor learns in."""
        return self._memory

    def require_possible(self) -> None:
        """Refuse a restored memory that no monitoring run could have left."""
        check_memory(self._memory, self._hull, every=self._every, block=self._block, log_alarm=self._log_alarm)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self._reference.start_prior.size)

    @property
    def settings(self) -> dict[str, float]:
        """The parameters: alpha, delta, tolerance and block."""
        return dict(self._reference.settings)

    @property
    def n_rows(self) -> int:
        """Rows seen since the monitor was made."""
        return int(self._memory.seen[0])

    @property
    def n_monitored(self) -> int:
        """Rows of this monitoring run: since the last restart."""
        return int(self._memory.seen[1])

    @property
    def log_alarm(self) -> float:
        """The log evidence that raises the alarm: log 1 / alpha."""
        return self._log_alarm

    @property
    def log_evidence(self) -> float:
        """The evidence against label shift, as the logarithm of an e-value: 0 is none, below 0 supports label shift."""
        return float(self._memory.evidence[0])

    @property
    def peak_log_evidence(self) -> float:
        """The largest log evidence of this monitoring run."""
        return float(self._memory.evidence[1])

    @property
    def trusted(self) -> bool:
        """Whether the stream can still be label shift: False from the alarm on, until `restart`."""
        return bool(self._memory.seen[2] == 0)

    @property
    def alarm_row(self) -> int | None:
        """The row that raised the alarm, counted from 1 since the monitor was made; None without one."""
        return int(self._memory.seen[2]) or None

    @property
    def n_alarms(self) -> int:
        """Alarms since the monitor was made, those before a restart included."""
        return int(self._memory.seen[3])

    def update(self, log_ratios: npt.ArrayLike) -> None:
        """Update with one row of log ratios, (K,)."""
        self.update_checked(as_log_ratio_row(log_ratios, n_classes=self.n_classes))

    def update_checked(self, row: FloatArray) -> None:
        """Do what `update` does with a row that was checked already."""
        self._row[0] = row
        place_rows(self._row, self._bins.centres, self._bins.low, self._bins.high, self._number)
        self._update(self._number, self._was_trusted)

    def update_many(self, log_ratios: npt.ArrayLike) -> BoolArray:
        """Update with rows (n, K) in order; return whether the stream was trusted *before* each row, (n,)."""
        return self.update_many_checked(as_log_ratios(log_ratios, n_classes=self.n_classes))

    def update_many_checked(self, rows: FloatArray) -> BoolArray:
        """Do what `update_many` does with rows that were checked already; of a row of NaN nothing is learned."""
        numbers = self._bins.numbers(rows)
        trusted = np.empty(len(rows), dtype=np.bool_)
        first, end = 0, self._every - int(self._memory.seen[1]) % self._every
        while first < len(rows):  # in pieces that end where bets are placed
            self._update(numbers[first:end], trusted[first:end])
            first, end = end, end + self._every
        return trusted

    def restart(self) -> None:
        """Start a new monitoring run without evidence: rows and alarms are still counted."""
        n_rows, n_alarms = self.n_rows, self.n_alarms
        copy_into(self._reference.start, self._memory)
        self._memory.seen[0], self._memory.seen[3] = n_rows, n_alarms

    def renewed(self, model: RatioModel, *, replaced: RatioModel) -> Self:
        """Return a new monitor with these settings for the streams of another model than the one it replaces."""
        settings, own = dict(self._reference.settings), allowances_of(replaced)
        # the model's own, and not what was set
        settings |= {name: value for name, value in allowances_of(model).items() if settings[name] == own[name]}
        return self.on(monitor_reference(model).with_settings(settings))

    def difference(self) -> Difference:
        """Return where the last 2,000 rows or so differ from what any prior explains."""
        return difference_from(self._hull, self._bins, self._memory.counts[0] + self._memory.fresh)

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume bit for bit beside the held-out rows, as plain JSON values."""
        memory = {name: values.tolist() for name, values in self._memory._asdict().items()}
        return {
            "monitor": type(self).__name__,
            "settings": dict(self._reference.settings),
            "held_out": self._reference.held_out,
            "memory": memory,
        }

    @classmethod
    def from_state(cls, held_out: Holdout | MonitorReference, state: Mapping[str, Any]) -> Self:
        """Return a monitor that resumes exactly where the one that made `state` stopped, on the same held-out rows."""
        try:
            name, settings, fingerprint = state["monitor"], dict(state["settings"]), state["held_out"]
            saved = dict(state["memory"])
        except (KeyError, TypeError, ValueError):
            raise InvalidStateError("a monitor state must hold monitor, settings, held_out and memory") from None
        if name != cls.__name__:
            raise InvalidStateError(f"this state belongs to {name!r:.40}, not to {cls.__name__!r}")
        if fingerprint != (held_out.held_out if isinstance(held_out, MonitorReference) else fingerprint_of(held_out)):
            raise InvalidStateError(
                "this monitor state belongs to other held-out rows, so to another model: its evidence does not "
                "carry over, start a new monitor"
            )
        try:
            given = held_out if isinstance(held_out, MonitorReference) else MonitorReference.of(held_out, **settings)
            monitor = cls.on(given.with_settings(settings))
        except (TypeError, ValueError) as error:
            raise InvalidStateError(f"the settings in this {cls.__name__} state are wrong: {error}") from None
        restore_arrays(monitor._memory._asdict(), saved)
        monitor.require_possible()
        return monitor

    def _update(self, numbers: IntArray, trusted: BoolArray) -> None:
        """Update with rows up to the next time bets are placed, and place them where that is reached."""
        if self._pay(numbers, trusted) % self._every == 0:
            place_bets(self._reference, self._memory, self._alternatives, self._bets)

    def _pay(self, numbers: IntArray, trusted: BoolArray) -> int:
        memory = self._memory
        return update_wealths(
            numbers, trusted, memory.pays, self._reference.start_wealths, self._log_alarm, self._block,
            memory.wealths, memory.paid, memory.fresh, memory.evidence, memory.seen,
        )  # fmt: skip
