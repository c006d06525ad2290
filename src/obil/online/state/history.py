"""Remember a whole stream in a few buckets: neighbours are merged when they are full, so the past grows coarse."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, IntArray
from obil.compiled import compiled
from obil.errors import InvalidInputError, InvalidStateError
from obil.flat_record import in_record
from obil.monitor import LabelShiftMonitor

START_LENGTH = 8  # rows of a bucket before the first merge: a stream of 100 rows has a history too
MOST_BUCKETS, FEWEST_BUCKETS = 128, 8  # more could not be distinguished in a plot
MOST_NUMBERS = 800  # in all full buckets together
DIGITS = 5  # of what is shown of a full bucket: more than a plot or a split of the stream can use
LARGEST_COUNT = 2**53
LARGEST_THRESHOLD = 1e30  # beyond it a threshold is as good as infinite, and its mean may not be a float32


class HistoryMemory(NamedTuple):
    """M full buckets, of which some are used, and the open one."""

    prevalence: npt.NDArray[np.float32]  # (M, K) mean posteriors
    thresholds: npt.NDArray[np.float32]  # (M,) mean log thresholds; NaN where there was none
    log_evidence: npt.NDArray[np.float32]  # (M,) after the last row; NaN without a monitor
    alerts: IntArray  # (M,)
    open_sums: FloatArray  # (K,) of posteriors
    open_threshold: FloatArray  # (1,) the sum of thresholds
    open_evidence: npt.NDArray[np.float32]  # (2,) the last, and nothing: a field fills whole units of 8 bytes
    counts: IntArray  # (5,) rows of a full bucket, full buckets; open: rows, thresholds, alerts


LENGTH, N_FULL, IN_OPEN, N_THRESHOLDS, ALERTS = range(5)  # places in `counts`


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

    def __init__(self, n_classes: int) -> None:
        if type(n_classes) is not int or n_classes < 2:
            raise InvalidInputError(f"a history is of two classes or more, got {n_classes!r:.40}")
        numbers_each = n_classes + 3
        most = max(min(MOST_BUCKETS, MOST_NUMBERS // numbers_each // 2 * 2), FEWEST_BUCKETS)
        empty = HistoryMemory(
            prevalence=np.zeros((most, n_classes), dtype=np.float32),
            thresholds=np.zeros(most, dtype=np.float32),
            log_evidence=np.zeros(most, dtype=np.float32),
            alerts=np.zeros(most, dtype=np.int64),
            open_sums=np.zeros(n_classes),
            open_threshold=np.zeros(1),
            open_evidence=np.array([np.nan, 0.0], dtype=np.float32),
            counts=np.array([START_LENGTH, 0, 0, 0, 0]),
        )
        self.memory = in_record(empty)[0]

    @classmethod
    def on(cls, memory: HistoryMemory) -> Self:
        """Return a history whose memory lies in a record."""
        history = cls.__new__(cls)
        history.memory = memory
        return history

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self.memory.open_sums.size)

    @property
    def n_rows(self) -> int:
        """Rows seen."""
        length, n_full, in_open = self.memory.counts[:3].tolist()
        return int(n_full * length + in_open)

    @property
    def bucket_length(self) -> int:
        """Rows of a full bucket: how finely the past can be told."""
        return int(self.memory.counts[LENGTH])

    def buckets(self) -> tuple[Bucket, ...]:
        """Return the stream so far, oldest first; the last bucket may be shorter than the others."""
        memory = self.memory
        length, n_full, in_open, n_thresholds, alerts = memory.counts.tolist()
        columns = (memory.prevalence, memory.thresholds, memory.alerts, memory.log_evidence)
        full = zip(*(column[:n_full].tolist() for column in columns), strict=True)
        found = [_bucket(number * length, length, *values) for number, values in enumerate(full)]
        if in_open:
            total, evidence = float(memory.open_threshold[0]), float(memory.open_evidence[0])
            means = (memory.open_sums / in_open).tolist()
            threshold = total / n_thresholds if n_thresholds else math.nan
            found.append(_bucket(n_full * length, in_open, means, threshold, alerts, evidence))
        return tuple(found)

    def ends(self, n_rows: int) -> list[int]:
        """Return after which of the next n rows the evidence is wanted: where buckets end, and after the last."""
        length, n_full, in_open = self.memory.counts[:3].tolist()
        ends, end, most = [], length - in_open, self.memory.alerts.size
        while end < n_rows:
            ends.append(end)
            n_full += 1
            if n_full == most:
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
        rows, flags = np.ascontiguousarray(prevalence, dtype=np.float64), np.asarray(alerts, dtype=np.bool_)
        ends = self.ends(len(rows))
        limits = np.full(len(rows), np.nan) if thresholds is None else np.asarray(thresholds, dtype=np.float64)
        evidence = np.full(len(ends), np.nan) if log_evidence is None else np.asarray(log_evidence, dtype=np.float64)
        if (rows.shape[1:], flags.shape, limits.shape, evidence.shape) != (
            (self.n_classes,), (len(rows),), (len(rows),), (len(ends),)
        ):  # fmt: skip
            raise InvalidInputError(
                f"a history takes posteriors (n, {self.n_classes}), thresholds and alerts (n,), and the evidence at "
                f"its {len(ends)} ends, got shapes {rows.shape}, {limits.shape}, {flags.shape} and {evidence.shape}"
            )
        add_to_history(rows, limits, flags, evidence, *self.memory)

    def require_possible(self) -> None:
        """Refuse a restored memory that no stream could have left."""
        memory, most = self.memory, self.memory.alerts.size
        length, n_full, in_open, n_thresholds, alerts = memory.counts.tolist()
        _require(length >= START_LENGTH and math.log2(length / START_LENGTH).is_integer() and length < LARGEST_COUNT)
        _require(0 <= n_full < most and (length == START_LENGTH or n_full >= most // 2))
        _require(0 <= in_open < length and 0 <= n_thresholds <= in_open and 0 <= alerts <= in_open)
        full, last = memory.prevalence[:n_full], memory.open_sums
        _require(bool((full >= 0.0).all() and (abs(full.sum(axis=1) - 1.0) <= 1e-4).all()))
        _require(bool((last >= 0.0).all()) and bool(abs(last.sum() - in_open) <= 1e-4 * max(in_open, 1)))
        _require(bool(abs(memory.open_threshold[0]) <= n_thresholds * LARGEST_THRESHOLD))
        _require(bool((memory.alerts[:n_full] >= 0).all() and (memory.alerts[:n_full] <= length).all()))
        _require(not np.isinf(memory.thresholds).any() and not np.isinf(memory.log_evidence).any())
        _require(not np.isinf(memory.open_evidence).any())


@compiled
def add_to_history(
    rows: FloatArray,
    thresholds: FloatArray,
    flags: BoolArray,
    evidence: FloatArray,
    prevalence: npt.NDArray[np.float32],
    mean_thresholds: npt.NDArray[np.float32],
    log_evidence: npt.NDArray[np.float32],
    alerts: IntArray,
    open_sums: FloatArray,
    open_threshold: FloatArray,
    open_evidence: npt.NDArray[np.float32],
    counts: IntArray,
) -> None:
    """Add decided rows, and the evidence after the last row of each bucket and of the batch."""
    n_classes, taken = open_sums.size, 0
    for t in range(rows.shape[0]):
        for k in range(n_classes):
            open_sums[k] += rows[t, k]
        if abs(thresholds[t]) <= LARGEST_THRESHOLD:  # not NaN either
            open_threshold[0] += thresholds[t]
            counts[N_THRESHOLDS] += 1
        counts[ALERTS] += flags[t]
        counts[IN_OPEN] += 1
        is_full = counts[IN_OPEN] == counts[LENGTH]
        if is_full or t == rows.shape[0] - 1:
            open_evidence[0] = evidence[taken]
            taken += 1
        if not is_full:
            continue
        place = counts[N_FULL]
        for k in range(n_classes):
            prevalence[place, k] = open_sums[k] / counts[IN_OPEN]
            open_sums[k] = 0.0
        mean_thresholds[place] = open_threshold[0] / counts[N_THRESHOLDS] if counts[N_THRESHOLDS] > 0 else np.nan
        log_evidence[place] = open_evidence[0]
        alerts[place] = counts[ALERTS]
        open_threshold[0] = 0.0
        open_evidence[0] = np.nan
        counts[IN_OPEN] = counts[N_THRESHOLDS] = counts[ALERTS] = 0
        counts[N_FULL] += 1
        if counts[N_FULL] < alerts.size:
            continue
        for i in range(alerts.size // 2):  # neighbours are merged
            for k in range(n_classes):
                prevalence[i, k] = (prevalence[2 * i, k] + prevalence[2 * i + 1, k]) / 2.0
            one, two = mean_thresholds[2 * i], mean_thresholds[2 * i + 1]
            mean_thresholds[i] = two if np.isnan(one) else one if np.isnan(two) else (one + two) / 2.0
            log_evidence[i] = log_evidence[2 * i + 1]
            alerts[i] = alerts[2 * i] + alerts[2 * i + 1]
        for i in range(alerts.size // 2, alerts.size):  # what is not used is 0 in a state
            for k in range(n_classes):
                prevalence[i, k] = 0.0
            mean_thresholds[i] = log_evidence[i] = 0.0
            alerts[i] = 0
        counts[N_FULL] //= 2
        counts[LENGTH] *= 2


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
        trusted[first:end] = monitor.update_many_checked(log_ratios[first:end])
        evidence.append(monitor.log_evidence)
        first = end
    return trusted, evidence


def _bucket(
    first_row: int, n_rows: int, prevalence: list[float], threshold: float, alerts: int, log_evidence: float
) -> Bucket:
    return Bucket(
        first_row,
        n_rows,
        tuple(_short(one) for one in prevalence),
        None if math.isnan(threshold) else _short(threshold),
        alerts,
        None if math.isnan(log_evidence) else _short(log_evidence),
    )


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _require(holds: bool) -> None:
    if not holds:
        raise InvalidStateError("this history is damaged: no stream could have left it")
