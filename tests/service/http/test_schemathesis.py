"""Throw what schemathesis makes of the OpenAPI document at the service: no 500, no status that is not documented."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.service.conftest import BASE_URL, ROW, Served
from tests.thorough import repeats

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
CASES = 150
MANY_CASES = repeats(1_000, 10_000)
ENDLESS = "/events"  # such an answer has no end to wait for


@schemathesis.serializer("application/x-tar")
def as_it_is(_context: Any, value: Any) -> bytes:
    """Send whatever was made as an uploaded model."""
    return value if isinstance(value, bytes) else getattr(value, "data", str(value).encode())


def throw(served: Served, n_cases: int) -> None:
    """Send cases, half of them to a stream that exists, and check every answer against the document."""
    document = schemathesis.openapi.from_asgi("/openapi.json", served.app, headers={"host": "127.0.0.1:8642"})
    operations = [found.ok() for found in document.get_all_operations()]
    operations = [one for one in operations if not one.path.endswith(ENDLESS)]
    modes = list(schemathesis.GenerationMode)
    known = schemathesis.checks
    checks = [
        known.not_a_server_error,
        known.status_code_conformance,
        known.content_type_conformance,
        known.response_schema_conformance,
    ]
    sent = []

    @settings(
        max_examples=n_cases,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.sampled_from([(one, mode) for one in operations for mode in modes]).flatmap(
            lambda chosen: chosen[0].as_strategy(generation_mode=chosen[1])
        ),
        on_a_known_stream=st.booleans(),
    )
    def send(case: Any, on_a_known_stream: bool) -> None:
        if on_a_known_stream and "stream" in (case.path_parameters or {}):
            case.path_parameters["stream"] = "shop"
            if case.method.upper() == "PUT":
                case.path_parameters["stream"] = "made"
        answer = case.call(base_url=BASE_URL)
        sent.append((case.method, case.operation.path, answer.status_code))
        case.validate_response(answer, checks=checks)
        if case.method.upper() == "DELETE":
            served.client.post("/v1/streams/shop/decisions", json={"row": ROW, "id": "first"})

    send()
    assert len(sent) >= n_cases
    assert len({path for _, path, _ in sent}) >= 10
    assert {200, 422} <= {status for _, _, status in sent}


def test_answers_whatever_comes_as_documented(served: Served) -> None:
    throw(served, CASES)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_answers_thousands_of_requests_as_documented(served: Served) -> None:
    throw(served, MANY_CASES)
