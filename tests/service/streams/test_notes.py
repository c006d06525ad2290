"""Alarms are dated, acknowledged and noted on; all of it survives a restart."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.service.refusals import BadInputError, KeyReusedError
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Rows, Sender
from obil.service.streams.replay import replay
from obil.service.streams.stream_hub import StreamHub
from tests.service.models import gaussian_rows, saved_model

Start = Callable[[], StreamHub]
ANN, BOB = Sender(by="ann"), Sender(by="bob")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def start(folder: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a hub on the same store, after stopping the one before."""
    hubs: list[StreamHub] = []

    def begin() -> StreamHub:
        if hubs:
            hubs[-1].close()
        store = open_store(str(tmp_path / "streams.db"))
        hubs.append(StreamHub(store, ModelRegistry(folder, store)))
        return hubs[-1]

    yield begin
    hubs[-1].close()


def decide(hub: StreamHub, rows: np.ndarray) -> None:
    asyncio.run(hub.decide("shop", Rows(rows, len(rows)), ANN))


def note(hub: StreamHub, text: str, sender: Sender = BOB, **how: Any) -> Any:
    return asyncio.run(hub.note("shop", text, sender, **how))


def alarmed(start: Start) -> StreamHub:
    """Return a hub with a stream whose scores no prior explains: a column is stuck between the classes."""
    hub = start()
    rows, _ = gaussian_rows(3_000, 0.1, 5)
    decide(hub, rows[:500])
    for part in np.array_split(rows, 6):
        decide(hub, np.full_like(part, 0.9))
    return hub


def test_an_alarm_is_dated_acknowledged_and_noted_on_and_survives_a_restart(start: Start) -> None:
    hub = alarmed(start)
    before = asyncio.run(hub.detail("shop"))
    assert not before.trusted
    assert before.created < before.alarm_since <= before.last_row  # type: ignore[operator]
    assert before.acknowledged_by is None
    seen = note(hub, "the sensor is stuck", acknowledge=True)
    note(hub, "a new one is ordered", ANN)
    assert (seen.kind, seen.by, seen.text, seen.row) == ("acknowledged", "bob", "the sensor is stuck", before.rows)
    after = asyncio.run(hub.detail("shop"))
    assert [(one.kind, one.by, one.text) for one in after.events] == [
        ("noted", "ann", "a new one is ordered"), ("acknowledged", "bob", "the sensor is stuck"),
    ]  # fmt: skip
    assert (after.acknowledged_by, after.alarm_since, after.last_row) == ("bob", before.alarm_since, before.last_row)
    assert after.prior == before.prior

    hub = start()
    decide(hub, gaussian_rows(10, 0.1, 6)[0])
    again = asyncio.run(hub.detail("shop"))
    assert (again.acknowledged_by, again.alarm_since, again.events) == ("bob", before.alarm_since, after.events)
    assert again.rows == before.rows + 10
    assert asyncio.run(hub.page(alarmed=True)).streams[0].acknowledged_by == "bob"


def test_a_new_monitoring_run_has_no_alarm_to_acknowledge(start: Start) -> None:
    hub = alarmed(start)
    note(hub, "", acknowledge=True)
    detail = asyncio.run(hub.restart_monitor("shop", ANN))
    assert (detail.trusted, detail.alarm_since, detail.acknowledged_by) == (True, None, None)
    assert [one.kind for one in detail.events] == ["restarted", "acknowledged"]
    with pytest.raises(BadInputError, match="has no alarm"):
        note(hub, "", acknowledge=True)
    decide(hub, np.full((3_000, 3), 0.9))
    again = asyncio.run(hub.detail("shop"))
    assert not again.trusted
    assert again.acknowledged_by is None


def test_a_note_that_is_sent_again_is_kept_once(start: Start) -> None:
    hub = start()
    decide(hub, gaussian_rows(10, 0.1, 6)[0])
    keyed = Sender("bob", "key-1", b"digest")
    assert note(hub, "once", keyed) == note(hub, "once", keyed)
    assert len(asyncio.run(hub.detail("shop")).events) == 1
    with pytest.raises(KeyReusedError):
        note(hub, "another", Sender("bob", "key-1", b"other"))


def test_a_log_with_notes_is_replayed(start: Start, folder: Path, tmp_path: Path) -> None:
    hub = start()
    decide(hub, gaussian_rows(10, 0.1, 6)[0])
    note(hub, "between")
    decide(hub, gaussian_rows(10, 0.1, 7)[0])
    store = open_store(str(tmp_path / "streams.db"))
    row = store.stream("shop")
    assert row is not None
    online = replay(None, store.log(row.id), ModelRegistry(folder, store).get)
    store.close()
    assert online.n_rows == 20
    assert {str(k): p for k, p in zip(online.classes_, online.prior, strict=True)} == asyncio.run(
        hub.detail("shop")
    ).prior


def test_notes_are_kept_when_old_events_are_pruned(start: Start) -> None:
    hub = start()
    decide(hub, gaussian_rows(10, 0.1, 6)[0])
    note(hub, "keep this")
    assert hub.prune(1e12) > 0
    assert [one.text for one in asyncio.run(hub.detail("shop")).events] == ["keep this"]
