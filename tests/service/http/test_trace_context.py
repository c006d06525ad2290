"""Traces that callers have begun, held against OpenTelemetry's own reader."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from obil.service.http.trace_context import continued

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-01"
HEX = st.text("0123456789abcdef", min_size=1, max_size=34)
ALMOST = st.tuples(st.sampled_from(["00", "01", "cc", "ff", "0", "0A"]), HEX, HEX, HEX).map("-".join)
NEAR = st.sampled_from(
    [GIVEN, GIVEN.upper(), f"{GIVEN}-", f"{GIVEN}-x", f"01{GIVEN[2:]}-what comes later", f"ff{GIVEN[2:]}", GIVEN[:-1],
     f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-00", f"01{GIVEN[2:]}x", "", "00"]
)  # fmt: skip


def test_continues_a_trace_with_a_span_of_its_own() -> None:
    one, two = continued([GIVEN.encode()]), continued([GIVEN.encode()])
    assert one is not None
    assert two is not None
    assert (one.trace_id, one.parent_id, one.flags) == (TRACE, SPAN, 1)
    assert one.header == f"00-{TRACE}-{one.span_id}-01"
    assert len({one.span_id, two.span_id, SPAN}) == 3


@given(NEAR | ALMOST | st.text(max_size=80))
@example(GIVEN)
def test_reads_what_opentelemetry_reads(text: str) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry is not installed")
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    span = get_current_span(TraceContextTextMapPropagator().extract({"traceparent": text})).get_span_context()
    found = continued([text.encode(errors="replace")])
    if text != text.strip() or "\n" in text:
        return  # a server takes such space away
    assert (found is not None) == span.is_valid, text
    if found is not None:
        assert (int(found.trace_id, 16), int(found.parent_id, 16)) == (span.trace_id, span.span_id)
        assert found.flags == span.trace_flags & 1


def test_two_headers_name_no_trace() -> None:
    assert continued([GIVEN.encode()] * 2) is None
    assert continued([]) is None
