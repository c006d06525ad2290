"""Count what the service does, for Prometheus, with a limit on the number of named streams."""

import math
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from obil import __version__
from obil.service.records import StreamSummary
from obil.service.refusals import RefusedError
from obil.service.streams.operations import Decided

OTHER = "_other"  # no stream can have this name: names begin with a letter or a digit
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class _StreamCount:
    """The counters of one stream since the service started."""

    decisions: int = 0
    alerts: int = 0
    labels: int = 0
    log_threshold: float | None = None  # of the newest row


@dataclass(frozen=True, slots=True)
class StreamsNow:
    """The streams of the store: how many there are, and a summary of those that are exported."""

    total: int
    alarmed: int
    summaries: Sequence[StreamSummary]


class ServiceMetrics(Collector):
    """Counters that cost a request little: gauges are computed when they are read.

    The counters of at most `max_streams` streams are named; the others are counted together as `_other`.
    """

    def __init__(self, *, max_streams: int = 200) -> None:
        self.max_streams = max_streams
        self._counts: dict[str, _StreamCount] = {}
        self._now: StreamsNow | None = None
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = {"version": __version__, "python": platform.python_version()}
        Info("obil_build", "The version of the service.", registry=self.registry).info(build)
        self._seconds = Histogram(
            "obil_request_seconds", "Time to answer a request.", ["method", "route", "status"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._commit_seconds = Histogram(
            "obil_commit_seconds", "Time to decide and store the requests of one transaction.",
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._refusals = Counter("obil_refusals", "Refused requests.", ["code"], registry=self.registry)
        for kind in RefusedError.__subclasses__():
            self._refusals.labels(kind.code)  # from 0 on, so that a rate sees the first one
        self._seconds_of: dict[tuple[str, str, int], Histogram] = {}

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Export a number that is read when it is asked for."""
        Gauge(name, about, registry=self.registry).set_function(value)

    @property
    def named(self) -> list[str]:
        """The streams that have a name in the metrics."""
        return [name for name in self._counts if name != OTHER]

    def name(self, streams: Iterable[str]) -> None:
        """Name streams of an earlier process, as far as there is room, so that their counters begin at 0."""
        for stream in streams:
            if len(self.named) < self.max_streams:
                self._counts.setdefault(stream, _StreamCount())

    def decided(self, decided: Decided) -> None:
        """Count the decisions and alerts of one request; a retry decides nothing."""
        if decided.repeated:
            return
        count, decisions = self._count(decided.stream), decided.decisions
        count.decisions += len(decisions)
        count.alerts += int(decisions.alerts.sum())
        # the number, not the decisions: they would stay in memory with their ids, even once erased
        count.log_threshold = None if decisions.thresholds is None else float(decisions.thresholds[-1])

    def labelled(self, stream: str, known: int) -> None:
        """Count the labels of one request that belonged to a decision."""
        self._count(stream).labels += known

    def forget(self, stream: str) -> None:
        """Stop naming a stream."""
        self._counts.pop(stream, None)

    def committed(self, seconds: float) -> None:
        """Count one transaction; called by the thread that writes."""
        self._commit_seconds.observe(seconds)

    def answered(self, method: str, route: str, status: int, seconds: float, code: str | None = None) -> None:
        """Count one answered request; one that streams events stays open as long as its subscriber."""
        if code is not None:
            self._refusals.labels(code).inc()
        if route.endswith("/events"):
            return
        key = (method if method in _METHODS else "other", route, status)
        known = self._seconds_of.get(key)
        if known is None:
            known = self._seconds_of[key] = self._seconds.labels(key[0], route, str(status))
        known.observe(seconds)

    def text(self, now: StreamsNow | None = None) -> bytes:
        """Return everything in Prometheus' text format; `now` is None while the store is unavailable."""
        self._now = now
        return generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what is collected describes itself."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted by stream."""
        decisions = CounterMetricFamily("obil_decisions", "Rows decided.", labels=["stream"])
        alerts = CounterMetricFamily("obil_alerts", "Rows decided as the positive class.", labels=["stream"])
        labels = CounterMetricFamily("obil_labels", "Labels that belonged to a decision.", labels=["stream"])
        threshold = GaugeMetricFamily(
            "obil_log_threshold", "Threshold on the log ratio of the positive class.", labels=["stream"]
        )
        for name, count in self._counts.items():
            for family, n in ((decisions, count.decisions), (alerts, count.alerts), (labels, count.labels)):
                family.add_metric([name], n)
            if count.log_threshold is not None and name != OTHER:
                threshold.add_metric([name], count.log_threshold)
        yield from (decisions, alerts, labels, threshold)
        if self._now is not None:
            yield from _gauges(self._now)

    def _count(self, stream: str) -> _StreamCount:
        count = self._counts.get(stream)
        if count is not None:
            return count
        name = stream if len(self._counts) - (OTHER in self._counts) < self.max_streams else OTHER
        return self._counts.setdefault(name, _StreamCount())


def _gauges(now: StreamsNow) -> Iterator[Metric]:
    streams = GaugeMetricFamily("obil_streams", "Streams in the store.", labels=["state"])
    streams.add_metric(["trusted"], now.total - now.alarmed)
    streams.add_metric(["alarmed"], now.alarmed)
    prior = GaugeMetricFamily("obil_prior", "Estimated prior (prevalence) of a class.", labels=["stream", "class"])
    trained = GaugeMetricFamily(
        "obil_training_prior", "Prior (prevalence) of a class in training.", labels=["stream", "class"]
    )
    trusted = GaugeMetricFamily("obil_trusted", "1 while label shift explains the stream.", labels=["stream"])
    evidence = GaugeMetricFamily("obil_log_evidence", "Log evidence against label shift.", labels=["stream"])
    alarm = GaugeMetricFamily("obil_log_alarm", "Log evidence at which the monitor raises an alarm.", labels=["stream"])
    for summary in now.summaries:
        for family, by_class in ((prior, summary.prior), (trained, summary.training_prior)):
            for name, prevalence in by_class.items():
                family.add_metric([summary.name, name], prevalence)
        trusted.add_metric([summary.name], float(summary.trusted))
        for family, value in ((evidence, summary.log_evidence), (alarm, summary.log_alarm)):
            if value is not None and not math.isnan(value):
                family.add_metric([summary.name], value)
    yield from (streams, prior, trained, trusted, evidence, alarm)
