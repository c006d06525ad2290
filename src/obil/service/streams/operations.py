"""Define the operations on streams, and the records they take and return."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from obil.online.decision import Decisions
from obil.online.decision_ids import Id
from obil.service.refusals import BadInputError
from obil.serving.ratio_model import RatioModel

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_NAME = re.compile(NAME_PATTERN[1:-1], re.ASCII)


def as_stream_name(name: str) -> str:
    """Return the name, or refuse one that a path, a query, a log or a file could misread.

    >>> as_stream_name("shop-7.eu")
    'shop-7.eu'
    """
    if _NAME.fullmatch(name) is None:
        raise BadInputError(
            "a stream name must have 1 to 128 letters, digits, dots, hyphens and underscores and begin with a letter "
            f"or a digit, got {name!r:.80}",
            where="stream",
        )
    return name


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of one request, to be decided."""

    table: Any  # what RatioModel.score takes: columns by name, or an array (n, p)
    n_rows: int
    ids: Sequence[Id] | None = None  # None: the row numbers in the stream
    inputs: Sequence[Any] | None = None  # the rows as sent, if the service stores inputs
    read_for: RatioModel | None = None  # the model whose columns and category codes the table has; None: any


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a request, and the key that identifies a retry."""

    by: str = "anonymous"  # the name of the API key
    idempotency_key: str | None = None
    digest: bytes = b""  # of the body: a key with another body is refused


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """The decisions of one request."""

    stream: str
    model: str  # its version
    first_row: int
    decisions: Decisions
    repeated: bool = False  # a retry: these rows had updated the prior before


class Label(NamedTuple):
    """A late label."""

    id: Id
    label: Any
    propensity: float = 1.0


@dataclass(frozen=True, slots=True)
class LabelResult:
    """How many labels of one request belonged to a decision."""

    stream: str
    known: int
    unknown: Sequence[Id]  # never decided, or longer ago than the horizon
    repeated: bool = False  # a retry


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a stream decides; None takes the default of the service."""

    policy: Mapping[str, Any] | None = None  # Policy.to_json()
    tracker: str | None = None  # "safe" or "bank"
    prior: float | Mapping[str, float] | Sequence[float] | None = None  # the initial one
    positive: Any = None
    horizon: int | None = None
    unlabeled_as: Any = None


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """One line of the audit of a stream."""

    at: float  # seconds since 1970
    by: str
    row: int  # the first row it applies to
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: Mapping[str, float]  # by class name
    training_prior: Mapping[str, float]
    positive: Any
    trusted: bool
    log_evidence: float | None
    log_alarm: float | None
    model: str
    created: float
    updated: float
    seq: int  # grows with every event of the stream


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Some streams, by name."""

    streams: Sequence[StreamSummary]
    total: int
    next: str | None = None  # pass it as `after` to get the next page


@dataclass(frozen=True, slots=True)
class StreamDetail(StreamSummary):
    """A stream in detail."""

    classes: Sequence[Any]
    interval: Mapping[str, tuple[float, float]] | None
    start_prior: Mapping[str, float]
    threshold: Mapping[str, float | None]  # {"log_ratio": ..., "probability": ...}
    evidence: Mapping[str, Any] | None  # {"log_evidence", "log_alarm", "alarm_row", "where"}
    label_counts: Mapping[str, int]
    performance: Mapping[str, Any] | None  # {"now": {...}, "window": {...}, "text": ...}
    change: Mapping[str, Any]  # ChangeReport.to_json()
    settings: Mapping[str, Any]
    changes: Sequence[SettingsChange]  # the newest first


@dataclass(frozen=True, slots=True, eq=False)
class StreamHistory:
    """A stream over time, downsampled: columns of equal length."""

    stream: str
    columns: Mapping[str, Sequence[float | None]]
    training_prior: float
    log_alarm: float | None


class Streams(Protocol):
    """All operations on streams. Methods raise `obil.service.refusals.RefusedError`."""

    async def decide(self, stream: str, rows: Rows, sender: Sender) -> Decided:
        """Decide rows, update the prior with them, and return once they are on disk."""

    async def label(self, stream: str, labels: Sequence[Label], sender: Sender) -> LabelResult:
        """Take in late labels, and return once they are on disk."""

    async def create(self, stream: str, settings: StreamSettings, sender: Sender) -> StreamDetail:
        """Create a stream."""

    async def change(self, stream: str, policy: Mapping[str, Any], sender: Sender) -> SettingsChange:
        """Set the policy from the next row on."""

    async def restart_monitor(self, stream: str, sender: Sender) -> StreamDetail:
        """Start a new monitoring run, without the evidence so far."""

    async def forget(self, stream: str, ids: Sequence[Id], sender: Sender) -> int:
        """Erase decisions; return how many were found."""

    async def delete(self, stream: str, sender: Sender) -> None:
        """Delete a stream."""

    async def detail(self, stream: str) -> StreamDetail:
        """Return a stream in detail."""

    async def history(
        self, stream: str, *, start: float | None = None, end: float | None = None, points: int = 300
    ) -> StreamHistory:
        """Return a stream over time, between two times (seconds since 1970)."""

    async def page(
        self, *, after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> StreamPage:
        """Return summaries of streams, by name."""

    async def changed_since(self, seq: Mapping[str, int]) -> Sequence[StreamSummary]:
        """Return those of the named streams whose seq differs from the given one."""

    async def reload_model(self, sender: Sender) -> Mapping[str, Any]:
        """Read the model folder again; refuse a model that the deployment gate refuses."""

    async def ready(self) -> bool:
        """Return whether decisions can be made and stored."""

    @property
    def model(self) -> RatioModel:
        """The current model."""

    @property
    def model_card(self) -> Mapping[str, Any]:
        """Version, classes, columns, the deployment gate's verdict and the reliability diagram."""
