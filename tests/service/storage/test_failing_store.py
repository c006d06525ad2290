"""A store that is full, locked against writing or damaged: refusals that say so, and nothing acknowledged lost."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import obil
from obil.errors import InvalidInputError
from obil.service.http.app import create_app
from obil.service.refusals import NotStoredError
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import open_store
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Rows, Sender
from obil.service.streams.replay import replay
from obil.service.streams.stream_hub import StreamHub
from tests.service.conftest import Client
from tests.service.models import gaussian_rows, saved_model

ANYONE = Sender()
WHERE = "/v1/streams/shop/decisions"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "streams.db"


@pytest.fixture
def hub(folder: Path, path: Path) -> Iterator[StreamHub]:
    hub = started(folder, path)
    yield hub
    hub.close()


def started(folder: Path, path: Path) -> StreamHub:
    store = open_store(str(path))
    return StreamHub(store, ModelRegistry(folder, store))


def client_of(hub: StreamHub) -> Client:
    return Client(create_app(hub, ServiceSettings(), hub._store))


def writer_of(hub: StreamHub) -> sqlite3.Connection:
    writer: sqlite3.Connection = hub._store._database._writer
    return writer


def decide(hub: StreamHub, values: np.ndarray, stream: str = "shop") -> Any:
    return asyncio.run(hub.decide(stream, Rows(values, len(values)), ANYONE))


def posted(client: Client, rows: np.ndarray, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    return client.post(WHERE, json={"rows": rows.tolist()}, headers=headers)


def test_a_full_disk_answers_503_and_goes_on_when_there_is_room_again(hub: StreamHub, folder: Path) -> None:
    client, (rows, _) = client_of(hub), gaussian_rows(1_000, 0.3, 1)
    first = posted(client, rows[:50], "first")
    assert first.status_code == 200
    pages = writer_of(hub).execute("PRAGMA page_count").fetchone()[0]
    writer_of(hub).execute(f"PRAGMA max_page_count = {pages}")
    acknowledged, refusals = 50, 0
    for place in range(40):  # until the last page is full, and beyond
        answer = posted(client, rows[:25], f"request {place}")
        acknowledged += 25 * (answer.status_code == 200)
        refusals += answer.status_code == 503
    assert refusals > 5
    assert answer.json()["code"] == "not_stored"
    assert "full" in answer.json()["detail"]
    assert client.get("/v1/streams/shop").json()["rows"] == acknowledged
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
    assert posted(client, rows[:50], "first").json() == {**first.json(), "repeated": True}
    writer_of(hub).execute("PRAGMA max_page_count = 1000000")
    again = posted(client, rows[:25], "request 39")
    assert (again.status_code, again.json()["repeated"]) == (200, False)
    assert again.json()["decisions"][0]["id"] == acknowledged
    row = hub._store.stream("shop")
    assert row is not None
    whole = replay(None, hub._store.log(row.id), hub._registry.get)
    assert whole.state() == hub._writer.submit("shop", lambda live, _s, _at: live.online.state()).result()
    assert whole.n_rows == acknowledged + 25


def test_a_store_that_may_not_be_written_answers_503_and_still_reads(hub: StreamHub) -> None:
    client, (rows, _) = client_of(hub), gaussian_rows(20, 0.3, 2)
    assert posted(client, rows).status_code == 200
    writer_of(hub).execute("PRAGMA query_only = 1")
    refused = posted(client, rows)
    assert (refused.status_code, refused.json()["code"]) == (503, "not_stored")
    assert "readonly" in refused.json()["detail"]
    assert client.get("/readyz").status_code == 503
    assert client.get("/v1/streams").json()["streams"][0]["rows"] == 20
    writer_of(hub).execute("PRAGMA query_only = 0")
    assert client.get("/readyz").status_code == 200
    assert posted(client, rows).json()["decisions"][0]["id"] == 20


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write files that are read-only")
def test_a_read_only_file_is_refused_at_the_start(hub: StreamHub, path: Path) -> None:
    hub.close()
    path.chmod(0o400)
    with pytest.raises(InvalidInputError, match="cannot be opened"):
        open_store(str(path))


def test_a_file_that_is_no_store_is_refused_at_the_start(path: Path) -> None:
    path.write_bytes(b"amount,age\n" * 500)
    with pytest.raises(InvalidInputError, match=r"streams\.db cannot be opened as an SQLite database"):
        open_store(str(path))


def test_a_damaged_snapshot_is_named_and_the_other_streams_are_served(folder: Path, path: Path) -> None:
    first, (rows, _) = started(folder, path), gaussian_rows(20, 0.3, 3)
    for stream in ("shop", "clinic"):
        decide(first, rows, stream)
    first.close()
    with sqlite3.connect(path) as connection:
        damage = "UPDATE snapshots SET state = substr(state, 1, length(state) - 20) WHERE stream = 1"
        assert connection.execute(damage).rowcount == 1
    connection.close()
    hub = started(folder, path)
    try:
        answer = posted(client_of(hub), rows)
        assert answer.status_code == 503
        assert "'shop' cannot be read: this state is damaged" in answer.json()["detail"]

        async def both() -> list[Any]:
            sent = (hub.decide(stream, Rows(rows, 20), ANYONE) for stream in ("shop", "clinic"))
            return await asyncio.gather(*sent, return_exceptions=True)

        broken, served = asyncio.run(both())
        assert isinstance(broken, NotStoredError)
        assert served.first_row == 20
    finally:
        hub.close()


def test_a_log_that_lacks_an_event_is_not_taken_for_whole(folder: Path, path: Path) -> None:
    first, (rows, _) = started(folder, path), gaussian_rows(30, 0.3, 4)
    for part in np.array_split(rows, 6):
        decide(first, part)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE seq = 4")
    connection.close()
    first._writer._streams.clear()  # as if killed: no snapshot
    first.close()
    hub = started(folder, path)
    try:
        with pytest.raises(NotStoredError, match="has 6 events after event 0, expected 7"):
            decide(hub, rows)
    finally:
        hub.close()


def test_a_stream_half_caught_up_is_read_again(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, (rows, _) = started(folder, path), started(folder, path), gaussian_rows(60, 0.3, 5)
    try:
        decide(one, rows[:10])
        for part in np.array_split(rows[10:], 5):
            decide(two, part)
        whole = hub_replay = replay

        def lose_the_store(online: Any, events: Any, models: Any) -> Any:
            hub_replay(online, events[:3], models)
            raise NotStoredError("the store was lost in the middle")

        monkeypatch.setattr("obil.service.streams.stream_hub.replay", lose_the_store)
        with pytest.raises(NotStoredError, match="in the middle"):
            decide(one, rows[:1])
        monkeypatch.setattr("obil.service.streams.stream_hub.replay", whole)
        assert decide(one, rows[:1]).first_row == 60
        states = [hub._writer.submit("shop", lambda live, _s, _at: live.online.state()).result() for hub in (one, two)]
        assert states[0] == states[1]
    finally:
        one.close()
        two.close()


def test_a_stream_erased_and_made_again_by_another_process_begins_anew(folder: Path, path: Path) -> None:
    one, two, (rows, _) = started(folder, path), started(folder, path), gaussian_rows(30, 0.3, 6)
    try:
        decide(one, rows)
        asyncio.run(two.delete("shop", ANYONE))
        decide(two, rows[:5])  # SQLite gives it the same number, and it has as many events
        assert decide(one, rows[:1]).first_row == 5
    finally:
        one.close()
        two.close()


def test_whatever_is_asked_while_it_stops_is_answered(hub: StreamHub, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = gaussian_rows(1, 0.3, 7)
    futures: list[Any] = []
    asked, going = threading.Event(), threading.Event()

    def ask() -> None:
        while not going.is_set():
            futures.append(hub._writer.submit("shop", lambda live, _s, _at: live.row.n_rows))
            asked.set()

    decide(hub, rows)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    asked.wait()
    hub._writer.close()
    going.set()
    for thread in threads:
        thread.join()
    for future in futures:
        assert future.exception(timeout=10.0) is None or isinstance(future.exception(), NotStoredError)


def test_the_thread_that_writes_outlives_snapshots_that_cannot_be_packed(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(path))
    hub, (rows, _) = StreamHub(store, ModelRegistry(folder, store), max_streams=1), gaussian_rows(5, 0.3, 8)

    packed = obil.OnlineClassifier.state

    def fail(online: obil.OnlineClassifier) -> bytes:
        if online.n_rows:  # a new stream is one that was packed, too
            raise MemoryError
        return packed(online)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(obil.OnlineClassifier, "state", fail)
            for stream in ("a", "b", "c"):
                decide(hub, rows, stream)
        assert isinstance(hub._writer, GroupCommit)
        assert [decide(hub, rows, stream).first_row for stream in ("a", "b", "c")] == [5, 5, 5]
    finally:
        hub.close()
