"""Erased means erased, and stops nobody."""

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from obil.errors import InvalidInputError
from obil.service.refusals import ErasedError, KeyReusedError
from obil.service.storage.store import open_store
from obil.service.storage.writing import Writing
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Label, Rows, Sender
from obil.service.streams.stream_hub import StreamHub
from tests.service.long_log import id_of, make_long_stream
from tests.service.models import gaussian_rows, saved_model
from tests.service.postgres import PostgresServer, open_test_store, postgres_server, skip_without_postgres
from tests.service.service_process import ServiceLauncher

ANYONE = Sender()
Start = Callable[..., StreamHub]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer | None]:
    if request.param == "sqlite":
        yield None
        return
    skip_without_postgres()
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer | None, tmp_path: Path) -> str:
    return str(tmp_path / "streams.db") if server is None else server.new_database()


@pytest.fixture
def start(folder: Path, url: str) -> Iterator[Start]:
    hubs: list[StreamHub] = []

    def begin(**settings: Any) -> StreamHub:
        store = open_test_store(url)
        hubs.append(StreamHub(store, ModelRegistry(folder, store), **settings))
        return hubs[-1]

    yield begin
    for hub in hubs:
        hub.close()


def decide(hub: StreamHub, ids: list[Any] | None, *, n: int = 1, sender: Sender = ANYONE, stream: str = "shop") -> Any:
    rows, _ = gaussian_rows(len(ids) if ids is not None else n, 0.3, 1)
    return asyncio.run(hub.decide(stream, Rows(rows, len(rows), ids), sender))


def forget(hub: StreamHub, *ids: Any, stream: str = "shop") -> int:
    return asyncio.run(hub.forget(stream, list(ids), ANYONE))


def rows_of(hub: StreamHub, table: str) -> list[tuple[Any, ...]]:
    """Return all rows of a table, with bytes of either driver as bytes."""
    found = hub._store._read(f"SELECT * FROM {table}")
    return [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in found]


@pytest.mark.parametrize("name", ["person 1", 4_000_000, -7, 2**100])
def test_a_decision_is_found_by_its_id_whatever_its_type(start: Start, name: Any) -> None:
    hub = start()
    decide(hub, ["a", name, "b"])
    assert forget(hub, str(name) + "0", 3) == 0
    assert forget(hub, name) == 1
    assert forget(hub, name) == 0


def test_a_row_without_an_id_is_found_by_its_number_also_after_its_neighbours_were_erased(start: Start) -> None:
    hub = start()
    for n in (1, 5, 1, 20):
        decide(hub, None, n=n)
        asyncio.run(hub.label("shop", [Label("nobody", 1)], ANYONE))
    for number in (0, 3, 6, 4, 26, 7):
        assert forget(hub, number) == 1
        assert forget(hub, number) == 0
    assert forget(hub, 27) == forget(hub, -1) == forget(hub, "1") == 0


