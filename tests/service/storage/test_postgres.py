"""Several processes on one PostgreSQL: no row lost, none counted twice, whatever dies."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import obil
from obil.service.refusals import ModelRefusedError, NotStoredError, RefusedError
from obil.service.storage import postgres_database
from obil.service.storage.store import Store, open_store
from obil.service.storage.writing import Writing
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Label, Rows, Sender
from obil.service.streams.replay import replay
from obil.service.streams.stream_hub import StreamHub
from obil.service.streams.stream_request import NewStream
from tests.service.models import gaussian_rows, saved_model
from tests.service.postgres import PostgresServer, open_test_store, postgres_server, skip_without_postgres
from tests.service.service_process import ServiceLauncher

ANYONE = Sender()
Start = Callable[..., StreamHub]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    skip_without_postgres()
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_database()


@pytest.fixture
def start(folder: Path, url: str) -> Iterator[Start]:
    """Start hubs as processes of their own would be: each with its own connections to the same database."""
    hubs: list[StreamHub] = []

    def begin(**settings: Any) -> StreamHub:
        store = open_test_store(url)
        hubs.append(StreamHub(store, ModelRegistry(settings.pop("folder", folder), store), **settings))
        return hubs[-1]

    yield begin
    for hub in hubs:
        hub.close()


@pytest.fixture(scope="module")
def launcher(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceLauncher]:
    launcher = ServiceLauncher(folder, tmp_path_factory.mktemp("logs"))
    yield launcher
    launcher.close()


def decide(
    hub: StreamHub, values: np.ndarray, *, ids: Any = None, sender: Sender = ANYONE, stream: str = "shop"
) -> Any:
    return asyncio.run(hub.decide(stream, Rows(values, len(values), ids), sender))


def state_of(hub: StreamHub, stream: str = "shop") -> bytes:
    state: bytes = hub._writer.submit(stream, lambda live, _session, _at: live.online.state()).result()
    return state


def online_of(hub: StreamHub, stream: str = "shop") -> obil.OnlineClassifier:
    return obil.OnlineClassifier.from_state(hub.model, state_of(hub, stream))


def replayed(store: Store, folder: Path, stream: str = "shop") -> obil.OnlineClassifier:
    row = store.stream(stream)
    assert row is not None
    return replay(None, store.log(row.id), ModelRegistry(folder, store).get)


def at_once(*tasks: Callable[[], None]) -> None:
    """Run each in a thread of its own; raise what the first that failed raised."""
    failed: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_two_hubs_on_one_stream_lose_and_double_no_row(start: Start, folder: Path, url: str) -> None:
    rows, labels = gaussian_rows(600, 0.3, 1)
    hubs = [start(), start()]
    numbers: list[int] = []

    def serve(hub: StreamHub, places: np.ndarray) -> None:
        for part in np.array_split(places, 60):
            answer = decide(hub, rows[part], ids=[f"row {i}" for i in part])
            numbers.extend(range(answer.first_row, answer.first_row + len(part)))
            known = asyncio.run(hub.label("shop", [Label(f"row {part[0]}", int(labels[part[0]]))], ANYONE))
            assert known.known == 1

    at_once(lambda: serve(hubs[0], np.arange(300)), lambda: serve(hubs[1], np.arange(300, 600)))
    assert sorted(numbers) == list(range(600))
    states = [state_of(hub) for hub in hubs]
    store = open_store(url)
    assert states[0] == states[1] == replayed(store, folder).state()
    store.close()
    assert [online_of(hub).n_rows for hub in hubs] == [600, 600]
    assert [online_of(hub).label_counts.labelled for hub in hubs] == [120, 120]


def test_a_stream_made_by_many_at_once_is_one_stream(start: Start) -> None:
    rows, _ = gaussian_rows(1, 0.3, 2)
    hubs = [start() for _ in range(3)]
    for attempt in range(5):
        ready = threading.Barrier(3)

        def first_row(hub: StreamHub, name: str = f"new {attempt}", ready: threading.Barrier = ready) -> None:
            ready.wait()
            decide(hub, rows, stream=name)

        at_once(*(lambda hub=hub: first_row(hub) for hub in hubs))
        assert asyncio.run(hubs[0].detail(f"new {attempt}")).rows == 3
    assert asyncio.run(hubs[0].page()).total == 5


def test_an_idempotency_key_counts_once_whichever_process_it_reaches(start: Start) -> None:
    rows, _ = gaussian_rows(5, 0.3, 3)
    hubs, ready = [start(), start()], threading.Barrier(2)
    sender, answers = Sender(idempotency_key="order 1", digest=b"one"), []

    def send(hub: StreamHub) -> None:
        ready.wait()
        answers.append(decide(hub, rows, sender=sender))

    at_once(lambda: send(hubs[0]), lambda: send(hubs[1]))
    assert sorted(answer.repeated for answer in answers) == [False, True]
    np.testing.assert_array_equal(answers[0].decisions.effective_priors, answers[1].decisions.effective_priors)
    assert asyncio.run(hubs[0].detail("shop")).rows == 5


def test_what_one_process_sets_and_reloads_the_other_follows(start: Start, folder: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    copy_files(folder, served)
    one, two, (rows, _) = start(folder=served), start(folder=served), gaussian_rows(300, 0.3, 4)
    decide(one, rows)
    decide(two, rows)
    asyncio.run(one.change("shop", {"name": "gmean"}, Sender(by="ann")))
    assert asyncio.run(two.detail("shop")).settings["policy"] == {"name": "gmean"}
    copy_files(saved_model(tmp_path / "newer", seed=1), served)
    version = asyncio.run(one.reload_model(ANYONE)).version
    two.follow_model()
    assert two.model_card.version == version
    assert decide(two, rows[:1]).model == version
    assert decide(one, rows[:1]).model == version
    assert state_of(one) == state_of(two)


def test_a_version_that_one_process_activates_or_compares_the_other_does_too(
    start: Start, folder: Path, tmp_path: Path
) -> None:
    one, two, (rows, _) = start(), start(), gaussian_rows(300, 0.3, 4)
    decide(one, rows)
    first, newer = one.model_card.version, saved_model(tmp_path / "newer", seed=1)
    version = one._registry.add({path.name: path.read_bytes() for path in newer.iterdir()}, by="ann")
    asyncio.run(one.models.start_shadow(version, 1.0, ANYONE))
    two.follow_model()
    decide(two, rows)
    until = time.monotonic() + 30.0
    while not asyncio.run(two.shadow("shop")).rows and time.monotonic() < until:
        time.sleep(0.05)
    assert asyncio.run(two.shadow("shop")).version == version
    asyncio.run(one.models.activate(version, ANYONE))
    assert decide(two, rows[:1]).model == version
    two.follow_model()
    assert asyncio.run(two.models.page()) == asyncio.run(one.models.page())
    assert asyncio.run(two.models.page()).shadow is None
    asyncio.run(two.models.roll_back(ANYONE))
    assert decide(one, rows[:1]).model == first
    assert state_of(one) == state_of(two)
    third = one._registry.add(
        {path.name: path.read_bytes() for path in saved_model(tmp_path / "third", seed=2).iterdir()}, by="ann"
    )
    asyncio.run(two.models.remove(third))
    assert [row.version for row in one._registry.versions()] == [first, version]


@pytest.mark.parametrize("change", ["activate", "start_shadow"])
def test_a_version_that_is_being_put_to_use_cannot_be_deleted_by_another_process(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    one, two = start()._registry, start()._registry
    newer = saved_model(tmp_path / "newer", seed=1)
    version = one.add({path.name: path.read_bytes() for path in newer.iterdir()}, by="ann")
    begun, set_meta = threading.Event(), Writing.set_meta

    def slowly(session: Writing, name: str, value: str) -> None:
        begun.set()
        time.sleep(0.5)
        set_meta(session, name, value)

    def put_to_use() -> None:
        if change == "activate":
            one.activate(version, by="ann")
        else:
            one.start_shadow(version, fraction=1.0, by="ann")

    def remove() -> None:
        begun.wait(30.0)
        with pytest.raises(ModelRefusedError):
            two.remove(version)

    monkeypatch.setattr(Writing, "set_meta", slowly)
    at_once(put_to_use, remove)
    assert two.get(version).n_features == one.get(version).n_features
    assert version in [row.version for row in two.versions()]


def copy_files(source: Path, target: Path) -> None:
    for path in target.iterdir():
        path.unlink()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def test_rows_erased_by_one_process_are_not_replayed_by_another(start: Start) -> None:
    one, two, (rows, _) = start(), start(), gaussian_rows(400, 0.3, 5)
    decide(two, rows[:10])
    decide(one, rows[10:], ids=[f"person {i}" for i in range(390)])
    before = asyncio.run(one.detail("shop")).prior
    assert asyncio.run(one.forget("shop", [f"person {i}" for i in range(390)], ANYONE)) == 390
    assert asyncio.run(two.detail("shop")).prior == before
    assert state_of(two) == state_of(one)


def test_events_pruned_by_one_process_are_not_missed_by_another(start: Start) -> None:
    one, two, (rows, _) = start(), start(max_streams=5), gaussian_rows(6_000, 0.3, 6)
    decide(two, rows[:10])
    for part in np.array_split(rows[10:], 3):
        decide(one, part)
    assert one.prune(before=1e18) > 0
    assert state_of(two) == state_of(one)


def test_a_stream_erased_and_made_again_elsewhere_begins_anew(start: Start) -> None:
    one, two, (rows, _) = start(), start(), gaussian_rows(30, 0.3, 8)
    decide(one, rows)
    asyncio.run(two.delete("shop", ANYONE))
    decide(two, rows[:5])
    assert decide(one, rows[:1]).first_row == 5
    assert state_of(one) == state_of(two)


def test_a_lost_database_refuses_and_when_it_is_back_all_goes_on(
    start: Start, server: PostgresServer, folder: Path, url: str
) -> None:
    hub, (rows, _) = start(), gaussian_rows(100, 0.3, 9)
    acknowledged, refused = 0, 0
    for place in range(100):
        if place in (30, 60):
            server.stop() if place == 30 else server.kill()
            for _ in range(3):
                with pytest.raises(NotStoredError):
                    decide(hub, rows[:1])
                refused += 1
            assert not asyncio.run(hub.ready())
            server.start()
        try:
            decide(hub, rows[place : place + 1])
            acknowledged += 1
        except NotStoredError:
            refused += 1
    assert refused >= 6
    assert acknowledged >= 96
    assert asyncio.run(hub.ready())
    state = state_of(hub)
    assert online_of(hub).n_rows == acknowledged
    store = open_store(url)
    assert replayed(store, folder).state() == state
    store.close()


def test_a_transaction_that_failed_inside_is_never_taken_for_kept(url: str) -> None:
    import psycopg

    store = open_store(url)

    def write_in_spite_of_an_error() -> None:
        with store.writing() as session:
            session.set_meta("probe", "lost")
            with pytest.raises(psycopg.Error):
                session._run("SELECT no_such_column FROM obil_meta")

    with pytest.raises(RefusedError, match="nothing of this request was stored"):
        write_in_spite_of_an_error()
    assert store.meta("probe") is None
    store.close()


def test_a_write_that_fails_is_known_before_the_commit_and_stores_nothing(url: str) -> None:
    store = open_store(url)

    def write(*, then_read: bool) -> None:
        with store.writing() as session:
            session.set_meta("probe", "lost")
            session._run("INSERT INTO obil_meta (name, value) VALUES (?, ?)", ("probe", "twice"))
            session.set_meta("probe", "lost too")
            if then_read:
                session.meta("probe")

    for then_read in (False, True):
        with pytest.raises(NotStoredError, match="nothing of this request was stored: duplicate key"):
            write(then_read=then_read)
        assert store.meta("probe") is None
    with store.writing() as session:
        session.set_meta("probe", "kept")
    assert store.meta("probe") == "kept"
    store.close()


@pytest.mark.parametrize("last", ["query", "write"])
def test_a_process_that_hangs_in_a_transaction_loses_it_and_its_locks(
    url: str, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    settings = [one.replace("'60s'", "'300ms'") for one in postgres_database._SETTINGS]
    monkeypatch.setattr(postgres_database, "_SETTINGS", settings)
    store = open_store(url)

    def hang() -> None:
        with store.writing() as session:
            session.lock("shop")
            if last == "write":
                session.set_meta("probe", "lost")
            time.sleep(1.5)
            session.lock("shop")

    with pytest.raises(NotStoredError, match="nothing of this request was stored"):
        hang()
    assert store.meta("probe") is None
    store.close()


def queue_together(hub: StreamHub, *names: str) -> list[Any]:
    """Queue a request on each stream, for one transaction; a stream that is new is created."""
    creates, begun, held = NewStream(hub._default_settings, "ann"), threading.Event(), threading.Event()

    def hold(_live: Any, _session: Any, _at: float) -> None:
        begun.set()
        held.wait(30.0)

    hub._writer.submit("held", hold, creates=creates)
    begun.wait(30.0)
    queued = [hub._writer.submit(name, lambda live, _session, _at: live.row.name, creates=creates) for name in names]
    held.set()
    return queued


def test_two_processes_that_make_a_stream_while_both_write_to_another_do_not_deadlock(start: Start) -> None:
    rows, _ = gaussian_rows(1, 0.3, 2)
    one, two = start(), start()
    for hub in (one, two):
        decide(hub, rows, stream="shared")
    elsewhere: list[Any] = []
    opened = one._writer._open

    def make_it_elsewhere_first(name: str, *rest: Any) -> Any:
        if name == "new" and not elsewhere:
            decide(two, rows, stream="new")
            elsewhere.extend(queue_together(two, "new", "shared"))
            time.sleep(0.5)  # it locks one after the other
        return opened(name, *rest)

    one._writer._open = make_it_elsewhere_first
    here = queue_together(one, "new", "shared")
    assert [future.result(30.0) for future in here] == ["new", "shared"]
    assert [future.result(30.0) for future in elsewhere] == ["new", "shared"]


def test_a_deadlock_is_answered_as_not_stored_and_the_next_request_is_taken(start: Start, url: str) -> None:
    import psycopg

    rows, _ = gaussian_rows(1, 0.3, 2)
    hub, lock = start(), "SELECT id FROM streams WHERE name = %s FOR UPDATE"
    for name in ("other", "shared"):
        decide(hub, rows, stream=name)
    with psycopg.connect(url) as foreign:  # locks in the other order
        foreign.execute("SET deadlock_timeout = '60s'")  # the server ends the transaction of the service
        foreign.execute(lock, ("shared",))
        queued = queue_together(hub, "other", "shared")
        time.sleep(0.5)
        foreign.execute(lock, ("other",))
        for future in queued:
            with pytest.raises(NotStoredError, match="nothing of this request was stored: deadlock detected"):
                future.result(30.0)
    assert [future.result(30.0) for future in queue_together(hub, "other", "shared")] == ["other", "shared"]


def test_a_commit_whose_answer_is_lost_counts_once_when_it_is_sent_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, (rows, _) = start(), gaussian_rows(10, 0.3, 11)
    decide(hub, rows[:5])
    database: Any = hub._store._database
    kept = database._commit

    def lose_the_answer(connection: Any) -> None:
        kept(connection)
        connection.close()
        raise NotStoredError("the store was lost")

    sender = Sender(idempotency_key="order 1", digest=b"one")
    with monkeypatch.context() as patch:
        patch.setattr(database, "_commit", lose_the_answer)
        with pytest.raises(NotStoredError):
            decide(hub, rows[5:], sender=sender)
    again = decide(hub, rows[5:], sender=sender)
    assert (again.repeated, again.first_row) == (True, 5)
    assert online_of(hub).n_rows == 10


def test_a_connection_lost_at_the_commit_is_not_said_to_have_kept_nothing(server: PostgresServer, url: str) -> None:
    name = url.partition("///")[2].partition("?")[0]
    store = open_store(url)

    def write_while_the_connection_is_cut() -> None:
        with store.writing() as session:
            session.set_meta("probe", "1")
            session.meta("probe")  # sends what was written
            server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    with pytest.raises(NotStoredError, match="may or may not be stored"):
        write_while_the_connection_is_cut()
    with store.writing() as session:
        session.set_meta("probe", "2")
    assert store.meta("probe") == "2"
    store.close()


def test_commits_wait_for_the_disk_even_where_the_server_would_not(server: PostgresServer, url: str) -> None:
    name = url.partition("///")[2].partition("?")[0]
    server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    store = open_store(url)
    with store.writing() as session:
        assert session._run("SHOW synchronous_commit") == [("on",)]
        assert session._run("SHOW transaction_isolation") == [("read committed",)]
    store.close()


def parallel_rows(addresses: list[str], n_rows: int, rows_a_request: int) -> list[int]:
    """Post rows to several services at once, two connections each; return the row numbers they were given."""
    rows, _ = gaussian_rows(n_rows, 0.3, 10)
    numbers: list[int] = []

    def post(address: str, part: np.ndarray) -> None:
        with httpx.Client(timeout=60.0) as client:
            for place in range(0, len(part), rows_a_request):
                body = {"rows": part[place : place + rows_a_request].tolist()}
                answer = client.post(f"{address}/v1/streams/shop/decisions", json=body)
                assert answer.status_code == 200, answer.text
                numbers.extend(one["id"] for one in answer.json()["decisions"])

    parts = np.array_split(rows, 2 * len(addresses))
    at_once(*(lambda a=a, p=p: post(a, p) for a, p in zip(addresses * 2, parts, strict=True)))
    return numbers


@pytest.mark.parametrize(("n_rows", "rows_a_request"), [(300, 1), pytest.param(20_000, 5, marks=pytest.mark.slow)])
def test_two_processes_on_one_stream_count_every_row_once(
    launcher: ServiceLauncher, folder: Path, url: str, n_rows: int, rows_a_request: int
) -> None:
    services = [launcher.start(url), launcher.start(url)]
    numbers = parallel_rows([service.address for service in services], n_rows, rows_a_request)
    assert sorted(numbers) == list(range(n_rows))
    details = [httpx.get(f"{service.address}/v1/streams/shop", timeout=60.0).json() for service in services]
    assert details[0]["prior"] == details[1]["prior"]
    store = open_store(url)
    online = replayed(store, folder)
    row = store.stream("shop")
    store.close()
    assert row is not None
    assert row.n_rows == details[0]["rows"] == details[1]["rows"] == online.n_rows == n_rows
    assert list(details[0]["prior"].values()) == online.prior.tolist()
    for service in services:
        service.stop()


def test_processes_answer_503_without_their_database_and_recover_by_themselves(
    launcher: ServiceLauncher, server: PostgresServer, url: str
) -> None:
    service = launcher.start(url)
    where = f"{service.address}/v1/streams/shop/decisions"
    body = {"row": [0.0, 1.0, 2.0]}
    assert httpx.post(where, json=body, timeout=60.0).status_code == 200
    server.stop()
    for _ in range(2):
        refused = httpx.post(where, json=body, timeout=60.0)
        assert (refused.status_code, refused.json()["code"]) == (503, "not_stored")
        assert httpx.get(f"{service.address}/readyz", timeout=60.0).status_code == 503
        assert httpx.get(f"{service.address}/healthz", timeout=60.0).status_code == 200
    server.start()
    assert httpx.get(f"{service.address}/readyz", timeout=60.0).status_code == 200
    again = httpx.post(where, json=body, timeout=60.0)
    assert (again.status_code, again.json()["decisions"][0]["id"]) == (200, 1)
    service.stop()
