"""The Python client against the whole service on a real port."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import obil
from obil.errors import InvalidInputError
from obil.service import Client, NotReachedError, ServiceError
from obil.service.running import open_service
from obil.service.service_settings import ServiceSettings
from obil.service.storage.api_keys import make_key
from obil.service.storage.store import open_store
from obil.serving.ratio_model import RatioModel
from tests.service.conftest import ROW, payments
from tests.service.serving import Wire, serving, wire


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: RatioModel) -> Path:
    folder = tmp_path_factory.mktemp("served")
    obil.save(model, folder / "model")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    settings = ServiceSettings(store=f"sqlite:///{folder / 'streams.db'}")
    with serving(open_service(folder / "model", settings)) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


@pytest.fixture
def lossy(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Wire, Client]]:
    monkeypatch.setattr("obil.service.client.connection.FIRST_WAIT", 0.01)
    with wire(address) as between, Client(between.address) as client:
        yield between, client


def test_decides_one_row_by_name_and_many_as_arrays(client: Client, model: RatioModel) -> None:
    stream = client.stream("plain")
    one = stream.decide(ROW, ids="first")
    assert (len(one), one.stream, one.repeated, one[0].id) == (1, "plain", False, "first")
    many = stream.decide([[3.2, 41, "DE"], [0.1, 30, "FR"]], ids=["a", 7])
    assert [decision.id for decision in many] == ["a", 7]
    assert many[0].log_ratio == pytest.approx(one[0].log_ratio)
    assert many[0].label in model.classes_.tolist()
    assert many[0].posterior["1"] == many[0].probability
    assert stream.decide([3.2, 41, "DE"])[0].id == 3  # its number in the stream


def test_takes_the_records_of_a_table(client: Client, model: RatioModel) -> None:
    rows, _ = payments(20, seed=5)
    decided = client.stream("table").decide(rows.to_dict("records"))
    expected = model.log_ratios(rows)[:, 1]
    np.testing.assert_allclose([decision.log_ratio for decision in decided], expected, rtol=1e-9)


def test_numbers_of_numpy_are_numbers(client: Client) -> None:
    decided = client.stream("numpy").decide({"amount": np.float32(3.2), "age": np.int64(41), "country": "DE"})
    assert decided[0].log_ratio == pytest.approx(client.stream("numpy").decide(ROW)[0].log_ratio, abs=1e-5)


def test_tells_labels_and_looks_at_the_stream(client: Client) -> None:
    stream = client.stream("looked-at")
    rows, labels = payments(300, seed=6)
    stream.decide(rows.to_dict("records"), ids=[f"p{i}" for i in range(300)])
    told = stream.label({f"p{i}": int(label) for i, label in enumerate(labels[:50])} | {"none": 1}, propensity=0.5)
    assert (told.known, list(told.unknown)) == (50, ["none"])
    state = stream.state()
    assert (state.name, state.rows, state.labels, state.classes) == ("looked-at", 300, 50, [0, 1])
    assert sum(state.prior.values()) == pytest.approx(1.0)
    assert state.created.tzinfo is not None
    assert state.created <= state.updated
    assert [one.name for one in client.streams(search="looked")] == ["looked-at"]
    assert list(client.streams(search="looked", alarmed=True)) == []
    history = stream.history(start=state.created, points=10)
    assert history.columns["row"][-1] == 300.0
    assert len({len(column) for column in history.columns.values()}) == 1


def test_goes_through_more_streams_than_one_page_has(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obil.service.client.client.PAGE_SIZE", 2)
    for number in range(5):
        client.stream(f"paged-{number}").create()
    assert [one.name for one in client.streams(search="paged")] == [f"paged-{number}" for number in range(5)]


def test_makes_changes_and_erases_a_stream(client: Client) -> None:
    stream = client.stream("made")
    made = stream.create(prior=0.01, costs={"false_positive": 1, "false_negative": 20}, tracker="bank")
    assert made.start_prior["1"] == pytest.approx(0.01)
    assert stream.set_policy("f1").after["name"] == "fbeta"
    change = stream.set_policy(costs={"false_positive": 1, "false_negative": 5})
    assert (change.before["name"], change.row) == ("fbeta", 0)
    assert len(stream.state().changes) == 2
    stream.decide(ROW, ids="x/ü 1")
    stream.forget("x/ü 1")
    with pytest.raises(ServiceError) as refused:
        stream.forget("x/ü 1")
    assert (refused.value.status, refused.value.code) == (404, "unknown_decision")
    assert stream.restart_monitor().rows == 1
    stream.delete()
    with pytest.raises(ServiceError, match="made"):
        stream.state()


def test_reads_a_decision_and_the_log_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obil.service.client.client.PAGE_SIZE", 2)
    stream = client.stream("read-back")
    decided = stream.decide([ROW, ROW, ROW], ids=["a/1", 7, "ü"])
    stream.label({7: 1}, propensity=0.5)
    found = stream.decision(7)
    assert (found.decision, found.row, found.model) == (decided[1], 1, decided.model)
    assert [(one.label, one.propensity, one.known) for one in found.true_labels] == [(1, 0.5, True)]
    assert found.at <= found.true_labels[0].at
    assert stream.decision("a/1").decision == decided[0]
    stream.set_policy("f1")
    assert [entry.kind for entry in stream.log()] == ["created", "decided", "labelled", "settings"]
    assert [entry.seq for entry in stream.log(after=2)] == [3, 4]
    stream.forget(7)
    with pytest.raises(ServiceError) as refused:
        stream.decision(7)
    assert (refused.value.status, refused.value.code) == (410, "erased")


def test_shows_and_reloads_the_model(client: Client, model: RatioModel) -> None:
    card = client.model()
    assert card.classes == model.classes_.tolist()
    assert card.gate["verdict"] in {"deploy", "warn"}
    assert client.reload_model().version == card.version


def test_an_error_carries_status_code_message_and_where(client: Client) -> None:
    with pytest.raises(ServiceError, match="amount") as refused:
        client.stream("refused").decide({"amount": "ten", "age": 41, "country": "DE"})
    error = refused.value
    assert (error.status, error.code, error.where) == (422, "bad_input", "amount")
    assert error.request_id


def test_refuses_what_cannot_be_sent(client: Client) -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        client.stream("s").decide([[float("nan"), 41, "DE"]])
    with pytest.raises(InvalidInputError, match="one row or some"):
        client.stream("s").decide([])
    with pytest.raises(InvalidInputError, match="not both"):
        client.stream("s").set_policy("f1", costs={"false_positive": 1, "false_negative": 1})
    with pytest.raises(InvalidInputError, match="must look like"):
        Client("127.0.0.1:8642")


@pytest.mark.parametrize("status", [0, 502, 504])
def test_a_lost_response_is_requested_again_and_the_row_counts_once(lossy: tuple[Wire, Client], status: int) -> None:
    between, client = lossy
    between.lost_status = status
    stream = client.stream(f"lossy-{status}")
    between.lose_answers = 2
    decided = stream.decide(ROW, ids="a")
    assert decided.repeated
    assert len(between.passed) == 3
    between.lose_answers = 1
    assert stream.label({"a": 1}).known == 1
    state = stream.state()
    assert (state.rows, state.labels) == (1, 1)


def test_waits_where_nothing_was_stored(lossy: tuple[Wire, Client]) -> None:
    between, client = lossy
    between.refuse = 2
    assert not client.stream("patient").decide(ROW).repeated
    assert client.stream("patient").state().rows == 1


def test_gives_up_after_its_retries(lossy: tuple[Wire, Client]) -> None:
    between, _ = lossy
    between.refuse = 10
    with Client(between.address, retries=2) as client, pytest.raises(ServiceError) as refused:
        client.stream("given-up").decide(ROW)
    assert (refused.value.status, refused.value.code) == (503, "not_stored")
    assert between.refuse == 7
    between.refuse, between.lose_answers = 0, 10
    with Client(between.address, retries=1) as client, pytest.raises(NotReachedError, match="did not respond"):
        client.stream("given-up").decide(ROW)


def test_what_must_not_happen_twice_is_not_sent_twice(lossy: tuple[Wire, Client]) -> None:
    between, client = lossy
    stream = client.stream("once")
    stream.create()
    between.passed.clear()
    between.lose_answers = 1
    with pytest.raises(NotReachedError):
        stream.set_policy("f1")
    assert between.passed == ["PUT /v1/streams/once/settings"]
    between.lose_answers, between.lost_status = 1, 502
    with pytest.raises(ServiceError, match="502"):
        stream.set_policy("f1")
    assert len(between.passed) == 2


def test_keeps_its_connection(lossy: tuple[Wire, Client]) -> None:
    between, client = lossy
    for _ in range(5):
        client.stream("kept").decide(ROW)
    assert between.connections == 1


def test_threads_can_use_one_client(client: Client) -> None:
    stream = client.stream("shared")

    def decide() -> None:
        for _ in range(20):
            stream.decide(ROW)

    threads = [threading.Thread(target=decide) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stream.state().rows == 80


def test_sends_its_key(folder: Path) -> None:
    url = f"sqlite:///{folder / 'locked.db'}"
    key, record = make_key("till 7", ["decide"], now=1.0)
    store = open_store(url)
    store.add_key(record)
    store.close()
    settings = ServiceSettings(store=url, require_keys=True)
    with serving(open_service(folder / "model", settings)) as address:
        with Client(address, key) as client:
            assert len(client.stream("shop").decide(ROW)) == 1
            with pytest.raises(ServiceError) as refused:
                client.stream("shop").state()
            assert (refused.value.status, refused.value.code) == (403, "wrong_scope")
        with Client(address) as client, pytest.raises(ServiceError) as refused:
            client.stream("shop").decide(ROW)
        assert refused.value.status == 401


def test_an_unreachable_service_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obil.service.client.connection.FIRST_WAIT", 0.001)
    with Client("http://127.0.0.1:9", retries=1) as client, pytest.raises(NotReachedError, match="refused"):
        client.model()


def test_loads_nothing_but_the_standard_library() -> None:
    code = (
        "import sys\nfrom obil.service import Client\n"
        "print([name for name in ('fastapi', 'uvicorn', 'pydantic', 'httpx', 'numpy') if name in sys.modules])"
    )
    source = str(Path(obil.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert ran.stdout.strip() == "[]"