def test_ids_are_found_in_every_segment_of_the_index(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obil.service.storage.writing.SEGMENT_ROWS", 4)
    hub = start()
    for first in range(0, 30, 3):
        decide(hub, [f"order {number}" for number in range(first, first + 3)])
    assert len({segment for _, segment, _, _ in rows_of(hub, "event_ids")}) == 7
    assert all(forget(hub, f"order {number}") == 1 for number in (0, 13, 29))
    assert len({digest for _, _, digest, _ in rows_of(hub, "event_ids")}) == 30  # three of them of the erasures


def test_an_unknown_id_reads_no_event(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = start()
    for number in range(20):
        decide(hub, [f"order {number}"])
    read: list[int] = []
    monkeypatch.setattr("obil.service.storage.stored_event.ids_of", lambda event: read.append(event.seq) or [])
    assert forget(hub, "nobody") == 0
    assert read == []


def test_two_ids_with_one_digest_are_told_apart(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obil.service.storage.digests.Digests.of_id", lambda _self, _id: 7)
    hub = start()
    decide(hub, ["a"])
    decide(hub, ["b"])
    assert forget(hub, "c") == 0
    assert forget(hub, "a") == 1
    assert asyncio.run(hub.label("shop", [Label("b", 1), Label("a", 1)], ANYONE)).unknown == ["a"]


def test_nothing_stored_shows_an_id_a_retry_key_or_the_digest_of_a_body(start: Start) -> None:
    hub = start()
    keyed = Sender(idempotency_key="retry of person 1", digest=b"digest of a body")
    decide(hub, ["person 1", "person 2"], sender=keyed)
    stored = repr(rows_of(hub, "events") + rows_of(hub, "event_ids"))
    assert "person 1" in stored
    assert "retry of" not in stored
    assert "digest of a body" not in stored
    (digest,) = [row[6] for row in rows_of(hub, "events") if row[5] is not None]
    assert len(digest) == 16
    assert forget(hub, "person 1") == 1
    everything = "".join(repr(rows_of(hub, table)) for table in ("events", "event_ids", "snapshots", "streams"))
    assert "person 1" not in everything
    assert repr(digest) not in everything
    assert "person 2" in everything


def test_a_retry_of_what_was_erased_is_refused_for_ever_after(start: Start) -> None:
    hub, keyed = start(), Sender(idempotency_key="till 7", digest=b"a")
    decide(hub, ["person 1", "person 2"], sender=keyed)
    labelled = Sender(idempotency_key="till 8", digest=b"b")
    asyncio.run(hub.label("shop", [Label("person 1", 1)], labelled))
    assert decide(hub, ["person 1", "person 2"], sender=keyed).repeated
    with pytest.raises(KeyReusedError):
        decide(hub, ["person 3"], sender=Sender(idempotency_key="till 7", digest=b"c"))
    assert forget(hub, "person 1") == 1
    hub.close()
    hub = start()
    for digest in (b"a", b"c"):
        with pytest.raises(ErasedError):
            decide(hub, ["person 1"], sender=Sender(idempotency_key="till 7", digest=digest))
    with pytest.raises(ErasedError):
        asyncio.run(hub.label("shop", [Label("person 1", 1)], labelled))
    assert asyncio.run(hub.detail("shop")).rows == 2
    while hub.prune(time.time() + 60.0):
        pass
    assert not decide(hub, ["person 1"], sender=keyed).repeated  # retention has ended


def test_pruned_events_leave_the_index_and_those_kept_stay_in_it(start: Start) -> None:
    hub = start()
    decide(hub, ["old 1", "old 2"])
    time.sleep(0.02)
    between = time.time()
    decide(hub, ["new 1"])
    while hub.prune(between):
        pass
    assert len(rows_of(hub, "event_ids")) == 1
    assert forget(hub, "new 1") == 1


def test_a_stream_is_deleted_in_slices_and_its_name_is_free_at_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("obil.service.storage.writing.SLICE", 7)
    hub, slices = start(), 0
    for number in range(20):
        decide(hub, [f"order {number}", f"item {number}"])
    decide(hub, ["person 1"], stream="other")
    erase_slice = Writing.erase_slice

    def count_and_recreate(session: Writing, stream: int) -> bool:
        nonlocal slices
        slices += 1
        if slices == 3:
            raise KeyboardInterrupt  # the process ends here
        return erase_slice(session, stream)

    monkeypatch.setattr(Writing, "erase_slice", count_and_recreate)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(hub.delete("shop", ANYONE))
    assert decide(hub, ["order 1"]).first_row == 0
    hub.close()
    hub = start()
    asyncio.run(hub.finish_deletions())
    assert slices > 8
    assert rows_of(hub, "deleted_streams") == []
    ids = {row[0] for row in rows_of(hub, "streams")}
    for table in ("events", "event_ids", "points", "snapshots"):
        assert {row[0] for row in rows_of(hub, table)} <= ids
    assert forget(hub, "order 1") == forget(hub, "person 1", stream="other") == 1
    assert forget(hub, "item 1") == 0


def test_the_number_of_a_deleted_stream_is_not_given_again(start: Start) -> None:
    hub = start()
    decide(hub, ["a"])
    first = hub._store.stream("shop")
    asyncio.run(hub.delete("shop", ANYONE))
    decide(hub, ["a"])
    second = hub._store.stream("shop")
    assert first is not None
    assert second is not None
    assert second.id > first.id


def test_erased_ids_are_in_no_file_of_the_store(folder: Path, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "streams.db"))
    hub, chance = StreamHub(store, ModelRegistry(folder, store)), random.Random(5)
    rows, names = gaussian_rows(60, 0.3, 1)[0], []
    for number in range(150):
        ids = [f"<{number} {place} {'x' * chance.randrange(30)}>" for place in range(chance.choice([1, 1, 2, 60]))]
        sender = Sender(idempotency_key=f"key of {ids[0]}") if chance.random() < 0.5 else ANYONE
        asyncio.run(hub.decide("shop", Rows(rows[: len(ids)], len(ids), ids), sender))
        asyncio.run(hub.label("shop", [Label(ids[0], 1)], ANYONE))
        names += ids
    gone = chance.sample(names, 60)
    for name in gone:
        assert forget(hub, name) == 1
    files = b"".join(path.read_bytes() for path in tmp_path.glob("streams.db*"))
    hub.close()
    assert [name for name in gone if name.encode() in files] == []
    assert sum(name.encode() in files for name in names) == len(names) - len(gone)


def test_the_secret_is_beside_the_store_for_its_owner_alone_and_no_other_is_taken(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "streams.db"
    secret = tmp_path / "streams.db.secret"
    store = open_store(str(path))
    assert not secret.exists()  # keys and models need none
    StreamHub(store, ModelRegistry(folder, store)).close()
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text().strip().encode() not in path.read_bytes()
    kept = secret.read_text()
    for wrong, message in (
        (None, "does not exist, but this store has one: restore it"),
        ("ab" * 32, "is not the one of this store: restore it"),
        ("ab", "has 1 bytes, expected 32"),
        ("secret!", "cannot be read"),
    ):
        secret.unlink(missing_ok=True)
        if wrong is not None:
            secret.write_text(wrong)
        store = open_store(str(path))
        with pytest.raises(InvalidInputError, match=message):
            store.open_secret()
        store.close()
    secret.write_text(kept)
    store = open_store(str(path))
    StreamHub(store, ModelRegistry(folder, store)).close()
    assert os.listdir(tmp_path).count("streams.db.secret") == 1
    assert not list(tmp_path.glob("*.secret.*"))


class Clients:
    """Threads that decide a row after the other on other streams, and how long each request took."""

    def __init__(self, address: str, n: int) -> None:
        self._address, self._stop = address, threading.Event()
        self.seconds: list[tuple[float, float]] = []  # when it was answered, how long it took
        self.failures: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(n)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        with httpx.Client(timeout=120.0) as client:
            while not self._stop.is_set():
                started = time.monotonic()
                answer = client.post(
                    f"{self._address}/v1/streams/other-{number}/decisions", json={"row": [1.0, 0.2, 0.3]}
                )
                self.seconds.append((time.monotonic(), time.monotonic() - started))
                if answer.status_code != 200:
                    self.failures.append(answer.text)
                time.sleep(0.01)

    def between(self, start: float, end: float) -> np.ndarray:
        return np.array([seconds for at, seconds in self.seconds if start <= at <= end])

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
def test_erasing_from_a_log_of_a_million_events_delays_no_other_request(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, n_rows = tmp_path / "streams.db", int(os.environ.get("OBIL_LONG_LOG", "1000000"))
    make_long_stream(path, folder, "long", n_rows=n_rows)
    launcher = ServiceLauncher(folder, tmp_path)
    address = launcher.start(str(path)).address
    clients = Clients(address, 4)
    lines = []
    try:
        with httpx.Client(timeout=600.0) as client:
            time.sleep(2.0)
            start = time.monotonic()
            time.sleep(10.0)
            before = clients.between(start, time.monotonic())
            p99 = float(np.quantile(before, 0.99))
            lines.append(f"before: {len(before)} requests, p99 {1e3 * p99:.1f} ms, max {1e3 * before.max():.1f} ms")
            for what, where, statuses in (
                ("a known id", f"/decisions/{id_of(n_rows // 2)}", {200}),
                ("an unknown id", "/decisions/nobody", {404}),
                ("twenty known ids", None, {200}),
                ("the stream", "", {204}),
            ):
                begun = time.monotonic()
                wheres = [where] if where is not None else [f"/decisions/{id_of(41 * one)}" for one in range(20)]
                found = {client.delete(f"{address}/v1/streams/long{one}").status_code for one in wheres}
                ended = time.monotonic()
                time.sleep(0.5)
                during = clients.between(begun, time.monotonic())
                lines.append(
                    f"{what}: {ended - begun:.2f} s, others: {len(during)} requests, "
                    f"p99 {1e3 * np.quantile(during, 0.99):.1f} ms, max {1e3 * during.max():.1f} ms"
                )
                assert found == statuses
                assert during.max() < 5.0 * p99, lines
    finally:
        clients.close()
        launcher.close()
        with capsys.disabled():
            print(f"\n{n_rows} events, {path.stat().st_size / 1e6:.0f} MB", *lines, sep="\n  ")
    assert clients.failures == []
