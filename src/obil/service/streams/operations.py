"""Define what the operations on streams take: a name, rows, labels, settings and a sender; and check it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from obil.arrays import shown
from obil.online.decision import Decisions
from obil.online.decision_ids import Id, as_ids, as_propensity
from obil.service.refusals import BadInputError, as_bad_input
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
class StreamSettings:
    """How a stream decides; None takes the default of the service."""

    policy: Mapping[str, Any] | None = None  # Policy.to_json()
    tracker: str | None = None  # "safe" or "bank"
    prior: float | Mapping[str, float] | Sequence[float] | None = None  # the initial one
    positive: Any = None
    horizon: int | None = None
    unlabeled_as: Any = None


def checked_ids(ids: list[Any], *, where: str) -> Sequence[Id]:
    """Return ids unchanged, or refuse them."""
    with as_bad_input(where):
        names = as_ids(ids)
    if any("\0" in name for name in names if type(name) is str):  # PostgreSQL cannot store it
        raise BadInputError("an id must not contain a NUL character", where=where)
    return names


def as_class(value: Any, classes: list[Any], *, where: str) -> Any:
    """Return the class that a JSON value names; true is not 1.

    >>> as_class(1.0, [0, 1], where="label")
    1
    """
    if isinstance(value, str | int | float):
        for known in classes:
            if value == known and isinstance(value, bool) == isinstance(known, bool):
                return known
    raise BadInputError(f"{where} must be one of the classes {classes!r:.200}, got {shown(value)}", where=where)


def checked_label(label: Label, classes: list[Any]) -> Label:
    """Return a label with plain values, or refuse it."""
    name = checked_ids([label.id], where="id")[0]
    known = as_class(label.label, classes, where="label")
    with as_bad_input("propensity"):
        return Label(name, known, as_propensity(label.propensity))
