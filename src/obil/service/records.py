"""Define what the service returns: written as JSON, described in the OpenAPI document, read by the client."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar, overload

Id = str | int
Class = str | float | bool  # one of the model's classes
ByClass = Mapping[str, float]  # keys are class names
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one row, and from what."""

    __pydantic_config__ = {  # noqa: RUF012  # for the OpenAPI document
        "use_attribute_docstrings": True,
        "json_schema_extra": {
            "examples": [
                {
                    "id": "order 7", "label": 1, "probability": 0.62, "posterior": {"0": 0.38, "1": 0.62},
                    "log_ratio": 4.1, "log_ratios": {"0": 0.0, "1": 4.1}, "effective_prior": {"0": 0.974, "1": 0.026},
                    "threshold": 3.6, "trusted": True, "reachable": True,
                }
            ]
        },
    }  # fmt: skip

    id: Id
    label: Class
    """One of the model's classes."""
    probability: float
    """Of the positive class; of the decided class if there is no positive one."""
    posterior: ByClass
    log_ratio: float | None
    """Of the positive class; null with more than two classes."""
    log_ratios: ByClass
    effective_prior: ByClass
    """The class prior the row was decided with: the estimate before this row, and what labels make of it."""
    threshold: float | None
    """On the log ratio of the positive class; null if infinite or if there is none."""
    trusted: bool
    """False once the monitor finds that no class prior explains the stream."""
    reachable: bool
    """False if no threshold meets the policy at this prior."""


@dataclass(frozen=True, slots=True)
class Decisions(Sequence[Decision]):
    """The decisions of one request, in the order of its rows."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    stream: str
    model: str
    """The version of the model that scored."""
    repeated: bool
    """True for a retry: these rows had updated the prior before."""
    decisions: Sequence[Decision]

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | Sequence[Decision]:
        """Return the decision of one row, or of some."""
        return self.decisions[index]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        """Iterate over the decisions."""
        return iter(self.decisions)


@dataclass(frozen=True, slots=True)
class LabelResult:
    """How many labels of one request belonged to a decision."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    stream: str
    known: int
    unknown: Sequence[Id]
    """Ids that were never decided here, or longer ago than the horizon."""
    repeated: bool  # a retry


@dataclass(frozen=True, slots=True)
class TrueLabel:
    """A late label of a decision."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    at: datetime
    by: str
    label: Class
    propensity: float
    known: bool
    """False if it came after the horizon: the stream did not learn it."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision as it was made, and the labels that came for it since."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    stream: str
    model: str
    """The version of the model that scored."""
    row: int
    """Its number in the stream."""
    at: datetime
    by: str
    decision: Decision
    true_labels: Sequence[TrueLabel]
    """The oldest first."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One event of a stream's log."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    seq: int
    at: datetime
    by: str
    kind: str
    """"created", "decided", "labelled", "settings", "model", "restarted" (the monitor), "forgotten" or "noted"."""
    row: int
    """The first row of it, or after it."""
    rows: int
    """How many it decided, erased ones included."""
    content: Mapping[str, Any]
    """What is stored of it: decisions and the model's version, labels, settings before and after, a note."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some events of a stream's log, in order."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    stream: str
    entries: Sequence[LogEntry]
    next: int | None
    """Pass it as `after` to get the next page; null at the end of the log."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: ByClass
    training_prior: ByClass
    positive: Class | None
    trusted: bool
    log_evidence: float | None
    log_alarm: float | None
    model: str  # its version
    created: datetime
    updated: datetime
    seq: int  # grows with every event of the stream
    last_row: datetime | None  # when the last rows were decided
    alarm_since: datetime | None  # None as long as it is trusted
    acknowledged_by: str | None  # the key's name of who has seen the alarm


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Some streams, by name."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    streams: Sequence[StreamSummary]
    total: int
    next: str | None
    """Pass it as `after` to get the next page."""


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """One line of the audit of a stream."""

    at: datetime
    by: str
    row: int  # the first row it applies to
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happened to a stream, other than rows and labels."""

    at: datetime
    by: str
    row: int  # the first row after it
    kind: str  # "settings", "model", "restarted" (the monitor), "forgotten" (rows), "noted" or "acknowledged"
    text: str | None  # of a note


