"""A store of an older format is brought to the present one as a whole, or left as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from obil.errors import InvalidInputError
from obil.service.refusals import NotStoredError
from obil.service.storage import migrations
from obil.service.storage.store import Store
from tests.service.postgres import PostgresServer, open_test_store, postgres_server, skip_without_postgres

NEXT_STEP = (
    "ALTER TABLE streams ADD COLUMN owner TEXT NOT NULL DEFAULT 'nobody'",
    "CREATE TABLE owners (name TEXT PRIMARY KEY, since {real} NOT NULL, photo {blob}){compact}",
    "INSERT INTO owners (name, since) SELECT DISTINCT owner, 0 FROM streams",
)


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


PRESENT = 1 + len(migrations.STEPS)


def add_stream(store: Store, name: str) -> None:
    store.open_secret()
    with store.writing() as session:
        session.add_stream(name, 1.0, "m")


def test_a_new_store_has_the_present_format(url: str) -> None:
    store = open_test_store(url)
    assert store.meta("format") == str(PRESENT)
    store.close()


def test_a_store_is_brought_to_a_next_format_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_test_store(url)
    add_stream(store, "shop")
    store.close()
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, NEXT_STEP))
    for _ in range(2):
        store = open_test_store(url)
        assert store.meta("format") == str(PRESENT + 1)
        assert store._read("SELECT name, owner FROM streams") == [("shop", "nobody")]
        assert store._read("SELECT name FROM owners") == [("nobody",)]
        add_stream(store, "shop")  # what is written does not depend on how the store came to its format
        store.close()


def test_steps_are_taken_in_order_from_the_format_of_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_test_store(url).close()
    rename = ("ALTER TABLE owners RENAME TO holders",)
    present = migrations.STEPS
    for steps in ((NEXT_STEP,), (NEXT_STEP, rename)):
        monkeypatch.setattr(migrations, "STEPS", present + steps)
        open_test_store(url).close()
    store = open_test_store(url)
    assert store.meta("format") == str(PRESENT + 2)
    assert store._read("SELECT name FROM holders") == []
    store.close()


def test_a_step_that_fails_leaves_the_store_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_test_store(url)
    add_stream(store, "shop")
    store.close()
    with monkeypatch.context() as patch:
        failing = (*NEXT_STEP, "INSERT INTO nowhere (name) VALUES (1)")
        patch.setattr(migrations, "STEPS", (*migrations.STEPS, failing))
        with pytest.raises(NotStoredError, match="nowhere"):
            open_test_store(url)
    store = open_test_store(url)
    assert store.meta("format") == str(PRESENT)
    assert store.stream("shop") is not None
    with pytest.raises(NotStoredError, match="owners"):
        store._read("SELECT * FROM owners")
    store.close()


@pytest.mark.parametrize("text", ["0", str(PRESENT + 1), "x", ""])
def test_a_store_of_another_format_is_refused_and_not_changed(url: str, text: str) -> None:
    store = open_test_store(url)
    with store.writing() as session:
        session.set_meta("format", text)
    store.close()
    with pytest.raises(InvalidInputError, match=f"this version reads formats up to {PRESENT}"):
        open_test_store(url)


def test_the_models_of_a_store_of_format_1_stay_and_cannot_be_deleted(url: str) -> None:
    store = open_test_store(url)
    with store.writing() as session:
        session.add_model("m", {"a": b"1", "b": b"2"}, source="folder", at=1.0, by="service")
        session._run("DROP TABLE models")
        session.set_meta("format", "1")
    store.close()
    store = open_test_store(url)
    assert store.models() == [("m", "folder", None, "service", 0.0, None)]
    assert store.model_files("m") == {"a": b"1", "b": b"2"}
    store.close()
