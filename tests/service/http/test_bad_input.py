"""Every bad request gets its documented status, names what is to blame, and leaves the state as it was."""

from typing import Any, NamedTuple

import pytest

from tests.service.conftest import ROW, Served
from tests.service.streams_in_memory import StreamsInMemory

DECISIONS, LABELS, SETTINGS = (f"/v1/streams/shop/{name}" for name in ("decisions", "labels", "settings"))
JSON = {"content-type": "application/json"}
CSV = {"content-type": "text/csv"}


class Bad(NamedTuple):
    """A request that must be refused."""

    name: str
    status: int
    code: str
    where: str | None
    method: str
    path: str
    request: dict[str, Any]


def raw(name: str, status: int, code: str, body: bytes, *, where: str | None = None, path: str = DECISIONS) -> Bad:
    return Bad(name, status, code, where, "POST", path, {"content": body, "headers": JSON})


def rows(name: str, value: Any, *, where: str | None, status: int = 422) -> Bad:
    code = {422: "bad_input", 413: "too_large"}[status]
    return Bad(name, status, code, where, "POST", DECISIONS, {"json": value})


def csv(name: str, status: int, code: str, body: bytes, *, where: str | None = None, query: str = "") -> Bad:
    return Bad(name, status, code, where, "POST", DECISIONS + query, {"content": body, "headers": CSV})


def label(name: str, value: Any, *, where: str | None) -> Bad:
    return Bad(name, 422, "bad_input", where, "POST", LABELS, {"json": value})


def setting(name: str, value: Any, *, where: str | None, path: str = SETTINGS) -> Bad:
    return Bad(name, 422, "bad_input", where, "PUT", path, {"json": value})


def stream(name: str, path_name: str, status: int = 422) -> Bad:
    code, where = ("bad_input", "stream") if status == 422 else ("not_found", None)
    return Bad(name, status, code, where, "POST", f"/v1/streams/{path_name}/decisions", {"json": {"row": ROW}})


def header(name: str, status: int, code: str, headers: dict[str, str], *, where: str | None = None) -> Bad:
    return Bad(name, status, code, where, "POST", DECISIONS, {"json": {"row": ROW}, "headers": headers})


def query(name: str, path: str, *, where: str) -> Bad:
    return Bad(name, 422, "bad_input", where, "GET", path, {})


def without(column: str) -> dict[str, Any]:
    return {name: value for name, value in ROW.items() if name != column}