@dataclass(frozen=True, slots=True)
class StreamDetail(StreamSummary):
    """A stream in detail."""

    classes: Sequence[Class]
    interval: Mapping[str, Sequence[float | None]] | None
    start_prior: ByClass
    threshold: Mapping[str, float | None]  # {"log_ratio": ..., "probability": ...}
    evidence: Mapping[str, Any] | None  # {"log_evidence", "log_alarm", "alarm_row", "where"}
    label_counts: Mapping[str, int]
    performance: Mapping[str, Any] | None  # {"now": {...}, "window": {...}, "text": ...}
    change: Mapping[str, Any]  # ChangeReport.to_json()
    settings: Mapping[str, Any]
    changes: Sequence[SettingsChange]  # the newest first
    events: Sequence[StreamEvent]  # the newest first


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """A stream over time: columns of equal length, None where a value is unknown."""

    stream: str
    columns: Mapping[str, Sequence[float | None]]
    training_prior: float | None
    log_alarm: float | None


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The current model."""

    version: str
    classes: Sequence[Class]
    training_prior: ByClass
    columns: Sequence[Mapping[str, str]] | None
    n_features: int | None
    views: int
    gate: Mapping[str, Any]  # verdict, reasons, figures
    reliability: Sequence[Mapping[str, float]]  # bins of the reliability diagram


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of the model."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    version: str
    source: str
    """"folder" (of the service) or "upload"."""
    added: datetime | None
    by: str
    """Who added it."""
    activated: datetime | None
    """When it became active last; null if it never was, or if that was not written down."""
    activated_by: str | None


@dataclass(frozen=True, slots=True)
class Shadow:
    """The version that is compared with the active one."""

    version: str
    fraction: float  # of rows
    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """The shadow model beside the active one, on a sample of the rows of a stream."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    stream: str
    version: str | None
    """Null if no model runs in shadow; the figures are null until rows were compared."""
    active: str
    since: datetime | None
    """When the comparison began: again with each start of a process."""
    rows: int
    agreement: float | None
    """The fraction of rows that both decide alike."""
    alerts: int
    """Of the shadow model, among these rows."""
    active_alerts: int
    log_ratio_difference: ByClass | None
    """The mean of the shadow model's log ratios minus the active one's."""
    prior: ByClass | None
    """The prevalence as the shadow model sees it; it begins at that of the stream."""
    trusted: bool | None
    """Whether the shadow model's own monitor has raised no alarm."""
    skipped: int
    """Rows of the sample, in all streams, that were not compared: too many waited, or they could not be scored."""


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """All versions of the model, the newest first."""

    __pydantic_config__ = {"use_attribute_docstrings": True}  # noqa: RUF012

    models: Sequence[ModelVersion]
    active: str
    previous: str | None
    """The one that a rollback activates."""
    shadow: Shadow | None


_NESTED: dict[str, type] = {
    "decisions": Decision,
    "changes": SettingsChange,
    "events": StreamEvent,
    "streams": StreamSummary,
    "entries": LogEntry,
    "true_labels": TrueLabel,
    "models": ModelVersion,
}


def read(kind: type[Record], record: Mapping[str, Any]) -> Record:
    """Return a record of one kind; unknown fields of a newer service are ignored.

    >>> read(LabelResult, {"stream": "shop", "known": 1, "unknown": [], "repeated": False, "new": 1}).known
    1
    """
    values = {item.name: record[item.name] for item in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    for name, value in values.items():
        if name in ("at", "created", "updated", "last_row", "alarm_since", "added", "activated", "since"):
            values[name] = None if value is None else datetime.fromisoformat(value)
        elif name == "decision":
            values[name] = read(Decision, value)
        elif name == "shadow":
            values[name] = None if value is None else read(Shadow, value)
        elif name in _NESTED:
            values[name] = tuple(read(_NESTED[name], one) for one in value)
    return kind(**values)
