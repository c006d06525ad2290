"""Score a sample of rows with a second model after they were answered, and compare it with the active one."""

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.online.online_classifier import OnlineClassifier
from obil.service.records import ShadowComparison
from obil.service.refusals import RefusedError
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.live_stream import LiveStream, utc
from obil.service.streams.operations import Decided, Rows
from obil.service.streams.scoring import score
from obil.service.streams.shadow_settings import ShadowSettings
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank

MOST_WAITING = 64  # requests; while as many wait, others are skipped
MOST_ROWS = 500  # of one request
MOST_STREAMS = 500  # that are compared; another one takes the place of one that is idle for
IDLE_SECONDS = 3_600.0
REST = 9.0  # times as long as a comparison took: a tenth of a processor is enough
CLOSE_SECONDS = 5.0  # for a comparison in progress, when the service stops
POLICY_SECONDS = 30.0  # between two looks at the policy of a stream

log = logging.getLogger("obil.service")


class Sample(NamedTuple):
    """Some rows of a request, without their ids, and what the active model made of them."""

    stream: str
    active: str  # its version
    rows: Rows
    numbers: IntArray  # of the decided classes
    alerts: Any  # (n,)
    log_ratios: FloatArray  # (n, K)


@dataclass(slots=True)
class Comparison:
    """The shadow model on one stream: a state of its own, and sums over the rows that both have scored."""

    stream_id: int
    shadow: str
    active: str
    online: OnlineClassifier
    log_ratio_sums: FloatArray  # (K,), of the differences
    since: float = field(default_factory=time.time)
    policy_at: float = field(default_factory=time.monotonic)
    seen_at: float = 0.0  # the last rows
    n_rows: int = 0
    n_same: int = 0
    n_alerts: int = 0
    n_active_alerts: int = 0


class _Current(NamedTuple):
    """What the state of a comparison starts from."""

    stream_id: int
    policy: Any
    positive: Any
    prior: FloatArray
    is_bank: bool