CASES = [
    # not JSON
    raw("an empty body", 400, "not_understood", b""),
    raw("half a body", 400, "not_understood", b'{"row": {"amount": 1'),
    raw("NaN", 400, "not_understood", b'{"row": {"amount": NaN, "age": 1, "country": "DE"}}'),
    raw("Infinity", 400, "not_understood", b'{"row": {"amount": -Infinity, "age": 1, "country": "DE"}}'),
    raw("a key twice in a row", 400, "not_understood", b'{"row": {"amount": 1, "amount": 2}}', where="amount"),
    raw("a key twice in the body", 400, "not_understood", b'{"row": {}, "row": {}}', where="row"),
    raw("deep arrays", 400, "not_understood", b'{"row": ' + b"[" * 500 + b"]" * 500 + b"}"),
    raw("endlessly deep arrays", 413, "too_large", b"[" * 100_000),
    raw("deep objects", 400, "not_understood", b'{"a":' * 50 + b"1" + b"}" * 50),
    raw("brackets hidden in text", 400, "not_understood", b'["]]]]]]]]",' + b"[" * 17 + b"]" * 18),
    raw("bytes that are not UTF-8", 400, "not_understood", b'{"row": "\xff\xfe"}'),
    raw("half a surrogate pair", 400, "not_understood", b'{"row": {"amount": 1, "age": 1, "country": "\\ud800"}}'),
    raw("a comment", 400, "not_understood", b'{"row": [1, 2, "DE"]} // hello'),
    raw("a byte order mark", 400, "not_understood", b'\xef\xbb\xbf{"row": [1, 2, "DE"]}'),
    raw("a number of 5,000 digits", 422, "bad_input", b'{"row": [1, 2, "DE"], "id": ' + b"9" * 5_000 + b"}"),
    raw("CSV that says it is JSON", 400, "not_understood", b"amount,age,country\n1,2,DE\n"),
    # the wrong shape
    rows("an array for a body", [ROW], where=None),
    raw("null for a body", 422, "bad_input", b"null"),
    rows("no rows", {}, where="rows"),
    rows("an empty list of rows", {"rows": []}, where="rows"),
    rows("an object for rows", {"rows": ROW}, where="rows"),
    rows("row and rows", {"row": ROW, "rows": [ROW]}, where="rows"),
    rows("an unknown field", {"row": ROW, "prior": 0.5}, where="prior"),
    rows("a number for a row", {"row": 7}, where="row"),
    rows("arrays beside objects", {"rows": [ROW, [1, 2, "DE"]]}, where="rows"),
    rows("too many rows", {"rows": [[1, 2, "DE"]] * 1_001}, where="rows", status=413),
    # the wrong columns
    rows("a missing column", {"row": without("amount")}, where="amount"),
    rows("a missing column in the second row", {"rows": [ROW, without("country")]}, where="country"),
    rows("an unknown column", {"row": {**ROW, "colour": "red"}}, where="colour"),
    rows("a column in capitals", {"row": {**without("age"), "Age": 41}}, where="age"),
    rows("an array too short", {"row": [1, 2]}, where="rows"),
    rows("an array too long", {"rows": [[1, 2, "DE"], [1, 2, "DE", 4]]}, where="rows"),
    rows("an empty array", {"row": []}, where="rows"),
    # the wrong values
    rows("text for a number", {"row": {**ROW, "amount": "ten"}}, where="amount"),
    rows("a number as text", {"row": {**ROW, "amount": "3.2"}}, where="amount"),
    rows("text for a number among many", {"rows": [ROW] * 5 + [{**ROW, "age": "old"}]}, where="age"),
    rows("truth for a number", {"row": {**ROW, "age": True}}, where="age"),
    rows("an array for a number", {"row": {**ROW, "age": [41]}}, where="age"),
    rows("an object for a category", {"row": {**ROW, "country": {"code": "DE"}}}, where="country"),
    rows("a number for a category", {"row": {**ROW, "country": 49}}, where="country"),
    raw("a number beyond floats", 422, "bad_input", b'{"row": [1e999, 2, "DE"]}', where="amount"),
    raw("a whole number beyond floats", 422, "bad_input", b'{"row": [1' + b"0" * 400 + b', 2, "DE"]}', where="amount"),
    # ids
    rows("fewer ids than rows", {"rows": [ROW, ROW], "ids": ["a"]}, where="ids"),
    rows("an id that is a fraction", {"row": ROW, "id": 1.5}, where="id"),
    rows("an id that is true", {"row": ROW, "id": True}, where="id"),
    rows("an endless id", {"row": ROW, "id": "x" * 1_001}, where="id"),
    rows("an id with a zero character", {"row": ROW, "id": "a\0b"}, where="id"),
    rows("text for ids", {"rows": [ROW], "ids": "a"}, where="ids"),
    # CSV
    csv("an empty table", 400, "not_understood", b""),
    csv("a header alone", 400, "not_understood", b"amount,age,country\n"),
    csv("a ragged table", 400, "not_understood", b"amount,age,country\n1,2\n"),
    csv("an open quote", 400, "not_understood", b'amount,age,country\n1,2,"DE\n'),
    csv("a column twice", 400, "not_understood", b"amount,age,age\n1,2,3\n"),
    csv("a packed table", 400, "not_understood", b"\x1f\x8b\x08\0\0\0\0\0"),
    csv("a zero byte", 400, "not_understood", b"amount,age,country\n1,2,D\0E\n"),
    csv("a table that is not UTF-8", 400, "not_understood", b"amount,age,country\n1,2,\xff\n"),
    csv("a table without a column", 422, "bad_input", b"amount,country\n1,DE\n", where="age"),
    csv("a table without a categorical column", 422, "bad_input", b"amount,age\n1,2\n", where="country"),
    csv("a table with a column more", 422, "bad_input", b"amount,age,country,id\n1,2,DE,7\n", where="id"),
    csv("a string in a column of numbers", 422, "bad_input", b"amount,age,country\n1,2,DE\nx,2,DE\n", where="amount"),
    csv("infinity in a table", 422, "bad_input", b"amount,age,country\ninf,2,DE\n", where="amount"),
    csv("no such id column", 422, "bad_input", b"amount,age,country\n1,2,D\n", where="id_column", query="?id_column=n"),
    csv("a row without its id", 422, "bad_input", b"n,amount,age,country\n,1,2,DE\n", where="n", query="?id_column=n"),
    csv("too many lines", 413, "too_large", b"amount,age,country\n" + b"1,2,DE\n" * 1_001, where="rows"),
    # types and sizes
    Bad("a form", 415, "unsupported_type", "Content-Type", "POST", DECISIONS, {"data": {"amount": "1"}}),
    Bad("a body of no type", 415, "unsupported_type", "Content-Type", "POST", DECISIONS, {"content": b"{}"}),
    Bad("labels as CSV", 415, "unsupported_type", "Content-Type", "POST", LABELS, {"content": b"a", "headers": CSV}),
    Bad("a huge body", 413, "too_large", None, "POST", DECISIONS, {"content": b" " * 200_001, "headers": JSON}),
    # names
    stream("a slash in a name", "shop%2Feast", 404),
    stream("a path out of the service", "..%2F..%2Fetc", 404),
    stream("two dots", "..%00"),
    stream("a name in another script", "%E5%BA%97"),
    stream("SQL in a name", "shop';DROP TABLE streams;--"),
    stream("a blank in a name", "my%20shop"),
    stream("a hidden name", ".shop"),
    stream("the name of the others", "_other"),
    stream("an endless name", "x" * 129),
    stream("a line end in a name", "shop%0A"),
    # labels
    label("no label", {"id": "first"}, where=None),
    label("no id", {"label": 1}, where=None),
    label("a class that is none", {"id": "first", "label": 2}, where="label"),
    label("a class as text", {"id": "first", "label": "1"}, where="label"),
    label("truth for a class", {"id": "first", "label": True}, where="label"),
    label("a propensity of nothing", {"id": "first", "label": 1, "propensity": 0}, where="propensity"),
    label("a propensity above one", {"id": "first", "label": 1, "propensity": 1.5}, where="propensity"),
    label("a propensity as text", {"id": "first", "label": 1, "propensity": "1"}, where="propensity"),
    label("a good label before a bad one", {"labels": [{"id": "first", "label": 1}, {"id": 2}]}, where=None),
    label("no labels", {"labels": []}, where="labels"),
    label("a label more", {"id": "first", "label": 1, "note": "x"}, where=None),
    Bad("labels of no stream", 404, "unknown_stream", None, "POST", "/v1/streams/none/labels",
        {"json": {"id": 1, "label": 1}}),
    # settings
    setting("costs of nothing", {"costs": {}}, where="costs"),
    setting("a negative cost", {"costs": {"false_positive": -1, "false_negative": 1}}, where="costs"),
    setting("a cost as text", {"costs": {"false_positive": "1", "false_negative": 1}}, where="costs.false_positive"),
    setting("a huge cost", {"costs": {"false_positive": 10**400, "false_negative": 1}}, where="costs"),
    setting("a policy that is none", {"policy": "best"}, where="policy"),
    setting("a policy without its number", {"policy": "recall"}, where="policy"),
    setting("an impossible recall", {"policy": {"name": "recall", "recall": 2}}, where="policy"),
    setting("both", {"policy": "f1", "costs": {"false_positive": 1, "false_negative": 1}}, where="policy"),
    setting("a setting that is none", {"threshold": 0.5}, where="threshold"),
    setting("a policy of three classes", {"policy": {"name": "cost", "matrix": [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
                                                     "classes": None}}, where="policy"),
    setting("a tracker that is none", {"tracker": "best"}, where="tracker", path="/v1/streams/new"),
    setting("an impossible prior", {"prior": 1.5}, where="prior", path="/v1/streams/new"),
    setting("a prior of nothing", {"prior": {"0": 1, "1": 0}}, where="prior", path="/v1/streams/new"),
    setting("a prior as text", {"prior": "0.5"}, where="prior", path="/v1/streams/new"),
    setting("a positive that is none", {"positive": "fraud"}, where="positive", path="/v1/streams/new"),
    setting("a negative horizon", {"horizon": -1}, where="horizon", path="/v1/streams/new"),
    setting("a unlabeled_as that is none", {"unlabeled_as": 7}, where="unlabeled_as", path="/v1/streams/new"),
    Bad("other settings", 409, "stream_exists", None, "PUT", "/v1/streams/shop", {"json": {"prior": 0.3}}),
    # headers
    header("a foreign host", 403, "foreign_host", {"host": "evil.example"}),
    header("a host that only begins well", 403, "foreign_host", {"host": "127.0.0.1.evil.example"}),
    header("a host with a port that is none", 403, "foreign_host", {"host": "127.0.0.1:80@evil.example"}),
    header("a foreign origin", 403, "foreign_host", {"origin": "https://evil.example"}),
    header("an origin at another port", 403, "foreign_host", {"origin": "http://127.0.0.1:3000"}),
    header("the origin of a file", 403, "foreign_host", {"origin": "null"}),
    header("an empty idempotency key", 422, "bad_input", {"idempotency-key": ""}, where="Idempotency-Key"),
    header("an endless idempotency key", 422, "bad_input", {"idempotency-key": "k" * 201}, where="Idempotency-Key"),
    header("a tab in an idempotency key", 422, "bad_input", {"idempotency-key": "a\tb"}, where="Idempotency-Key"),
    header("a key that is none", 401, "no_key", {"authorization": "Bearer secret"}),
    header("a password", 401, "no_key", {"authorization": "Basic b2JpbDpvYmls"}),
    # queries and paths
    query("a limit as text", "/v1/streams?limit=all", where="limit"),
    query("no limit", "/v1/streams?limit=0", where="limit"),
    query("SQL in after", "/v1/streams?after=x'--", where="after"),
    query("a zero character in search", "/v1/streams?search=%00", where="search"),
    query("a start that is no number", "/v1/streams/shop/history?start=nan", where="start"),
    query("an end before the start", "/v1/streams/shop/history?start=9&end=1", where="start"),
    query("a million points", "/v1/streams/shop/history?points=1000000", where="points"),
    Bad("a stream that is none", 404, "unknown_stream", None, "GET", "/v1/streams/none", {}),
    Bad("erasing no stream", 404, "unknown_stream", None, "DELETE", "/v1/streams/none", {}),
    Bad("erasing no decision", 404, "unknown_decision", "id", "DELETE", f"{DECISIONS}/nobody", {}),
    Bad("erasing a number that is none", 422, "bad_input", "id", "DELETE", f"{DECISIONS}/a?type=number", {}),
    Bad("erasing another type", 422, "bad_input", "type", "DELETE", f"{DECISIONS}/a?type=uuid", {}),
    Bad("a path that is none", 404, "not_found", None, "GET", "/v3/streams", {}),
    Bad("a method that is none", 405, "method_not_allowed", None, "PATCH", "/v1/streams/shop", {}),
]  # fmt: skip

LOCKED = [
    ("no key", None, 401, "no_key"),
    ("an expired key", "expired", 401, "no_key"),
    ("a revoked key", "revoked", 401, "no_key"),
    ("a key that may only read", "read", 403, "wrong_scope"),
    ("a key that may only label", "label", 403, "wrong_scope"),
    ("a key that may only administer", "admin", 403, "wrong_scope"),
]


def require_refused(answer: Any, status: int, code: str, where: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) == {"type", "title", "status", "detail", "instance", "code", "where", "request_id"}
    assert (problem["code"], problem["where"]) == (code, where), problem
    assert (problem["type"].rpartition("#")[2], problem["status"]) == (code, status)
    assert problem["title"].lower() == code.replace("_", " ")
    assert problem["detail"]
    assert problem["instance"] == answer.request.url.raw_path.decode().partition("?")[0]
    assert problem["request_id"] == answer.headers["x-request-id"]


def test_the_corpus_is_large_and_each_case_has_a_name_of_its_own() -> None:
    assert len(CASES) + len(LOCKED) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("make_streams", ["memory"], indirect=True)  # refused before a store is asked
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refuses(case: Bad, served: Served) -> None:
    before = served.streams.state()

    answer = served.client.request(case.method, case.path, **case.request)

    require_refused(answer, case.status, case.code, case.where)
    assert served.streams.state() == before


@pytest.mark.parametrize(("name", "key", "status", "code"), LOCKED, ids=[case[0] for case in LOCKED])
def test_refuses_to_decide_with(name: str, key: str | None, status: int, code: str, locked: Served) -> None:
    before = locked.streams.state()
    headers = {} if key is None else {"authorization": f"Bearer {locked.keys[key]}"}

    answer = locked.client.post(DECISIONS, json={"row": ROW}, headers=headers)

    require_refused(answer, status, code, None)
    assert locked.streams.state() == before


def test_refuses_a_key_whose_secret_is_off_by_one_letter(locked: Served) -> None:
    key = locked.keys["decide"]
    wrong = key[:-1] + ("0" if key[-1] != "0" else "1")

    require_refused(
        locked.client.post(DECISIONS, json={"row": ROW}, headers={"authorization": f"Bearer {wrong}"}),
        401, "no_key", None,
    )  # fmt: skip


def test_refuses_a_huge_body_that_comes_in_pieces(served: Served) -> None:
    before = served.streams.state()

    async def pieces() -> Any:
        for _ in range(50):
            yield b" " * 10_000

    answer = served.client.post(DECISIONS, content=pieces(), headers=JSON)

    require_refused(answer, 413, "too_large", None)
    assert served.streams.state() == before


def test_refuses_an_idempotency_key_with_another_body(served: Served) -> None:
    key = {"idempotency-key": "k1"}
    assert served.client.post(DECISIONS, json={"row": ROW}, headers=key).status_code == 200
    before = served.streams.state()

    answer = served.client.post(DECISIONS, json={"row": {**ROW, "age": 42}}, headers=key)

    require_refused(answer, 409, "key_reused", None)
    assert served.streams.state() == before


def test_answers_labels_of_unknown_ids_with_their_names(served: Served) -> None:
    answer = served.client.post(LABELS, json={"labels": [{"id": "nobody", "label": 1}, {"id": 99, "label": 0}]})

    assert answer.status_code == 200
    assert answer.json() == {"stream": "shop", "known": 0, "unknown": ["nobody", 99], "repeated": False}


def test_makes_no_stream_of_a_refused_row(served: Served) -> None:
    served.client.post("/v1/streams/new/decisions", json={"row": {**ROW, "age": "old"}})

    assert served.client.get("/v1/streams/new").status_code == 404


def test_refuses_a_lost_store_and_says_when_to_try_again(served: Served) -> None:
    if not isinstance(served.streams, StreamsInMemory):
        pytest.skip("a disk that is full is played in the tests of the store")
    served.streams.lost = True
    answer = served.client.post(DECISIONS, json={"row": ROW})

    require_refused(answer, 503, "not_stored", None)
    assert answer.headers["retry-after"] == "1"
    assert served.client.get("/readyz").status_code == 503
