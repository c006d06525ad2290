"""Remember a whole stream in a few buckets: neighbours are merged when they are full, so the past grows coarse."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, is_count
from obil.errors import InvalidInputError, InvalidStateError
from obil.monitor import LabelShiftMonitor

START_LENGTH = 8  # rows of a bucket before the first merge: a stream of 100 rows has a history too
MOST_BUCKETS, FEWEST_BUCKETS = 128, 8  # more could not be distinguished in a plot
MOST_NUMBERS = 800  # in all full buckets together: about 8 kB of JSON
DIGITS = 5  # of what a full bucket holds: more than a plot or a split of the stream can use
COLUMNS = ("prevalence", "thresholds", "alerts", "log_evidence")  # of the full buckets, in a state

_Values: TypeAlias = tuple[tuple[float, ...], float | None, int, float | None]  # of a full bucket


class Bucket(NamedTuple):
    """What happened over some neighbouring rows."""

    first_row: int  # counted from 0
    n_rows: int
    prevalence: tuple[float, ...]  # (K,) mean posterior of each class
    threshold: float | None  # mean log threshold; None where a cost matrix decides, or no threshold met the policy
    alerts: int
    log_evidence: float | None  # against label shift after its last row; None without a monitor


class StreamHistory:
    """At most 128 buckets of rows, of equal length, and the one being filled.

    A bucket holds the mean *posterior* of each class, and not the mean prior: once labels decide, the prior a row is
    decided with depends on the row, and the mean of such priors is no prevalence. A mean posterior also moves
    at once when the stream does, whereas a prior follows.

    Single rows and batches, however cut, leave the same bits: sums run row by row, and the evidence of a bucket is that
    after its last row. A monitor gives it only where a batch ends, so `ends` says where a batch has to be cut for it;
    `update_monitor` does that.

    >>> history = StreamHistory(2)
    >>> history.add([[0.9, 0.1], [0.7, 0.3]], [1.0, 3.0], [False, True], log_evidence=[0.5])
    >>> history.buckets()[0]
    Bucket(first_row=0, n_rows=2, prevalence=(0.8, 0.2), threshold=2.0, alerts=1, log_evidence=0.5)
    """

    __slots__ = (
        "_alerts", "_evidence", "_full", "_in_open", "_length", "_most",
        "_n_thresholds", "_sums", "_threshold_sum",
    )  # fmt: skip

    def __init__(self, n_classes: int) -> None:
        if type(n_classes) is not int or n_classes < 2:
            raise InvalidInputError(f"a history is of two classes or more, got {n_classes!r:.40}")
        numbers_each = n_classes + 3
        self._most = max(min(MOST_BUCKETS, MOST_NUMBERS // numbers_each // 2 * 2), FEWEST_BUCKETS)
        self._length = START_LENGTH
        self._full: list[_Values] = []
        self._open(n_classes)

    def _open(self, n_classes: int) -> None:
        self._sums = [0.0] * n_classes
        self._threshold_sum, self._n_thresholds, self._alerts, self._in_open = 0.0, 0, 0, 0
        self._evidence: float | None = None

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self._sums)

    @property
    def n_rows(self) -> int:
        """Rows seen."""
        return len(self._full) * self._length + self._in_open

    @property
    def bucket_length(self) -> int:
        """Rows of a full bucket: how finely the past can be told."""
        return self._length

    def buckets(self) -> tuple[Bucket, ...]:
        """Return the stream so far, oldest first; the last bucket may be shorter than the others."""
        found = [Bucket(number * self._length, self._length, *values) for number, values in enumerate(self._full)]
        if self._in_open:
            found.append(Bucket(len(self._full) * self._length, self._in_open, *self._values(self._in_open)))
        return tuple(found)

    def ends(self, n_rows: int) -> list[int]:
        """Return after which of the next n rows the evidence is wanted: where buckets end, and after the last."""
        ends, n_full, length = [], len(self._full), self._length
        end = length - self._in_open
        while end < n_rows:
            ends.append(end)
            n_full += 1
            if n_full == self._most:
                n_full, length = n_full // 2, 2 * length
            end += length
        return [*ends, n_rows] if n_rows else ends

    def add(
        self,
        prevalence: npt.ArrayLike,
        thresholds: npt.ArrayLike | None,
        alerts: npt.ArrayLike,
        *,
        log_evidence: npt.ArrayLike | None = None,
    ) -> None:
        """Take in decided rows: posteriors (n, K), log thresholds (n,), alerts (n,), the evidence at their `ends`."""
        rows, flags = np.asarray(prevalence, dtype=np.float64), np.asarray(alerts, dtype=np.bool_)
        ends = self.ends(len(rows))
        limits = None if thresholds is None else np.asarray(thresholds, dtype=np.float64)
        evidence = [None] * len(ends) if log_evidence is None else np.asarray(log_evidence, dtype=np.float64).tolist()
        shapes = (rows.shape[1:], flags.shape, (len(rows),) if limits is None else limits.shape)
        if shapes != ((self.n_classes,), (len(rows),), (len(rows),)) or len(evidence) != len(ends):
            raise InvalidInputError(
                f"a history takes posteriors (n, {self.n_classes}), thresholds and alerts (n,), and the evidence at "
                f"its {len(ends)} ends, got shapes {rows.shape}, {shapes[2]}, {shapes[1]} and {len(evidence)} values"
            )
        first = 0
        for end, value in zip(ends, evidence, strict=True):
            self._sums = [_summed(self._sums[k], rows[first:end, k]) for k in range(self.n_classes)]
            if limits is not None:
                usable = limits[first:end][np.isfinite(limits[first:end])]
                self._threshold_sum = _summed(self._threshold_sum, usable)
                self._n_thresholds += len(usable)
            self._alerts += int(np.count_nonzero(flags[first:end]))
            self._evidence = value
            self._in_open += end - first
            if self._in_open == self._length:
                self._close()
            first = end

    def state(self) -> dict[str, Any]:
        """Return everything needed to continue bit for bit, as plain JSON values: under 10 kB for up to 30 classes."""
        columns = list(zip(*self._full, strict=True)) or [()] * len(COLUMNS)
        full = {name: list(column) for name, column in zip(COLUMNS, columns, strict=True)}
        return {
            "length": self._length,
            "full": full | {"prevalence": [list(prevalence) for prevalence in full["prevalence"]]},
            "open": {
                "rows": self._in_open,
                "prevalence": list(self._sums),
                "threshold": self._threshold_sum,
                "thresholds": self._n_thresholds,
                "alerts": self._alerts,
                "log_evidence": self._evidence,
            },
        }

    @classmethod
    def from_state(cls, n_classes: int, state: Any) -> Self:
        """Return a history that continues exactly where the one that made `state` stopped."""
        history = cls(n_classes)
        try:
            length, full, last = state["length"], state["full"], state["open"]
            columns = [full[name] for name in COLUMNS]
            sizes = {len(column) for column in columns}
            parts = [last[name] for name in ("prevalence", "threshold", "alerts", "log_evidence")]
            n_open, n_thresholds = last["rows"], last["thresholds"]
        except (KeyError, TypeError, IndexError):
            raise InvalidStateError("a history holds 'length', 'full' and 'open', each whole") from None
        _require(is_count(length) and length >= START_LENGTH and math.log2(length / START_LENGTH).is_integer())
        _require(len(sizes) == 1 and all(isinstance(column, list) for column in columns))
        _require(is_count(n_open) and n_open < length and is_count(n_thresholds) and n_thresholds <= n_open)
        n_full = sizes.pop()
        _require(n_full < history._most and (length == START_LENGTH or n_full >= history._most // 2))
        for number, values in enumerate([*zip(*columns, strict=True), tuple(parts)]):
            prevalence, threshold, alerts, log_evidence = values
            is_open = number == n_full
            n_rows = n_open if is_open else length
            _require(isinstance(prevalence, list) and len(prevalence) == n_classes and all(map(_is_number, prevalence)))
            total = sum(prevalence) / n_rows if is_open and n_rows else sum(prevalence)
            _require(all(one >= 0.0 for one in prevalence) and abs(total - (n_rows > 0)) <= 1e-4)
            _require(_is_number(threshold) or (threshold is None and not is_open))
            _require(log_evidence is None or _is_number(log_evidence))
            _require(is_count(alerts) and alerts <= n_rows)
        history._length = length
        history._full = [
            (tuple(map(float, prevalence)), _float_or_none(threshold), alerts, _float_or_none(evidence))
            for prevalence, threshold, alerts, evidence in zip(*columns, strict=True)
        ]
        history._sums, history._threshold_sum = list(map(float, parts[0])), float(parts[1])
        history._alerts, history._evidence = parts[2], _float_or_none(parts[3])
        history._in_open, history._n_thresholds = n_open, n_thresholds
        return history

    def _values(self, n_rows: int) -> _Values:
        return (
            tuple(_short(total / n_rows) for total in self._sums),
            _short(self._threshold_sum / self._n_thresholds) if self._n_thresholds else None,
            self._alerts,
            None if self._evidence is None else _short(self._evidence),
        )

    def _close(self) -> None:
        self._full.append(self._values(self._length))
        self._open(self.n_classes)
        if len(self._full) == self._most:
            pairs = zip(self._full[::2], self._full[1::2], strict=True)
            self._full = [_merged(one, two) for one, two in pairs]
            self._length *= 2


def update_monitor(
    monitor: LabelShiftMonitor | None, log_ratios: FloatArray, ends: Sequence[int]
) -> tuple[BoolArray, list[float] | None]:
    """Update a monitor with rows (n, K); return whether it trusted the stream before each, and its evidence at `ends`.

    A monitor does the same wherever a batch is cut.
    """
    trusted = np.ones(len(log_ratios), dtype=np.bool_)
    if monitor is None:
        return trusted, None
    evidence, first = [], 0
    for end in ends:
        trusted[first:end] = monitor.update_many(log_ratios[first:end])
        evidence.append(monitor.log_evidence)
        first = end
    return trusted, evidence


def _merged(one: _Values, two: _Values) -> _Values:
    prevalence = tuple(_short((a + b) / 2.0) for a, b in zip(one[0], two[0], strict=True))
    return prevalence, _middle(one[1], two[1]), one[2] + two[2], two[3]


def _summed(start: float, values: FloatArray) -> float:
    """Return start + values[0] + values[1] ..., added one after the other: numpy's sum goes by pairs."""
    if not len(values):
        return start
    run = np.empty(len(values) + 1)
    run[0] = start
    run[1:] = values
    return float(np.add.accumulate(run)[-1])


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _float_or_none(value: float | None) -> float | None:
    return None if value is None else float(value)


def _middle(one: float | None, two: float | None) -> float | None:
    if one is None or two is None:
        return two if one is None else one
    return _short((one + two) / 2.0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _require(holds: bool) -> None:
    if not holds:
        raise InvalidStateError("this history is damaged: no stream could have left it")
