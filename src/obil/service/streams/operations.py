"""Name what can be asked of the streams, and what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.online.decision_ids import Id
from obil.serving.ratio_model import RatioModel


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows to be decided, as they came in one request."""

    table: Any  # what RatioModel.log_ratios takes: columns by name, or an array (n, p)
    n_rows: int
    ids: Sequence[Id] | None = None  # None: each is its row number in the stream
    inputs: Sequence[Any] | None = None  # the rows as they were sent, kept only where the service stores inputs
    read_for: RatioModel | None = None  # whose columns and codes of words the table has; None: any model's


@dataclass(frozen=True, slots=True)
class Sender:
    """Who asks, and under which name a retry would be known."""

    by: str = "anonymous"  # the name of the API key
    idempotency_key: str | None = None
    digest: bytes = b""  # of the body: a key with another body is refused


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What was decided for the rows of one request, as columns."""

    stream: str
    model: str  # its version
    first_row: int
    ids: Sequence[Id]
    labels: Sequence[Any]  # (n,) the user's classes
    log_ratios: FloatArray  # (n, K)
    priors: FloatArray  # (n, K) from before each row
    thresholds: FloatArray | None  # (n,) on the positive class's log ratio
    reachable: npt.NDArray[np.bool_]  # (n,)
    trusted: npt.NDArray[np.bool_]  # (n,)
    repeated: bool = False  # a retry: these rows had voted before
    positive: int | None = None  # the number of the class that thresholds speak of; None: the second of two, or none


class Label(NamedTuple):
    """A true label that came late."""

    id: Id
    label: Any
    propensity: float = 1.0


class Labelled(NamedTuple):
    """What became of the labels of one request."""

    stream: str
    known: int
    unknown: Sequence[Id]  # never decided, or beyond the horizon
    repeated: bool = False  # a retry


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a stream decides; what is None is taken from the service's defaults."""

    policy: Mapping[str, Any] | None = None  # Policy.to_json()
    tracker: str | None = None  # "safe" or "bank"
    prior: float | Mapping[str, float] | Sequence[float] | None = None  # where it starts
    positive: Any = None
    horizon: int | None = None
    unlabeled_as: Any = None


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """One line of the audit of a stream."""

    at: float  # seconds since 1970
    by: str
    row: int  # from which it holds
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: Mapping[str, float]  # class, as text: share
    training_prior: Mapping[str, float]
    positive: Any
    trusted: bool
    log_evidence: float | None
    log_alarm: float | None
    model: str
    created: float
    updated: float
    seq: int  # grows with everything that happens to the stream


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Some streams in the order of their names."""

    streams: Sequence[StreamSummary]
    total: int
    next: str | None = None  # give it as `after` for the next page


@dataclass(frozen=True, slots=True, eq=False)
class StreamDetail:
    """A stream in depth."""

    summary: StreamSummary
    classes: Sequence[Any]
    interval: Mapping[str, tuple[float, float]] | None
    start_prior: Mapping[str, float]
    threshold: Mapping[str, float | None]  # {"log_ratio": ..., "probability": ...}
    evidence: Mapping[str, Any] | None  # {"log_evidence", "log_alarm", "alarm_row", "where"}
    label_counts: Mapping[str, int]
    performance: Mapping[str, Any] | None  # {"now": {...}, "window": {...}, "text": ...}
    change: Mapping[str, Any]  # ChangeReport.to_json()
    settings: Mapping[str, Any]
    changes: Sequence[SettingsChange] = field(default=())  # the newest first


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A stream over time, down-sampled: columns of equal length."""

    stream: str
    columns: Mapping[str, Sequence[float | None]]
    training_prior: float
    log_alarm: float | None


class Streams(Protocol):
    """Everything the HTTP side asks of the streams. Methods raise `obil.service.refusals.RefusedError`."""

    async def decide(self, stream: str, rows: Rows, sender: Sender) -> Decided:
        """Decide rows, let them vote, and return when they are safe on disk."""

    async def label(self, stream: str, labels: Sequence[Label], sender: Sender) -> Labelled:
        """Take in late labels, and return when they are safe on disk."""

    async def create(self, stream: str, settings: StreamSettings, sender: Sender) -> StreamDetail:
        """Make a stream in advance."""

    async def change(self, stream: str, policy: Mapping[str, Any], sender: Sender) -> SettingsChange:
        """Set the policy from the next row on."""

    async def restart_monitor(self, stream: str, sender: Sender) -> StreamDetail:
        """Forget the evidence against label shift and watch afresh."""

    async def forget(self, stream: str, ids: Sequence[Id], sender: Sender) -> int:
        """Erase what is kept of decisions; return how many were found."""

    async def delete(self, stream: str, sender: Sender) -> None:
        """Erase a whole stream."""

    async def detail(self, stream: str) -> StreamDetail:
        """Return a stream in depth."""

    async def history(
        self, stream: str, *, start: float | None = None, end: float | None = None, points: int = 300
    ) -> Series:
        """Return a stream over time, between two moments (seconds since 1970)."""

    async def page(
        self, *, after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> StreamPage:
        """Return streams at a glance."""

    async def changed_since(self, seq: Mapping[str, int]) -> Sequence[StreamSummary]:
        """Return those of the named streams whose seq is another one than given."""

    async def reload_model(self, sender: Sender) -> Mapping[str, Any]:
        """Read the model folder again; refuse a model that the gate refuses."""

    async def ready(self) -> bool:
        """Return whether decisions can be taken and kept."""

    @property
    def model(self) -> RatioModel:
        """The model that scores from now on."""

    @property
    def model_card(self) -> Mapping[str, Any]:
        """Version, classes, columns, the gate's verdict and the reliability diagram."""
