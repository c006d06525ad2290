"""Records of the service's responses, as the client returns them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self, TypeVar, overload

Id = str | int
ByClass = Mapping[str, float]  # keys are class names
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one row, and from what."""

    id: Id
    label: Any  # one of the model's classes
    probability: float  # of the positive class; of the decided class if there is no positive one
    posterior: ByClass
    log_ratio: float | None  # of the positive class; None with more than two classes
    log_ratios: ByClass
    prior: ByClass  # the estimate before this row
    threshold: float | None  # on the log ratio
    trusted: bool  # False once no class prior explains the stream
    reachable: bool  # False if no threshold meets the policy


@dataclass(frozen=True, slots=True)
class Decisions(Sequence[Decision]):
    """The decisions of one request, in the order of its rows."""

    stream: str
    model: str  # the version that scored
    repeated: bool  # a retry: these rows had updated the prior before
    decisions: tuple[Decision, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read a response."""
        decisions = tuple(read(Decision, one) for one in record["decisions"])
        return cls(record["stream"], record["model"], record["repeated"], decisions)

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

    stream: str
    known: int
    unknown: Sequence[Id]  # never decided, or longer ago than the horizon
    repeated: bool


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: ByClass
    training_prior: ByClass
    positive: Any
    trusted: bool
    log_evidence: float | None
    log_alarm: float | None
    model: str
    created: datetime
    updated: datetime
    seq: int


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """One line of the audit of a stream."""

    at: datetime
    by: str
    row: int  # the first row it applies to
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamState(StreamSummary):
    """A stream in detail."""

    classes: Sequence[Any]
    interval: Mapping[str, Sequence[float]] | None
    start_prior: ByClass
    threshold: Mapping[str, float | None]
    evidence: Mapping[str, Any] | None
    label_counts: Mapping[str, int]
    performance: Mapping[str, Any] | None
    change: Mapping[str, Any]
    settings: Mapping[str, Any]
    changes: Sequence[SettingsChange]  # the newest first

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read a response."""
        return read(cls, {**record, "changes": tuple(read(SettingsChange, one) for one in record["changes"])})


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """A stream over time: columns of equal length, None where a value is unknown."""

    stream: str
    training_prior: float | None
    log_alarm: float | None
    columns: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The current model."""

    version: str
    classes: Sequence[Any]
    training_prior: ByClass
    columns: Sequence[Mapping[str, str]] | None
    gate: Mapping[str, Any]  # verdict, reasons, figures


def read(kind: type[Record], record: Mapping[str, Any]) -> Record:
    """Return a record of one kind; unknown fields of a newer service are ignored.

    >>> read(LabelResult, {"stream": "shop", "known": 1, "unknown": [], "repeated": False, "new": 1}).known
    1
    """
    values = {item.name: record[item.name] for item in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    for name in ("at", "created", "updated"):
        if isinstance(values.get(name), str):
            values[name] = datetime.fromisoformat(values[name])
    return kind(**values)
