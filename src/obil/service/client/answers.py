"""Hold what the service answers to its client, as frozen records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self, TypeVar, overload

Id = str | int
Shares = Mapping[str, float]  # class, as text: share
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one row, and from what."""

    id: Id
    label: Any  # one of the model's classes
    probability: float  # that of the positive class; of the decided one where none is positive
    posterior: Shares
    log_ratio: float | None  # that of the positive class; None for more than two classes
    log_ratios: Shares
    prior: Shares  # from before this row
    threshold: float | None  # on the log ratio
    trusted: bool  # False while no prior explains the stream
    reachable: bool  # False where no threshold meets the policy


@dataclass(frozen=True, slots=True)
class Decided(Sequence[Decision]):
    """The decisions of one request, in the order of its rows."""

    stream: str
    model: str  # the version that scored
    repeated: bool  # a retry: these rows had voted before
    decisions: tuple[Decision, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read an answer."""
        decisions = tuple(read(Decision, one) for one in record["decisions"])
        return cls(record["stream"], record["model"], record["repeated"], decisions)

    @overload
    def __getitem__(self, place: int) -> Decision: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Decision]: ...
    def __getitem__(self, place: int | slice) -> Decision | Sequence[Decision]:
        """Return the decision of one row, or of some."""
        return self.decisions[place]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        """Go through the rows."""
        return iter(self.decisions)


@dataclass(frozen=True, slots=True)
class Labelled:
    """What became of the labels of one request."""

    stream: str
    known: int
    unknown: Sequence[Id]  # never decided, or beyond the horizon
    repeated: bool


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """A stream at a glance."""

    name: str
    rows: int
    labels: int
    alerts: int
    prior: Shares
    training_prior: Shares
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
    row: int  # from which it holds
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamState(StreamSummary):
    """A stream in depth."""

    classes: Sequence[Any]
    interval: Mapping[str, Sequence[float]] | None
    start_prior: Shares
    threshold: Mapping[str, float | None]
    evidence: Mapping[str, Any] | None
    label_counts: Mapping[str, int]
    performance: Mapping[str, Any] | None
    change: Mapping[str, Any]
    settings: Mapping[str, Any]
    changes: Sequence[SettingsChange]  # the newest first

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read an answer."""
        return read(cls, {**record, "changes": tuple(read(SettingsChange, one) for one in record["changes"])})


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """A stream over time: columns of equal length, None where a value is not known."""

    stream: str
    training_prior: float | None
    log_alarm: float | None
    columns: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The model that serves."""

    version: str
    classes: Sequence[Any]
    training_prior: Shares
    columns: Sequence[Mapping[str, str]] | None
    gate: Mapping[str, Any]  # verdict, reasons, figures


def read(kind: type[Record], record: Mapping[str, Any]) -> Record:
    """Return a record of one kind; what a newer service answers besides is left out.

    >>> read(Labelled, {"stream": "shop", "known": 1, "unknown": [], "repeated": False, "new": 1}).known
    1
    """
    values = {item.name: record[item.name] for item in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    for name in ("at", "created", "updated"):
        if isinstance(values.get(name), str):
            values[name] = datetime.fromisoformat(values[name])
    return kind(**values)
