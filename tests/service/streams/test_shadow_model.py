"""A shadow model is compared with the active one after the reply, keeps no rows, and disturbs nobody."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from obil.estimators.table_fit import fit_table
from obil.service.refusals import ModelRefusedError, UnknownModelError, UnknownStreamError
from obil.service.storage.store import open_store
from obil.service.streams import shadow_model
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Rows, Sender
from obil.service.streams.shadow_model import table_for
from obil.service.streams.stream_hub import StreamHub
from tests.service.models import gaussian_rows, saved_model
from tests.service.streams.test_model_archive import tar_of

ANN = Sender(by="ann")
Start = Callable[[], StreamHub]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("newer") / "model", seed=1)


@pytest.fixture
def start(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start hubs as processes of their own would be, on one store; their shadow models do not rest."""
    monkeypatch.setattr(shadow_model, "REST", 0.0)
    hubs: list[StreamHub] = []

    def begin() -> StreamHub:
        store = open_store(str(tmp_path / "streams.db"))
        hubs.append(StreamHub(store, ModelRegistry(folder, store)))
        return hubs[-1]

    yield begin
    for hub in hubs:
        hub.close()


def add(hub: StreamHub, folder: Path) -> str:
    """Store a version as an upload does, without the time that its trial takes."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return hub._registry.add(files, by="ann")


def shadowed(hub: StreamHub, folder: Path, fraction: float = 1.0) -> str:
    version = add(hub, folder)
    asyncio.run(hub.models.start_shadow(version, fraction, ANN))
    return version


def decide(hub: StreamHub, rows: np.ndarray, *, ids: Any = None, sender: Sender = ANN) -> Any:
    return asyncio.run(hub.decide("shop", Rows(rows, len(rows), ids), sender))


def report(hub: StreamHub, n_rows: int) -> Any:
    """Return the comparison once so many rows were compared."""
    until = time.monotonic() + 30.0
    while True:
        found = asyncio.run(hub.shadow("shop"))
        if found.rows >= n_rows or time.monotonic() > until:
            return found
        time.sleep(0.02)


def test_compares_decisions_alerts_log_ratios_and_the_prior(start: Start, newer: Path) -> None:
    hub, (rows, _) = start(), gaussian_rows(3_000, 0.4, 5)
    decide(hub, rows[:2_000])
    version = shadowed(hub, newer)
    assert asyncio.run(hub.shadow("shop")).rows == 0
    decided = [decide(hub, part).decisions for part in np.split(rows[2_000:], 10)]
    found = report(hub, 1_000)
    ratios = hub._registry.get(version).score(rows[2_000:]).log_ratios
    wanted = np.mean(ratios - np.concatenate([one.log_ratios for one in decided]), axis=0)
    assert (found.version, found.active, found.rows, found.skipped) == (version, hub.model_card.version, 1_000, 0)
    assert list(found.log_ratio_difference.values()) == pytest.approx(wanted.tolist(), abs=1e-9)
    assert found.active_alerts == sum(int(one.alerts.sum()) for one in decided)
    assert abs(found.alerts - found.active_alerts) < 60
    assert 0.9 < found.agreement < 1.0
    assert found.prior["1"] == pytest.approx(asyncio.run(hub.detail("shop")).prior["1"], abs=0.05)
    assert found.trusted


def test_a_shadow_model_changes_no_decision_and_no_state(start: Start, newer: Path) -> None:
    rows, _ = gaussian_rows(600, 0.4, 6)
    hub = start()
    shadowed(hub, newer)
    with_shadow = np.concatenate([decide(hub, part).decisions.posteriors for part in np.split(rows, 6)])
    state = hub._writer.submit("shop", lambda live, _session, _at: live.online.state()).result()
    report(hub, 600)
    asyncio.run(hub.models.stop_shadow())
    asyncio.run(hub.delete("shop", ANN))
    without = np.concatenate([decide(hub, part).decisions.posteriors for part in np.split(rows, 6)])
    np.testing.assert_array_equal(with_shadow, without)
    assert state == hub._writer.submit("shop", lambda live, _session, _at: live.online.state()).result()


def test_a_fraction_of_the_rows_is_compared(start: Start, newer: Path) -> None:
    hub, (rows, _) = start(), gaussian_rows(2_000, 0.4, 7)
    shadowed(hub, newer, fraction=0.2)
    for part in np.split(rows, 20):
        decide(hub, part)
    time.sleep(0.5)
    found = report(hub, 1)
    # binomial with 2,000 and .2: outside in one run of 10^7
    assert 300 < found.rows < 500


def test_a_shadow_model_that_is_slow_or_fails_delays_and_fails_no_reply(
    start: Start, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_model, "MOST_WAITING", 2)
    hub, (rows, _) = start(), gaussian_rows(200, 0.4, 8)
    shadowed(hub, newer)

    def slow(*_: Any) -> Any:
        time.sleep(1.0)
        raise RuntimeError("broken")

    monkeypatch.setattr(shadow_model, "score", slow)
    decide(hub, rows[:1])
    started = time.monotonic()
    for row in rows[1:21]:
        decide(hub, row[None])
    assert time.monotonic() - started < 15.0  # 20 s if each had waited for the shadow model
    assert asyncio.run(hub.detail("shop")).rows == 21
    found = asyncio.run(hub.shadow("shop"))
    assert found.rows == 0
    assert found.skipped >= 15
    monkeypatch.setattr(hub._shadow, "_random", None)  # a fault of its own
    assert decide(hub, rows[:5]).first_row == 21


def test_a_stream_that_is_deleted_while_it_is_compared_leaves_nothing(
    start: Start, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, (rows, _) = start(), gaussian_rows(20, 0.4, 8)
    shadowed(hub, newer)
    begun, deleted, scored = threading.Event(), threading.Event(), shadow_model.score

    def held(*given: Any) -> Any:
        begun.set()
        deleted.wait(30.0)
        return scored(*given)

    monkeypatch.setattr(shadow_model, "score", held)
    decide(hub, rows)
    assert begun.wait(30.0)
    asyncio.run(hub.delete("shop", ANN))
    deleted.set()
    hub._shadow.close()
    assert not hub._shadow._comparisons


def test_a_comparison_that_does_not_end_does_not_keep_the_service_from_stopping(
    start: Start, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_model, "CLOSE_SECONDS", 0.2)
    hub, (rows, _) = start(), gaussian_rows(20, 0.4, 8)
    shadowed(hub, newer)
    begun, stopped = threading.Event(), threading.Event()

    def endless(*_: Any) -> Any:
        begun.set()
        stopped.wait(60.0)
        raise RuntimeError("broken")

    monkeypatch.setattr(shadow_model, "score", endless)
    decide(hub, rows)
    assert begun.wait(30.0)
    started = time.monotonic()
    hub.close()
    assert time.monotonic() - started < 30.0
    stopped.set()
    hub._shadow._thread.join(30.0)
    assert not hub._shadow._thread.is_alive()


def test_many_streams_do_not_push_each_other_out(start: Start, newer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_model, "MOST_STREAMS", 1)
    hub, (rows, _) = start(), gaussian_rows(10, 0.4, 15)
    shadowed(hub, newer)
    decide(hub, rows)
    report(hub, 10)
    asyncio.run(hub.decide("other", Rows(rows, 10), ANN))
    decide(hub, rows)
    assert report(hub, 20).rows == 20
    assert asyncio.run(hub.shadow("other")).rows == 0
    monkeypatch.setattr(shadow_model, "IDLE_SECONDS", 0.0)
    asyncio.run(hub.decide("other", Rows(rows, 10), ANN))
    until = time.monotonic() + 30.0
    while not asyncio.run(hub.shadow("other")).rows and time.monotonic() < until:
        time.sleep(0.02)
    assert asyncio.run(hub.shadow("other")).rows == 10
    assert asyncio.run(hub.shadow("shop")).rows == 0


def test_a_retry_is_not_compared_again(start: Start, newer: Path) -> None:
    hub, (rows, _) = start(), gaussian_rows(20, 0.4, 9)
    shadowed(hub, newer)
    sender = Sender("ann", "key", b"digest")
    assert not decide(hub, rows, sender=sender).repeated
    assert decide(hub, rows, sender=sender).repeated
    decide(hub, rows[:1])
    time.sleep(0.2)
    assert report(hub, 21).rows == 21


def test_keeps_neither_rows_nor_ids_and_nothing_of_a_deleted_stream(start: Start, newer: Path) -> None:
    hub, (rows, _) = start(), gaussian_rows(50, 0.4, 10)
    shadowed(hub, newer)
    names = [f"person-{number}" for number in range(50)]
    decide(hub, rows, ids=names)
    report(hub, 50)
    held = hub._shadow._comparisons["shop"]
    assert b"person" not in held.online.state()
    assert held.online.row_of("person-7") is None
    assert not held.online.feedback(7, 1)
    gc.collect()
    reached, waiting = set(), [hub._shadow._comparisons, hub._shadow._queue]
    while waiting:
        one = waiting.pop()
        if id(one) in reached or isinstance(one, type | type(time)) or callable(one):
            continue
        reached.add(id(one))
        assert not (isinstance(one, str) and one.startswith("person"))
        assert not (isinstance(one, np.ndarray) and one.shape == rows.shape)
        waiting += gc.get_referents(one)
    asyncio.run(hub.delete("shop", ANN))
    assert hub._shadow._comparisons == {}
    with pytest.raises(UnknownStreamError):
        asyncio.run(hub.shadow("shop"))
    decide(hub, rows[:3])
    assert report(hub, 3).rows == 3


def test_all_processes_compare_and_stop_together(start: Start, newer: Path) -> None:
    one, two, (rows, _) = start(), start(), gaussian_rows(40, 0.4, 11)
    version = shadowed(one, newer, fraction=1.0)
    two.follow_model()
    decide(two, rows)
    assert report(two, 40).rows == 40
    shown = asyncio.run(two.models.page()).shadow
    assert (shown.version, shown.fraction, shown.by) == (version, 1.0, "ann")
    three = start()  # a restart continues
    decide(three, rows)
    assert report(three, 40).version == version
    asyncio.run(one.models.stop_shadow())
    two.follow_model()
    assert asyncio.run(two.shadow("shop")).version is None
    assert asyncio.run(two.models.page()).shadow is None


def test_the_shadow_model_that_is_activated_is_no_shadow_any_more(start: Start, newer: Path, tmp_path: Path) -> None:
    hub, (rows, _) = start(), gaussian_rows(30, 0.4, 12)
    first, version = hub.model_card.version, shadowed(hub, newer)
    with pytest.raises(ModelRefusedError, match="stop it first"):
        asyncio.run(hub.models.remove(version))
    asyncio.run(hub.models.activate(version, ANN))
    assert asyncio.run(hub.models.page()).shadow is None
    with pytest.raises(ModelRefusedError, match="another version"):
        asyncio.run(hub.models.start_shadow(version, 0.5, ANN))
    with pytest.raises(UnknownModelError):
        asyncio.run(hub.models.start_shadow("0" * 16, 0.5, ANN))
    asyncio.run(hub.models.start_shadow(first, 1.0, ANN))  # the old one stays beside the new one
    decide(hub, rows)
    assert report(hub, 30).version == first
    third = add(hub, saved_model(tmp_path / "third", seed=2))
    asyncio.run(hub.models.activate(third, ANN))
    decide(hub, rows[:4])
    found = report(hub, 4)
    assert (found.active, found.rows) == (third, 4)  # it began anew


def test_follows_the_policy_of_the_stream(start: Start, newer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_model, "POLICY_SECONDS", 0.0)
    hub, (rows, _) = start(), gaussian_rows(100, 0.4, 13)
    shadowed(hub, newer)
    decide(hub, rows)
    assert report(hub, 100).alerts > 10
    asyncio.run(hub.change("shop", {"name": "budget", "rate": 1e-9}, ANN))
    before = report(hub, 100).alerts
    decide(hub, rows)
    assert report(hub, 200).alerts == before


def test_rows_are_read_as_the_shadow_model_takes_them() -> None:
    def fitted(countries: list[str], columns: list[str], seed: int) -> Any:
        rows, labels = gaussian_rows(2_000, 0.2, seed)
        frame = pd.DataFrame({"amount": rows[:, 0], "country": np.resize(countries, 2_000)})[columns]
        return fit_table(frame, labels, model="logistic").model

    active = fitted(["DE", "FR"], ["amount", "country"], 1)
    shadow = fitted(["FR", "AT", "DE"], ["country", "amount"], 2)
    assert [one.levels for one in active.columns] == [None, ("DE", "FR")]
    order = shadow.columns[0].levels
    table = np.array([[1.5, 0.0], [2.5, 1.0], [3.5, 2.0], [4.5, np.nan]])  # DE, FR, another, missing
    codes = [order.index("DE"), order.index("FR"), len(order), np.nan]
    np.testing.assert_array_equal(table_for(shadow, table, active), np.column_stack([codes, [1.5, 2.5, 3.5, 4.5]]))
    assert table_for(active, table, active) is table


def test_an_upload_can_run_in_shadow(start: Start, newer: Path) -> None:
    hub, (rows, _) = start(), gaussian_rows(10, 0.4, 14)
    archive = tar_of(*((path.name, path.read_bytes()) for path in newer.iterdir()))
    version = asyncio.run(hub.models.upload(archive, ANN)).version
    asyncio.run(hub.models.start_shadow(version, 1.0, ANN))
    decide(hub, rows)
    assert report(hub, 10).version == version
