import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from obil.service.http.stream_routes import event_lines
from obil.service.refusals import NotStoredError, UnknownStreamError
from tests.service.conftest import BASE_URL, ROW, Served

DECISIONS = "/v1/streams/shop/decisions"


def test_a_retry_gets_the_same_response_and_counts_once(served: Served) -> None:
    headers = {"idempotency-key": "order 7, once"}
    first = served.client.post(DECISIONS, json={"rows": [ROW, ROW]}, headers=headers).json()
    state = served.streams.state()
    again = served.client.post(DECISIONS, json={"rows": [ROW, ROW]}, headers=headers).json()

    assert again["repeated"]
    assert again["decisions"] == first["decisions"]
    assert served.streams.state() == state


def test_decides_a_table_and_answers_with_one(served: Served) -> None:
    body = "order,amount,age,country\n007,1.5,40,DE\n008,,50,XX\n"
    headers = {"content-type": "text/csv; charset=utf-8", "accept": "text/csv"}

    answer = served.client.post(f"{DECISIONS}?id_column=order", content=body.encode(), headers=headers)

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    assert [line.split(",")[0] for line in answer.text.splitlines()] == ["id", "007", "008"]


def test_decides_many_rows_as_one_after_the_other(make_served: Any) -> None:
    together, alone = make_served(), make_served()
    rows = [{**ROW, "amount": i / 1_000} for i in range(2_500)]

    answer = together.client.post(DECISIONS, json={"rows": rows, "ids": list(range(2_500))})
    for row in rows[:40]:
        last = alone.client.post(DECISIONS, json={"row": row})

    assert answer.json()["decisions"][39]["effective_prior"] == last.json()["decisions"][0]["effective_prior"]


def test_labels_are_known_by_the_ids_of_their_decisions(served: Served) -> None:
    answer = served.client.post("/v1/streams/shop/labels", json={"id": "first", "label": 1, "propensity": 0.5})

    assert answer.json() == {"stream": "shop", "known": 1, "unknown": [], "repeated": False}


def test_makes_a_stream_once_and_finds_it_again(served: Served) -> None:
    settings = {"costs": {"false_positive": 1, "false_negative": 20}, "tracker": "bank", "prior": 0.01, "positive": 1}

    made = served.client.put("/v1/streams/east", json=settings)
    again = served.client.put("/v1/streams/east", json=settings)

    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json()["prior"] == {"0": 0.99, "1": 0.01}
    assert made.json()["created"].endswith("Z")
    assert served.client.put("/v1/streams/plain").status_code == 201


def test_changes_the_policy_and_keeps_who_did_it(served: Served) -> None:
    change = served.client.put("/v1/streams/shop/settings", json={"policy": "f1"})

    assert change.status_code == 200
    assert change.json()["after"] == {"name": "fbeta", "beta": 1.0}
    assert change.json()["by"] == "anonymous"
    assert served.client.get("/v1/streams/shop").json()["changes"] == [change.json()]


def test_keeps_a_note_with_who_wrote_it_and_refuses_one_that_says_nothing(served: Served) -> None:
    note = served.client.post("/v1/streams/shop/notes", json={"text": " a new till "})
    assert note.status_code == 200
    assert {name: note.json()[name] for name in ("by", "kind", "text")} == {
        "by": "anonymous", "kind": "noted", "text": "a new till",
    }  # fmt: skip
    assert served.client.get("/v1/streams/shop").json()["events"] == [note.json()]
    for body, where in (
        ({"text": " "}, "text"), ({"text": "a\u0007"}, "text"), ({"text": "a" * 2001}, "text"), ({"text": 1}, "text"),
        ({"acknowledge": "yes"}, "acknowledge"), ({"acknowledge": True}, "acknowledge"), ({"note": "a"}, None),
    ):  # fmt: skip
        refused = served.client.post("/v1/streams/shop/notes", json=body)
        assert (refused.status_code, refused.json()["where"]) == (422, where), body


def test_pages_through_the_streams_by_name(served: Served) -> None:
    for name in ("a", "b", "c"):
        served.client.put(f"/v1/streams/{name}")

    first = served.client.get("/v1/streams?limit=2").json()
    second = served.client.get(f"/v1/streams?limit=2&after={first['next']}").json()

    assert [one["name"] for one in first["streams"] + second["streams"]] == ["a", "b", "c", "shop"]
    assert (first["total"], second["next"]) == (4, None)
    assert [one["name"] for one in served.client.get("/v1/streams?search=sho").json()["streams"]] == ["shop"]


def test_erases_a_decision_by_the_type_of_its_id(served: Served) -> None:
    served.client.post(DECISIONS, json={"rows": [ROW, ROW, ROW], "ids": ["a/b c", 7, "7"]})

    assert served.client.delete(f"{DECISIONS}/a%2Fb%20c").json() == {"erased": 1}
    assert served.client.delete(f"{DECISIONS}/7?type=number").json() == {"erased": 1}
    assert served.client.delete(f"{DECISIONS}/7?type=number").status_code == 404
    assert served.client.delete(f"{DECISIONS}/7").json() == {"erased": 1}


