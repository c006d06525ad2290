"""Continue a trace that a caller has begun (W3C Trace Context): read `traceparent`, and name this part of it."""

import re
import secrets
from collections.abc import Sequence
from typing import NamedTuple

_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1  # of the flags; the others of a later version are not passed on


class TraceContext(NamedTuple):
    """The trace of a request, and the part of it that this service does."""

    trace_id: str
    parent_id: str  # the caller's part
    span_id: str  # this service's part
    flags: int

    @property
    def header(self) -> str:
        """Return the `traceparent` of what this service does."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def continued(headers: Sequence[bytes]) -> TraceContext | None:
    """Return the trace that the `traceparent` headers of a request name; None if there is none, or not exactly one.

    >>> continued([b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]).trace_id
    '4bf92f3577b34da6a3ce929d0e0e4736'
    >>> continued([b"00-00000000000000000000000000000000-00f067aa0ba902b7-01"])  # the standard has it ignored
    """
    found = _TRACEPARENT.fullmatch(headers[0]) if len(headers) == 1 else None
    if found is None or (found[1] == b"00" and found[5] is not None):
        return None
    span_id = secrets.token_hex(8)
    return TraceContext(found[2].decode(), found[3].decode(), span_id, int(found[4], 16) & _SAMPLED)
