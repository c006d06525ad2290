"""Why a row was decided as it was, and what happened to its stream: read back as it was answered."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.service.refusals import ErasedError
from obil.service.storage.store import open_store
from obil.service.storage.stored_event import read_rows
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Label, Rows, Sender
from obil.service.streams.stream_hub import StreamHub
from tests.service.conftest import ROW, Served, payments
from tests.service.models import gaussian_rows, saved_model

DECISIONS, LOG = "/v1/streams/shop/decisions", "/v1/streams/shop/log"


def test_a_decision_is_read_back_as_it_was_answered_without_an_idempotency_key(served: Served) -> None:
    rows, _ = payments(40, seed=3)
    answered = served.client.post(
        DECISIONS, json={"rows": rows.to_dict("records"), "ids": [f"o/{i}" for i in range(40)]}
    )
    for i in (0, 7, 39):
        found = served.client.get(f"{DECISIONS}/o%2F{i}")
        assert found.status_code == 200, found.text
        shown = found.json()
        assert shown["decision"] == answered.json()["decisions"][i]
        assert (shown["stream"], shown["row"], shown["by"]) == ("shop", i + 1, "anonymous")
        assert shown["model"] == answered.json()["model"]
        assert shown["true_labels"] == []


def test_a_decision_shows_the_labels_that_came_for_it(served: Served) -> None:
    for label, propensity in ((0, 1.0), (1, 0.5)):
        served.client.post("/v1/streams/shop/labels", json={"id": "first", "label": label, "propensity": propensity})
    labels = served.client.get(f"{DECISIONS}/first").json()["true_labels"]
    assert [(one["label"], one["propensity"], one["known"]) for one in labels] == [(0, 1.0, True), (1, 0.5, True)]


def test_ids_that_are_numbers_and_rows_without_ids_are_found_by_their_number(served: Served) -> None:
    served.client.post(DECISIONS, json={"rows": [ROW, ROW]})
    served.client.post(DECISIONS, json={"row": ROW, "id": 700})
    assert served.client.get(f"{DECISIONS}/2?type=number").json()["row"] == 2
    assert served.client.get(f"{DECISIONS}/700?type=number").json()["row"] == 3
    assert served.client.get(f"{DECISIONS}/700").status_code == 404


def test_an_id_used_twice_shows_the_newer_decision(served: Served) -> None:
    served.client.post(DECISIONS, json={"row": {**ROW, "amount": -1.0}, "id": "first"})
    assert served.client.get(f"{DECISIONS}/first").json()["row"] == 1


def test_an_unknown_decision_is_404_and_an_erased_one_410(served: Served) -> None:
    assert served.client.get(f"{DECISIONS}/nobody").json()["code"] == "unknown_decision"
    assert served.client.get("/v1/streams/nowhere/decisions/first").json()["code"] == "unknown_stream"
    served.client.delete(f"{DECISIONS}/first")
    found = served.client.get(f"{DECISIONS}/first")
    assert (found.status_code, found.json()["code"]) == (410, "erased")
    served.client.post(DECISIONS, json={"row": ROW, "id": "first"})
    assert served.client.get(f"{DECISIONS}/first").status_code == 200


def test_the_log_is_read_page_by_page_in_order(served: Served) -> None:
    for i in range(5):
        served.client.post(DECISIONS, json={"row": ROW, "id": f"order {i}"})
        served.client.post("/v1/streams/shop/labels", json={"id": f"order {i}", "label": i % 2})
    whole = served.client.get(LOG).json()
    assert whole["next"] is None
    assert [one["seq"] for one in whole["entries"]] == list(range(1, 13))
    assert [one["kind"] for one in whole["entries"]] == ["created", "decided", *["decided", "labelled"] * 5]
    assert [one["row"] for one in whole["entries"] if one["kind"] == "decided"] == list(range(6))
    third = whole["entries"][3]
    assert third["content"] == {"labels": [{"id": "order 0", "label": 0, "propensity": 1.0}], "unknown": []}
    decided = whole["entries"][2]["content"]["decisions"]
    assert decided == [served.client.get(f"{DECISIONS}/order 0").json()["decision"]]
    read: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = served.client.get(f"{LOG}?after={after}&limit=5").json()
        assert len(page["entries"]) <= 5
        read += page["entries"]
        after = page["next"]
    assert read == whole["entries"]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=1001", f"after={2**64}"])
def test_refuses_a_page_that_the_log_cannot_have(served: Served, query: str) -> None:
    assert served.client.get(f"{LOG}?{query}").status_code == 422


def test_reading_the_log_needs_the_scope_read(locked: Served) -> None:
    for path in (f"{DECISIONS}/first", LOG, f"{DECISIONS}/x/events"):
        for scope, status in (("decide", 403), ("label", 403), ("read", 404 if path.endswith("events") else 200)):
            headers = {"authorization": f"Bearer {locked.keys[scope]}"}
            assert locked.client.get(path, headers=headers).status_code == status, (path, scope)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def hub(folder: Path, tmp_path: Path) -> Any:
    store = open_store(str(tmp_path / "streams.db"))
    hub = StreamHub(store, ModelRegistry(folder, store))
    yield hub
    hub.close()


def decide(hub: StreamHub, ids: list[Any], *, seed: int = 1) -> Any:
    rows, _ = gaussian_rows(len(ids), 0.3, seed)
    return asyncio.run(hub.decide("shop", Rows(rows, len(rows), ids), Sender()))


def test_a_page_ends_where_its_events_get_large_and_has_at_least_one(
    hub: StreamHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in range(0, 400, 100):
        decide(hub, [f"order {number}" for number in range(first, first + 100)])
    monkeypatch.setattr("obil.service.streams.stream_log.PAGE_BYTES", 1)
    seqs, after = [], 0
    while after is not None:
        page = asyncio.run(hub.log("shop", after=after))
        assert len(page.entries) == 1
        seqs.append(page.entries[0].seq)
        after = page.next
    assert seqs == [1, 2, 3, 4, 5]


def test_erased_rows_leave_the_log_and_what_they_were_decided_with_leaves_the_store(hub: StreamHub) -> None:
    decided = decide(hub, ["a", "b", "c"])
    asyncio.run(hub.label("shop", [Label("a", 1), Label("b", 1)], Sender()))
    asyncio.run(hub.forget("shop", ["b"], Sender()))
    page = asyncio.run(hub.log("shop"))
    kept = page.entries[1].content.decisions
    assert list(kept.ids) == ["a", "c"]
    assert np.array_equal(kept.effective_priors, decided.decisions.effective_priors[[0, 2]])
    assert page.entries[2].content["labels"] == [{"id": "a", "label": 1, "propensity": 1.0}]
    (event,) = [one for one in hub._store.log(1) if one.kind == "decided"]
    stored = read_rows(event.payload)
    assert np.isnan(stored.priors[1]).all()
    assert not np.isnan(stored.priors[[0, 2]]).any()
    with pytest.raises(ErasedError):
        asyncio.run(hub.decision("shop", "b"))
    assert asyncio.run(hub.decision("shop", "c")).decided.first_row == 2


def test_a_label_after_the_horizon_is_shown_as_not_known(folder: Path, tmp_path: Path) -> None:
    from obil.service.streams.operations import StreamSettings

    store = open_store(str(tmp_path / "short.db"))
    hub = StreamHub(store, ModelRegistry(folder, store), defaults=StreamSettings(horizon=2))
    try:
        decide(hub, ["late", "b", "c", "d"])
        assert asyncio.run(hub.label("shop", [Label("late", 1)], Sender())).unknown == ["late"]
        (label,) = asyncio.run(hub.decision("shop", "late")).true_labels
        assert (label.label, label.known) == (1, False)
    finally:
        hub.close()