def test_counts_by_stream_up_to_the_cap(make_served: Any) -> None:
    served = make_served(metric_streams=2)
    for name in ("a", "b", "c", "d", "a"):
        served.client.post(f"/v1/streams/{name}/decisions", json={"rows": [ROW, ROW], "ids": ["x", "y"]})
    served.client.post("/v1/streams/a/labels", json={"id": "x", "label": 1})

    text = served.client.get("/metrics").text

    assert 'obil_decisions_total{stream="a"} 4.0' in text
    assert 'obil_decisions_total{stream="_other"} 4.0' in text
    assert 'stream="c"' not in text
    assert 'obil_labels_total{stream="a"} 1.0' in text
    assert 'obil_alerts_total{stream="a"} 4.0' in text
    for gauge in ("obil_log_threshold", "obil_trusted", "obil_log_evidence"):
        assert f'{gauge}{{stream="a"}}' in text
    assert 'obil_prior{class="1",stream="a"}' in text
    route = 'route="/v1/streams/{stream}/decisions"'
    assert f'obil_request_seconds_count{{method="POST",{route},status="200"}} 5.0' in text


def test_a_retry_and_an_erased_stream_are_not_counted(served: Served) -> None:
    for _ in range(3):
        served.client.post(DECISIONS, json={"row": ROW}, headers={"idempotency-key": "k"})
    assert 'obil_decisions_total{stream="shop"} 2.0' in served.client.get("/metrics").text

    assert served.client.delete("/v1/streams/shop").status_code == 204
    assert 'stream="shop"' not in served.client.get("/metrics").text


def first_lines(news: Any, n: int, **settings: float) -> list[bytes]:
    async def take() -> list[bytes]:
        found = []
        async for line in event_lines(news, poll_seconds=0.001, **settings):
            found.append(line)
            if len(found) == n:
                break
        return found

    return asyncio.run(take())


def test_tells_news_and_now_and_then_that_it_lives() -> None:
    told = iter([b"1", None, None, None, b"2", None])

    async def news() -> bytes | None:
        return next(told)

    assert first_lines(news, 3, alive_seconds=0.003) == [b"1", b": alive\n\n", b"2"]


def test_waits_for_a_store_that_is_away_and_ends_with_a_stream_that_is_erased() -> None:
    told = iter([NotStoredError("away"), b"1", UnknownStreamError("erased")])

    async def news() -> bytes | None:
        found = next(told)
        if isinstance(found, Exception):
            raise found
        return found

    assert first_lines(news, 5) == [b"1"]


@pytest.mark.parametrize(("path", "event"), [("/v1/events", "streams"), ("/v1/streams/shop/events", "stream")])
def test_sends_an_event_when_a_stream_has_changed(served: Served, path: str, event: str) -> None:
    async def subscribe() -> list[bytes]:
        sent: list[bytes] = []
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message.get("body"):
                sent.append(message["body"])
                rows = {"row": ROW}
                await asyncio.to_thread(served.client.post, DECISIONS, json=rows)
            if len(sent) == 2:
                gone.set()

        scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"host", BASE_URL[7:].encode())], "http_version": "1.1", "scheme": "http",
        }  # fmt: skip
        await asyncio.wait_for(served.app(scope, receive, send), 20)
        return sent

    messages = asyncio.run(subscribe())

    kinds = ["streams"] if event == "streams" else ["points", "stream"]
    told = [[block.split("\ndata: ") for block in message.decode().strip().split("\n\n")] for message in messages]
    assert all([f"event: {kind}" for kind in kinds] == [kind for kind, _ in blocks] for blocks in told)
    records = [json.loads(blocks[-1][1]) for blocks in told]
    rows = [record["streams"][0]["rows"] if event == "streams" else record["rows"] for record in records]
    assert all(later > earlier for earlier, later in pairwise(rows))


def test_an_event_stream_ends_when_its_key_is_revoked(make_served: Any) -> None:
    served = make_served(require_keys=True, key_cache_seconds=0.0)
    key = served.keys["read"]
    store = served.app.middleware_stack._authentication._keys

    async def subscribe() -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60.0)
            return {"type": "http.disconnect"}

        async def send(_message: dict[str, Any]) -> None:
            store.revoke_key(key.split("_")[1], 1.0)

        scope = {
            "type": "http", "method": "GET", "path": "/v1/events", "raw_path": b"/v1/events", "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {key}".encode())],
            "http_version": "1.1", "scheme": "http",
        }  # fmt: skip
        await asyncio.wait_for(served.app(scope, receive, send), 10.0)

    asyncio.run(subscribe())
    assert served.app.state.obil.n_subscribers == 0


def test_subscribing_to_an_unknown_stream_is_refused(served: Served) -> None:
    assert served.client.get("/v1/streams/none/events").status_code == 404


def test_the_document_names_every_status_and_has_examples_that_are_taken(served: Served) -> None:
    document = served.client.get("/openapi.json").json()

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert {"401", "403", "413", "422", "503"} <= set(operation["responses"]), (method, path)
            assert operation["summary"]
    schemas = document["components"]["schemas"]
    for example in schemas["DecisionsRequest"]["examples"]:
        assert served.client.post(DECISIONS, json=example).status_code == 200
    table = schemas["CsvRows"]["examples"][0].encode()
    assert served.client.post(DECISIONS, content=table, headers={"content-type": "text/csv"}).status_code == 200
    for example in schemas["LabelsRequest"]["examples"]:
        assert served.client.post("/v1/streams/shop/labels", json=example).status_code == 200
    for example in schemas["SettingsRequest"]["examples"]:
        assert served.client.put("/v1/streams/shop/settings", json=example).status_code == 200
    for i, example in enumerate(schemas["StreamRequest"]["examples"]):
        assert served.client.put(f"/v1/streams/new{i}", json=example).status_code == 201


def test_no_page_of_documents_is_loaded_from_another_host(served: Served) -> None:
    assert served.client.get("/docs").status_code == 404
    assert served.client.get("/redoc").status_code == 404
