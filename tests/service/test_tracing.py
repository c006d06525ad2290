"""Spans of requests and of their parts, as an exporter of OpenTelemetry gets them."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="obil[otel] is not installed")

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from obil.errors import InvalidInputError
from obil.service.tracing import Tracing, open_tracing
from tests.service.conftest import ROW, Served

DECISIONS = "/v1/streams/shop/decisions"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.fixture
def traced(make_served: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Served, Callable[[], list[Any]]]:
    """Serve with spans kept in memory; return a function that gives those that ended so far."""
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter)
    monkeypatch.setattr("obil.service.http.app.open_tracing", lambda _exporter: tracing)

    def ended() -> list[Any]:
        tracing.flush()
        return list(exporter.get_finished_spans())

    return make_served(), ended


on_disk = pytest.mark.parametrize("make_streams", ["disk"], indirect=True)
in_memory = pytest.mark.parametrize("make_streams", ["memory"], indirect=True)


@on_disk
@pytest.mark.parametrize("n_rows", [1, 200])  # in the transaction, and in a thread before it
def test_a_decision_has_spans_of_waiting_scoring_and_commit(traced: Any, n_rows: int) -> None:
    served, ended = traced
    answer = served.client.post(DECISIONS, json={"rows": [ROW] * n_rows}, headers=GIVEN)
    assert answer.status_code == 200
    spans = {span.name: span for span in ended()}
    assert sorted(spans) == ["POST /v1/streams/{stream}/decisions", "commit", "score", "wait"]
    whole = spans["POST /v1/streams/{stream}/decisions"]
    assert f"{whole.context.span_id:016x}" == answer.headers["traceparent"].split("-")[2]
    assert (f"{whole.context.trace_id:032x}", f"{whole.parent.span_id:016x}") == (TRACE, PARENT)
    for name in ("wait", "score", "commit"):
        part = spans[name]
        assert part.context.trace_id == whole.context.trace_id
        assert part.parent.span_id == whole.context.span_id
        assert whole.start_time <= part.start_time <= part.end_time <= whole.end_time
    assert spans["wait"].end_time == spans["commit"].start_time
    within = spans["commit"] if n_rows == 1 else whole
    assert within.start_time <= spans["score"].start_time <= spans["score"].end_time <= within.end_time
    assert (n_rows == 1) == (spans["score"].start_time >= spans["wait"].end_time)


@in_memory
def test_a_request_without_a_trace_begins_one_and_each_has_its_own(traced: Any) -> None:
    served, ended = traced
    answers = [served.client.get("/healthz") for _ in range(2)]
    first, second = ended()
    assert first.parent is None
    assert first.context.trace_id != second.context.trace_id
    assert [answer.headers["traceparent"].split("-")[1] for answer in answers] == [
        f"{span.context.trace_id:032x}" for span in (first, second)
    ]


@in_memory
def test_a_refusal_is_in_its_span_and_no_id_is(traced: Any) -> None:
    served, ended = traced
    served.client.get(f"{DECISIONS}/customer-77")
    served.client.get("/nothing/customer-77")
    found, nothing = ended()
    assert found.name == "GET /v1/streams/{stream}/decisions/{id:path}"
    assert (found.attributes["http.response.status_code"], found.attributes["error.type"]) == (404, "unknown_stream")
    assert nothing.name == "GET none"
    assert "customer-77" not in found.to_json() + nothing.to_json()


@in_memory
def test_a_trace_that_is_not_sampled_records_no_span(traced: Any) -> None:
    served, ended = traced
    answer = served.client.get("/healthz", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert ended() == []
    assert answer.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert answer.headers["traceparent"].endswith("-00")


def test_an_exporter_is_found_by_its_name() -> None:
    assert open_tracing("off") is None
    assert isinstance(open_tracing("console"), Tracing)
    with pytest.raises(InvalidInputError, match=r"tracing='consol' names no OpenTelemetry exporter.*console"):
        open_tracing("consol")