class ShadowModel:
    """Compares in a thread of its own: no reply waits for it, and no error of it reaches one.

    It keeps sums and the state of a stream without a label horizon, so neither rows nor ids.
    """

    def __init__(self, model_of: Callable[[str], RatioModel], writer: GroupCommit) -> None:
        self._model_of, self._writer = model_of, writer
        self._settings = ShadowSettings()
        self._comparisons: OrderedDict[str, Comparison] = OrderedDict()
        self._skipped, self._n_deleted = 0, 0
        self._queue: queue.SimpleQueue[Sample | None] = queue.SimpleQueue()
        self._random, self._lock, self._closing = np.random.default_rng(), threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="obil-shadow", daemon=True)
        self._thread.start()

    def follow(self, settings: ShadowSettings) -> None:
        """Compare as the store says from now on; another version starts anew."""
        if settings != self._settings:
            with self._lock:
                self._settings, self._skipped = settings, 0
                self._comparisons.clear()

    def offer(self, rows: Rows, decided: Decided) -> None:
        """Take a sample of rows that were just decided; this costs the reply microseconds, and never raises."""
        version, fraction = self._settings.version, self._settings.fraction
        if version is None or decided.repeated or version == decided.model:
            return
        try:
            chosen = np.flatnonzero(self._random.random(rows.n_rows) < fraction)[:MOST_ROWS]
            if not len(chosen):
                return
            if self._queue.qsize() >= MOST_WAITING:
                self._skipped += len(chosen)
                return
            found = decided.decisions
            table = rows.table[chosen] if isinstance(rows.table, np.ndarray) else rows.table.iloc[chosen]
            some = Rows(table, len(chosen), read_for=rows.read_for)
            made = found.numbers[chosen], found.alerts[chosen], found.log_ratios[chosen]
            self._queue.put(Sample(decided.stream, decided.model, some, *made))
        except Exception:  # the rows are decided and stored: their reply must not fail for this
            log.exception("the shadow model took no sample")

    def report(self, stream: str, stream_id: int, *, active: str) -> ShadowComparison:
        """Return the comparison on a stream."""
        with self._lock:
            version, found = self._settings.version, self._comparisons.get(stream)
            if version is None or found is None or found.stream_id != stream_id or found.active != active:
                nothing: dict[str, Any] = dict.fromkeys(
                    ("since", "agreement", "log_ratio_difference", "prior", "trusted")
                )
                return ShadowComparison(
                    stream, version, active, rows=0, alerts=0, active_alerts=0, skipped=self._skipped, **nothing
                )
            names = list(map(str, found.online.classes_.tolist()))
            differences = found.log_ratio_sums / found.n_rows
            return ShadowComparison(
                stream=stream,
                version=version,
                active=active,
                since=utc(found.since),
                rows=found.n_rows,
                agreement=found.n_same / found.n_rows,
                alerts=found.n_alerts,
                active_alerts=found.n_active_alerts,
                log_ratio_difference=dict(zip(names, differences.tolist(), strict=True)),
                prior=dict(zip(names, found.online.prior.tolist(), strict=True)),
                trusted=bool(found.online.trusted),
                skipped=self._skipped,
            )

    def forget(self, stream: str) -> None:
        """Drop what is known of a stream that was deleted."""
        with self._lock:
            self._comparisons.pop(stream, None)
            self._n_deleted += 1

    def close(self) -> None:
        """Stop; what still waits is dropped, and what takes long is not waited for."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (sample := self._queue.get()) is not None and not self._closing.is_set():
            started = time.thread_time()
            try:
                self._compare(sample)
            except RefusedError:  # the stream was deleted, the store is away, or these rows cannot be scored
                self._skipped += sample.rows.n_rows
            except Exception:
                self._skipped += sample.rows.n_rows
                log.exception("the shadow model failed")
            del sample  # its rows are not kept until the next ones come
            self._closing.wait(REST * (time.thread_time() - started))

    def _compare(self, sample: Sample) -> None:
        settings, n_deleted = self._settings, self._n_deleted
        if settings.version is None or settings.version == sample.active:
            return
        if not self._has_room_for(sample.stream):
            self._skipped += sample.rows.n_rows
            return
        model = self._model_of(settings.version)
        found = self._comparison_of(sample, settings.version, model)
        rows = sample.rows
        if rows.read_for is not None:
            rows = Rows(table_for(model, rows.table, rows.read_for), rows.n_rows)
        decisions = found.online.decide_scores(score(rows, model))
        with self._lock:
            if self._settings != settings or self._n_deleted != n_deleted:  # it may be this stream that was deleted
                return
            found.n_rows += rows.n_rows
            found.n_same += int(np.sum(decisions.numbers == sample.numbers))
            found.n_alerts += int(decisions.alerts.sum())
            found.n_active_alerts += int(sample.alerts.sum())
            found.log_ratio_sums += np.sum(decisions.log_ratios - sample.log_ratios, axis=0)
            self._comparisons[sample.stream] = found
            self._comparisons.move_to_end(sample.stream)
            found.seen_at = time.monotonic()

    def _has_room_for(self, stream: str) -> bool:
        with self._lock:
            if stream in self._comparisons or len(self._comparisons) < MOST_STREAMS:
                return True
            oldest = next(iter(self._comparisons))
            if self._comparisons[oldest].seen_at + IDLE_SECONDS > time.monotonic():
                return False  # many streams in turns would push each other out
            del self._comparisons[oldest]
            return True

    def _comparison_of(self, sample: Sample, version: str, model: RatioModel) -> Comparison:
        """Return the comparison on a stream, with its present policy; a new one starts at its present prior."""
        found = self._comparisons.get(sample.stream)
        if found is not None and time.monotonic() < found.policy_at + POLICY_SECONDS and found.active == sample.active:
            return found
        now = self._writer.submit(sample.stream, lambda live, _session, _at: _current(live)).result()
        if found is not None and (found.stream_id, found.active) == (now.stream_id, sample.active):
            found.online.policy, found.policy_at = now.policy, time.monotonic()
            return found
        tracker = BayesBank() if now.is_bank else None
        online = OnlineClassifier(
            model, policy=now.policy, tracker=tracker, prior=now.prior, positive=now.positive, horizon=0
        )
        return Comparison(now.stream_id, version, sample.active, online, np.zeros(model.n_classes))


def table_for(model: RatioModel, table: Any, read_for: RatioModel) -> Any:
    """Return rows that were read for one model as another one takes them: its order of columns, its category codes.

    A category that the first model does not know counts as "other" for the second one too.
    """
    if not isinstance(table, np.ndarray) or (model.columns, model.feature_names) == (
        read_for.columns,
        read_for.feature_names,
    ):
        return table
    if model.columns is None or read_for.columns is None:
        names = list(read_for.feature_names or ())
        return table[:, [names.index(name) for name in model.feature_names or ()]]
    known = {column.name: (place, column.levels) for place, column in enumerate(read_for.columns)}
    parts = []
    for column in model.columns:
        place, levels = known[column.name]
        values = table[:, place]
        if column.levels is not None and levels is not None:
            codes = {name: float(code) for code, name in enumerate(column.levels)}
            other = float(len(codes))
            recoded = np.array([*(codes.get(name, other) for name in levels), other])
            values = np.where(np.isnan(values), np.nan, recoded[np.nan_to_num(values).astype(int)])
        parts.append(values)
    return np.stack(parts, axis=1)


def _current(live: LiveStream) -> _Current:
    online = live.online
    return _Current(
        live.row.id, online.policy, online.positive, online.prior.copy(), isinstance(online.tracker, BayesBank)
    )
