import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from obil.errors import InvalidInputError
from obil.service.http.access import Authentication, host_name, needed_scope
from obil.service.http.app import create_app
from obil.service.http.guard import CONTENT_POLICY
from obil.service.http.in_progress import InProgress
from obil.service.json_logs import set_up_json_logs
from obil.service.records import StreamPage
from obil.service.refusals import BusyError, NoKeyError, TooManyRequestsError
from obil.service.service_settings import ServiceSettings
from obil.service.storage.api_keys import SCOPES, make_key
from tests.service.conftest import BASE_URL, ROW, Served
from tests.service.keys_in_memory import KeysInMemory


@pytest.fixture
def log_lines() -> Iterator[Any]:
    """Return a function that gives the lines logged so far."""
    loggers = [logging.getLogger(name) for name in ("obil", "uvicorn", "asyncio")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    text = io.StringIO()
    set_up_json_logs("info", stream=text)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate


def test_what_the_server_warns_of_is_json_too_and_without_values(log_lines: Any) -> None:
    try:
        raise ValueError("amount 3.2")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    assert [(line["message"], line["exception"]) for line in log_lines()] == [
        ("Exception in ASGI application", "ValueError")
    ]


def test_a_body_in_chunks_is_limited_although_it_announces_no_length(served: Served) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b" " * 1_000

    headers = {"content-type": "application/json"}
    answer = served.client.post("/v1/streams/shop/decisions", content=chunks(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_every_answer_carries_the_headers_that_keep_a_browser_safe(served: Served) -> None:
    for path in ("/v1/streams", "/healthz", "/nothing", "/v1/streams/none"):
        headers = served.client.get(path).headers
        assert headers["content-security-policy"] == CONTENT_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"]
    assert served.client.get("/v1/streams").headers["cache-control"] == "no-store"


def test_takes_the_request_id_of_the_caller_only_where_it_is_harmless(served: Served) -> None:
    assert served.client.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    for odd in ("a b", "x" * 65, '"'):
        assert served.client.get("/healthz", headers={"x-request-id": odd}).headers["x-request-id"] != odd


def test_passes_a_trace_on_in_the_answer_and_the_log(served: Served, log_lines: Any) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    answers = [served.client.get(path, headers=headers) for path in ("/v1/streams/shop", "/nothing/here")]
    answers.append(served.client.post("/v1/streams/shop/decisions", json={"row": ROW}, headers=headers))
    assert [answer.status_code for answer in answers] == [200, 404, 200]
    for answer, line in zip(answers, log_lines(), strict=True):
        assert line["trace_id"] == trace
        assert answer.headers["traceparent"] == f"00-{trace}-{line['span_id']}-01"
    for wrong in ({}, {"traceparent": f"00-{trace}-0-01"}):
        assert "traceparent" not in served.client.get("/v1/streams/shop", headers=wrong).headers
    assert not any("trace_id" in line for line in log_lines()[3:])


def test_logs_one_line_a_request_and_nothing_of_its_content(locked: Served, log_lines: Any) -> None:
    key = locked.keys["decide"]
    locked.client.post(
        "/v1/streams/customer-77/decisions?id_column=hidden-query",
        json={"row": {**ROW, "country": "hidden-category"}, "id": "hidden-id"},
        headers={"authorization": f"Bearer {key}", "x-request-id": "r1"},
    )
    locked.client.post("/v1/streams/customer-77/decisions", json={"row": {"hidden-column": "hidden"}})

    lines = log_lines()

    assert [line["status"] for line in lines] == [200, 401]
    assert [line.get("code") for line in lines] == [None, "no_key"]
    assert lines[0]["request_id"] == "r1"
    assert lines[0]["route"] == "/v1/streams/{stream}/decisions"
    assert lines[0]["method"] == "POST"
    assert lines[0]["key"] == "decide key"
    assert lines[0]["ms"] > 0
    text = json.dumps(lines)
    assert "hidden" not in text
    assert "customer-77" not in text
    assert key.split("_")[2] not in text


def test_logs_the_code_of_a_refusal_wherever_it_was_refused(served: Served, log_lines: Any) -> None:
    served.client.get("/nothing/here")
    served.client.get("/v1/streams", params={"limit": "many"})
    served.client.post("/v1/streams/s/decisions", content=b"{", headers={"content-type": "application/json"})
    lines = log_lines()
    assert [line["code"] for line in lines] == ["not_found", "bad_input", "not_understood"]


def test_a_bug_answers_500_with_the_request_s_id_and_logs_no_values(
    served: Served, log_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise KeyError("hidden value")

    monkeypatch.setattr(served.streams, "page", fail)
    answer = served.client.get("/v1/streams")

    assert answer.status_code == 500
    assert "hidden" not in answer.text
    lines = log_lines()
    assert lines[0]["error"]["type"] == "KeyError"
    assert lines[0]["request_id"] == answer.json()["request_id"]
    assert "hidden" not in json.dumps(lines)


def test_takes_its_own_origin_and_any_of_its_names(make_served: Any) -> None:
    served = make_served(allowed_hosts=("obil.example",))
    for host in ("localhost", "localhost:9", "[::1]:8642", "obil.example", "OBIL.example:443"):
        headers = {"host": host, "origin": f"https://{host}"}
        assert served.client.get("/healthz", headers=headers).status_code == 200, host
    assert served.client.get("/healthz", headers={"host": "example"}).status_code == 403


@pytest.mark.parametrize(
    "header", [b"", b":80", b"[::1", b"[::1]x", b"localhost:80:90", b"localhost:x", b"a@localhost"]
)
def test_takes_no_odd_header_for_one_of_its_names(header: bytes) -> None:
    assert host_name(header) not in {"localhost", "::1"}


def test_refuses_a_request_without_a_host() -> None:
    from obil.service.http.access import HostCheck
    from obil.service.refusals import ForeignHostError

    check = HostCheck(frozenset({"localhost"}))
    for hosts in ([], [b"localhost", b"localhost"]):
        with pytest.raises(ForeignHostError, match="one Host"):
            check.require(hosts, [])


NO_VERSION = "0123456789abcdef"


@pytest.mark.parametrize(
    ("scope", "method", "path", "status"),
    [
        ("decide", "POST", "/v1/streams/shop/decisions", 200),
        ("label", "POST", "/v1/streams/shop/labels", 200),
        ("read", "GET", "/v1/streams", 200),
        ("read", "GET", "/v1/model", 200),
        ("read", "GET", "/metrics", 200),
        ("read", "GET", "/openapi.json", 200),
        ("admin", "POST", "/v1/streams/shop/monitor/restart", 200),
        ("admin", "POST", "/v1/model/reload", 200),
        ("admin", "DELETE", "/v1/streams/shop", 204),
        ("read", "GET", "/v1/models", 200),
        ("read", "GET", f"/v1/models/{NO_VERSION}", 404),
        ("upload", "POST", "/v1/models", 415),
        ("upload", "DELETE", f"/v1/models/{NO_VERSION}", 404),
        ("activate", "POST", f"/v1/models/{NO_VERSION}/activate", 404),
        ("activate", "POST", f"/v1/models/{NO_VERSION}/shadow", 404),
        ("activate", "DELETE", "/v1/model/shadow", 200),
        ("activate", "POST", "/v1/model/rollback", 404),
    ],
)
def test_each_scope_opens_its_routes_and_no_other(
    locked: Served, scope: str, method: str, path: str, status: int
) -> None:
    bodies = {"decide": {"row": ROW}, "label": {"id": "first", "label": 1}}
    request = {"json": bodies[scope]} if scope in bodies else {}
    for other in set(SCOPES) - {scope}:
        headers = {"authorization": f"Bearer {locked.keys[other]}"}
        assert locked.client.request(method, path, headers=headers, **request).status_code == 403
    headers = {"authorization": f"Bearer {locked.keys[scope]}"}
    assert locked.client.request(method, path, headers=headers, **request).status_code == status


def test_health_needs_no_key_and_a_route_that_nobody_named_needs_one(locked: Served) -> None:
    assert locked.client.get("/healthz").status_code == 200
    assert locked.client.get("/readyz").status_code == 200
    assert locked.client.get("/metrics").status_code == 401
    assert needed_scope("GET", "/v1/anything") == "read"
    assert needed_scope("PATCH", "/v1/streams/shop/decisions") == "admin"


def test_a_revoked_key_is_noticed_when_the_cache_is_old() -> None:
    store, now, day = KeysInMemory(), [100.0], [1e9]
    key, record = make_key("till", ["decide"], now=0.0)
    store.add_key(record)
    authentication = Authentication(store, required=True, cache_seconds=5.0, now=lambda: day[0], clock=lambda: now[0])

    async def caller() -> str:
        return await authentication.caller(f"Bearer {key}".encode(), "decide")

    assert asyncio.run(caller()) == "till"
    store.revoke_key(record.id, 101.0)
    assert asyncio.run(caller()) == "till"
    now[0] += 5.0
    day[0] -= 3_600.0  # setting the time of day back does not keep it alive
    with pytest.raises(NoKeyError):
        asyncio.run(caller())


def test_wrong_keys_cost_the_store_no_more_than_a_few_reads() -> None:
    store, now = CountedKeys(), [100.0]
    authentication = Authentication(store, required=True, clock=lambda: now[0])

    async def refused(key: str) -> None:
        with pytest.raises(NoKeyError):
            await authentication.caller(f"Bearer {key}".encode(), "decide")

    async def many() -> None:
        await asyncio.gather(*(refused(f"obil_{number:012x}_{number:064x}") for number in range(1_000)))

    for _ in range(3):
        asyncio.run(many())
    assert store.n_reads == 1
    key, record = make_key("new", ["decide"], now=0.0)
    store.add_key(record)
    now[0] += 0.5  # a key that was made meanwhile is found soon
    assert asyncio.run(authentication.caller(f"Bearer {key}".encode(), "decide")) == "new"
    assert store.n_reads == 2


class CountedKeys(KeysInMemory):
    n_reads = 0

    def list_keys(self) -> Any:
        self.n_reads += 1
        return super().list_keys()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": "2", "transfer-encoding": "chunked"}, 400),
        ({"content-encoding": "gzip"}, 415),
        ({"content-encoding": "identity"}, 404),
    ],
)
def test_refuses_a_body_whose_end_or_encoding_is_in_doubt(served: Served, headers: Any, status: int) -> None:
    headers = {"content-type": "application/json", **headers}
    answer = served.client.post("/v1/streams/none/labels", content=b'{"id": 1, "label": 1}', headers=headers)
    assert answer.status_code == status
    assert (answer.headers.get("connection") == "close") == (status == 400)


def test_refuses_what_is_too_much_in_progress_and_of_each_key() -> None:
    requests = InProgress(most=3, most_per_key=2)
    with requests.one("till 1"), requests.one("till 1"):
        with pytest.raises(TooManyRequestsError, match="2 requests in progress"), requests.one("till 1"):
            pass
        with requests.one("till 2"), pytest.raises(BusyError, match="3 requests"), requests.one("till 3"):
            pass
    assert requests.total == 0
    with requests.one("anonymous"), requests.one("anonymous"), requests.one("anonymous"):
        assert requests.total == 3


def test_health_is_answered_while_everything_is_in_progress(make_served: Any) -> None:
    served = make_served(max_requests=1)

    async def run() -> list[int]:
        waiting = asyncio.Event()

        async def page(**_: Any) -> Any:
            await waiting.wait()
            return StreamPage([], 0, None)

        served.streams.page = page
        async with httpx.AsyncClient(transport=httpx.ASGITransport(served.app), base_url=BASE_URL) as client:
            first = asyncio.create_task(client.get("/v1/streams"))
            await asyncio.sleep(0.05)
            statuses = [(await client.get(path)).status_code for path in ("/v1/streams", "/healthz")]
            waiting.set()
            return [(await first).status_code, *statuses]

    assert asyncio.run(run()) == [200, 503, 200]


def test_refusals_that_anyone_can_cause_are_not_all_logged(locked: Served, log_lines: Any) -> None:
    for _ in range(100):
        assert locked.client.get("/v1/streams").status_code == 401
    assert 10 <= len(log_lines()) <= 40  # ten in a second


def test_refuses_to_be_bound_beyond_loopback_without_keys(served: Served) -> None:
    with pytest.raises(InvalidInputError, match="needs API keys"):
        create_app(served.streams, ServiceSettings(host="0.0.0.0"))
