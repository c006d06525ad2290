import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import obil
from obil.service.http.responses import json_bytes
from obil.service.records import LabelResult
from obil.service.refusals import (
    BadInputError,
    KeyReusedError,
    ModelRefusedError,
    NotStoredError,
    StreamExistsError,
    UnknownStreamError,
)
from obil.service.storage.store import open_store
from obil.service.storage.stored_event import DECIDED, read_rows
from obil.service.storage.writing import Writing
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Label, Rows, Sender, StreamSettings
from obil.service.streams.replay import replay
from obil.service.streams.scoring import score
from obil.service.streams.stream_hub import StreamHub
from tests.service.models import gaussian_rows, saved_model
from tests.service.postgres import PostgresServer, open_test_store, postgres_server, skip_without_postgres

ANYONE = Sender()
COLUMNS = ("numbers", "effective_priors", "posteriors", "thresholds", "log_ratios", "evidence", "trusted", "reachable")


Start = Callable[..., StreamHub]


@pytest.fixture(scope="module", params=["sqlite plain", "sqlite views", "postgresql plain"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model", views=kind.endswith("views"))


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[PostgresServer | None]:
    if not kind.startswith("postgresql"):
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
    """Start a hub on the same store, again and again."""
    hubs: list[StreamHub] = []

    def begin(**settings: Any) -> StreamHub:
        store = open_test_store(url)
        try:
            hubs.append(StreamHub(store, ModelRegistry(settings.pop("folder", folder), store), **settings))
        except ModelRefusedError:
            store.close()
            raise
        return hubs[-1]

    yield begin
    for hub in hubs:
        hub.close()


def rows_of(values: np.ndarray, ids: list[Any] | None = None) -> Rows:
    return Rows(values, len(values), ids)


def decide(
    hub: StreamHub, values: np.ndarray, *, stream: str = "shop", ids: Any = None, sender: Sender = ANYONE
) -> Any:
    return asyncio.run(hub.decide(stream, rows_of(values, ids), sender))


def label(hub: StreamHub, labels: list[Label], *, stream: str = "shop", sender: Sender = ANYONE) -> Any:
    return asyncio.run(hub.label(stream, labels, sender))


def state_of(hub: StreamHub, stream: str = "shop") -> bytes:
    state: bytes = hub._writer.submit(stream, lambda live, _session, _at: live.online.state()).result()
    return state


def online_of(hub: StreamHub, stream: str = "shop") -> obil.OnlineClassifier:
    return obil.OnlineClassifier.from_state(hub.model, state_of(hub, stream))


def replayed_stream(url: str, folder: Path, stream: str = "shop") -> obil.OnlineClassifier:
    """Make a stream from the log alone."""
    store = open_store(url)
    try:
        row = store.stream(stream)
        assert row is not None
        return replay(None, store.log(row.id), ModelRegistry(folder, store).get)
    finally:
        store.close()


def test_decides_as_an_online_classifier_does(folder: Path, start: Start) -> None:
    hub, (rows, labels) = start(), gaussian_rows(300, 0.3, 1)
    online = obil.OnlineClassifier(obil.load(folder))
    for part in np.array_split(np.arange(300), 7):
        answer = decide(hub, rows[part])
        expected = online.decide_scores(hub.model.score(rows[part]))
        np.testing.assert_array_equal(answer.decisions.effective_priors, expected.effective_priors)
        np.testing.assert_array_equal(answer.decisions.numbers, expected.numbers)
        assert list(answer.decisions.ids) == list(expected.ids)
    late = label(hub, [Label(i, int(labels[i]), 0.5) for i in range(0, 300, 3)] + [Label(999, 1)])
    assert (late.known, list(late.unknown)) == (100, [999])
    for i in range(0, 300, 3):
        online.feedback(i, int(labels[i]), propensity=0.5)
    online.feedback(999, 1)
    assert state_of(hub) == online.state()


def test_nothing_of_a_stream_is_older_than_the_stream(start: Start) -> None:
    hub = start()
    decide(hub, gaussian_rows(20, 0.3, 1)[0])
    row = hub._store.stream("shop")
    assert row is not None
    assert {event.at for event in hub._store.log(row.id)} == {row.created}  # made and decided in one transaction
    history = asyncio.run(hub.history("shop", start=row.created))
    assert history.columns["row"] == [20.0]


def test_comes_back_exactly_after_a_stop_and_after_being_idle(start: Start) -> None:
    hub, (rows, _) = start(max_streams=2), gaussian_rows(600, 0.3, 2)
    decide(hub, rows[:200])
    label(hub, [Label(3, 1), Label(9, 0)])
    before = state_of(hub)
    for name in ("a", "b", "c"):
        decide(hub, rows[:5], stream=name)
    assert hub.n_live <= 3
    assert state_of(hub) == before
    hub.close()
    again = start()
    assert state_of(again) == before
    twin = obil.OnlineClassifier.from_state(again.model, before)
    np.testing.assert_array_equal(
        decide(again, rows[200:210]).decisions.effective_priors, twin.decide_many(rows[200:210]).effective_priors
    )


def test_a_stream_in_memory_is_not_read_again_and_follows_what_another_process_does(start: Start) -> None:
    one, two, (rows, _) = start(), start(), gaussian_rows(40, 0.3, 7)
    decide(one, rows[:10])
    kept = one._writer._streams["shop"]
    decide(one, rows[10:20])
    assert one._writer._streams["shop"] is kept  # what it wrote is what it reads
    decide(two, rows[20:30])
    decide(one, rows[30:])
    assert one._writer._streams["shop"] is kept
    assert state_of(one) == state_of(two)


def test_the_log_replayed_from_its_first_event_gives_the_state_bit_for_bit(
    folder: Path, start: Start, url: str
) -> None:
    hub, (rows, labels) = start(), gaussian_rows(5_000, 0.2, 3)
    for part in np.array_split(np.arange(5_000), 9):  # beyond the rows at which a snapshot is written
        decide(hub, rows[part], ids=[f"row {i}" for i in part])
        label(hub, [Label(f"row {i}", int(labels[i])) for i in part[::10]])
    asyncio.run(hub.change("shop", {"name": "fbeta", "beta": 1.0}, Sender(by="ann")))
    decide(hub, rows[:1])
    asyncio.run(hub.restart_monitor("shop", ANYONE))
    decide(hub, rows[:300])
    replayed = replayed_stream(url, folder)
    assert replayed.state() == state_of(hub)
    assert asyncio.run(hub.detail("shop")).rows == 5_301 == replayed.n_rows


def test_rows_one_by_one_many_at_once_by_the_service_and_from_the_log_are_decided_alike_bit_for_bit(
    folder: Path, start: Start, url: str
) -> None:
    hub, (rows, labels) = start(), gaussian_rows(1_200, 0.4, 16)
    model = hub.model
    assert model.n_folds == 5
    single, many = obil.OnlineClassifier(model), obil.OnlineClassifier(model)
    scores = model.score(rows)
    for part in np.split(np.arange(1_200), [1, 2, 400, 407, 900]):
        if part[0] == 407:  # what follows is decided by a service that was started again
            hub.close()
            hub = start()
        answered, expected = decide(hub, rows[part]).decisions, many.decide_many(rows[part])
        alone = [single.decide(row) for row in rows[part]]
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(answered, name), getattr(expected, name))
        for name in ("effective_prior", "posterior", "threshold", "log_ratios", "evidence", "trusted", "reachable"):
            column = {"effective_prior": "effective_priors", "posterior": "posteriors", "threshold": "thresholds"}.get(
                name, name
            )
            np.testing.assert_array_equal([getattr(one, name) for one in alone], getattr(expected, column))
        assert [one.label for one in alone] == answered.labels.tolist() == expected.labels.tolist()
        np.testing.assert_array_equal(expected.log_ratios, scores.log_ratios[part])
        np.testing.assert_array_equal(expected.evidence, scores.evidence_from(0)[part])  # by the row's number
        told = [Label(int(i), int(labels[i])) for i in part[::5]]
        label(hub, told)
        for online in (single, many):
            assert all(online.feedback(one.id, one.label) for one in told)
    assert abs(many.prior[1] - model.prior_[1]) > 0.05  # they were decided at a prior that moved
    assert single.state() == many.state() == state_of(hub) == replayed_stream(url, folder).state()


def test_a_retry_gives_the_same_decisions_and_counts_once(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(50, 0.3, 4)
    sender = Sender(idempotency_key="order-1", digest=b"one")
    first = decide(hub, rows[:20], sender=sender)
    decide(hub, rows[20:])
    again = decide(hub, rows[:20], sender=sender)
    assert again.repeated
    assert not first.repeated
    assert list(again.decisions.ids) == list(first.decisions.ids)
    assert (again.model, again.first_row) == (first.model, first.first_row)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(again.decisions, name), getattr(first.decisions, name))
    assert asyncio.run(hub.detail("shop")).rows == 50
    with pytest.raises(KeyReusedError, match="another body"):
        decide(hub, rows[:20], sender=Sender(idempotency_key="order-1", digest=b"two"))
    label_sender = Sender(idempotency_key="labels-1", digest=b"l")
    assert label(hub, [Label(1, 1), Label(88, 1)], sender=label_sender) == LabelResult("shop", 1, [88], repeated=False)
    assert label(hub, [Label(1, 1), Label(88, 1)], sender=label_sender) == LabelResult("shop", 1, [88], repeated=True)
    with pytest.raises(KeyReusedError):
        decide(hub, rows[:1], sender=label_sender)


def test_many_requests_at_once_are_committed_together_in_their_order(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(200, 0.3, 5)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(hub.decide(f"s{i % 3}", rows_of(rows[i : i + 1]), ANYONE) for i in range(200)))

    answers = asyncio.run(all_at_once())
    for stream in range(3):
        assert [answer.first_row for answer in answers[stream::3]] == list(range(len(answers[stream::3])))
        online = obil.OnlineClassifier(hub.model)
        for i in range(stream, 200, 3):
            online.decide(rows[i])
        prior = online_of(hub, f"s{stream}").prior  # scores of one and of many agree to 1e-6
        np.testing.assert_allclose(prior, online.prior, rtol=1e-6)


def test_a_bad_row_is_refused_and_nothing_is_changed(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(30, 0.3, 6)
    decide(hub, rows)
    before = state_of(hub)
    for bad in (rows[:2, :2], np.array([["x", "y", "z"]])):
        with pytest.raises(BadInputError):
            decide(hub, bad)
    with pytest.raises(BadInputError, match="classes"):
        label(hub, [Label(1, 1), Label(2, "fraud")])
    with pytest.raises(BadInputError, match="propensity"):
        label(hub, [Label(1, 1), Label(2, 1, 0.0)])
    with pytest.raises(UnknownStreamError):
        label(hub, [Label(1, 1)], stream="nowhere")
    with pytest.raises(BadInputError):
        asyncio.run(hub.change("shop", {"name": "magic"}, ANYONE))
    assert state_of(hub) == before


def test_a_request_that_is_refused_makes_no_stream(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(3, 0.3, 6)
    with pytest.raises(BadInputError):
        decide(hub, rows[:, :2])
    assert asyncio.run(hub.page()).total == 0
    made = asyncio.run(hub.create("clinic", StreamSettings(), ANYONE))
    with pytest.raises(BadInputError):
        decide(hub, rows[:, :2], stream="clinic")
    assert asyncio.run(hub.detail("clinic")).seq == made.seq == 1


def held_up(live: LiveStream, _session: Writing, _at: float) -> None:
    """Keep the thread that writes busy, so that what is asked meanwhile shares the next transaction."""
    time.sleep(0.3)


def test_looking_at_a_stream_does_not_let_a_refused_request_make_it(start: Start) -> None:
    hub, (values, _) = start(), gaussian_rows(3, 0.3, 2)

    async def refused_and_looked_at() -> list[Any]:
        await hub.decide("shop", rows_of(values), ANYONE)
        hub._writer.submit("shop", held_up)
        asked = hub.decide("new", rows_of(np.full((1, 3), np.nan)), ANYONE), hub.detail("new")
        return await asyncio.gather(*asked, return_exceptions=True)

    refused, unknown = asyncio.run(refused_and_looked_at())
    assert isinstance(refused, BadInputError)
    assert isinstance(unknown, UnknownStreamError)
    assert hub._store.stream("new") is None


def test_a_request_that_fails_by_a_bug_fails_alone(start: Start) -> None:
    hub, (values, _) = start(), gaussian_rows(3, 0.3, 2)

    def half_done(live: LiveStream, session: Writing, at: float) -> None:
        live.decide(score(rows_of(values), live.online.model), ANYONE, session, at)
        raise KeyError("a bug")

    async def together() -> Any:
        await hub.decide("shop", rows_of(values), ANYONE)
        hub._writer.submit("shop", held_up)
        failing = hub._writer.submit("shop", half_done)
        decided = await asyncio.gather(*(hub.decide(name, rows_of(values), ANYONE) for name in ("shop", "clinic")))
        return failing, decided

    failing, decided = asyncio.run(together())
    assert isinstance(failing.exception(timeout=10.0), KeyError)
    assert [one.first_row for one in decided] == [3, 0]  # half of what failed was undone


def test_a_stream_can_be_made_in_advance_with_its_own_settings(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(30, 0.3, 7)
    wanted = StreamSettings(policy={"name": "recall", "recall": 0.9}, tracker="bank", prior=0.3, horizon=5)
    made = asyncio.run(hub.create("clinic", wanted, Sender(by="ann")))
    assert made.settings["policy"] == {"name": "recall", "recall": 0.9}
    assert made.settings["tracker"] == "bank"
    assert made.start_prior["1"] == pytest.approx(0.3)
    twin = asyncio.run(hub.create("twin", StreamSettings(**made.settings, prior=made.start_prior), ANYONE))
    assert (twin.settings, twin.start_prior) == (made.settings, made.start_prior)
    assert asyncio.run(hub.create("clinic", wanted, ANYONE)).seq == made.seq
    with pytest.raises(StreamExistsError):
        asyncio.run(hub.create("clinic", StreamSettings(), ANYONE))
    with pytest.raises(BadInputError, match="tracker"):
        asyncio.run(hub.create("other", StreamSettings(tracker="magic"), ANYONE))
    decide(hub, rows, stream="clinic")
    changed = asyncio.run(hub.change("clinic", {"name": "gmean"}, Sender(by="bob")))
    detail = asyncio.run(hub.detail("clinic"))
    assert (changed.row, changed.by, detail.changes[0].by) == (30, "bob", "bob")
    assert detail.changes[0].after == {"name": "gmean"}
    page = asyncio.run(hub.page())
    assert [one.name for one in page.streams] == ["clinic", "twin"]
    assert page.total == 2


def test_a_full_disk_refuses_and_loses_nothing_that_was_acknowledged(kind: str, start: Start) -> None:
    if not kind.startswith("sqlite"):
        pytest.skip("only SQLite's size can be bounded from here")
    hub, (rows, _) = start(), gaussian_rows(4_000, 0.3, 8)
    decide(hub, rows[:100])
    before = state_of(hub)
    writer = hub._store._database._writer
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(NotStoredError):
        decide(hub, rows)
    assert state_of(hub) == before
    writer.execute("PRAGMA max_page_count = 1000000")
    assert decide(hub, rows[:10]).first_row == 100


def test_a_new_model_takes_over_and_the_prior_survives(folder: Path, start: Start, tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    copy_files(folder, served)
    hub, (rows, _) = start(folder=served), gaussian_rows(2_000, 0.4, 9)
    first = decide(hub, rows)
    prior = asyncio.run(hub.detail("shop")).prior
    copy_files(saved_model(tmp_path / "newer", seed=1, views=bool(hub.model.view_members)), served)
    card = asyncio.run(hub.reload_model(ANYONE))
    assert card.version != first.model
    after = decide(hub, rows[:10])
    assert after.model == card.version
    np.testing.assert_allclose(after.decisions.effective_priors[0, 1], prior["1"], atol=0.02)
    state = state_of(hub)
    hub.close()
    again = start(folder=served)
    assert state_of(again) == state
    (served / "manifest.json").write_text("{}")
    with pytest.raises(ModelRefusedError):
        asyncio.run(again.reload_model(ANYONE))
    assert decide(again, rows[:1]).model == card.version


def test_a_folder_that_is_refused_is_an_error_at_start_although_the_store_has_an_older_version(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(start(), gaussian_rows(5, 0.3, 14)[0])

    def refuse(_registry: ModelRegistry) -> str:
        raise ModelRefusedError("the gate refuses this model")

    monkeypatch.setattr(ModelRegistry, "take_from_folder", refuse)
    with pytest.raises(ModelRefusedError, match="the gate refuses"):
        start()


def copy_files(source: Path, target: Path) -> None:
    for path in target.iterdir():
        path.unlink()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def test_erases_decisions_by_id_from_log_and_memory(start: Start, url: str) -> None:
    hub, (rows, _) = start(store_inputs=True), gaussian_rows(100, 0.3, 10)
    names = [f"person {i}" for i in range(100)]
    asyncio.run(hub.decide("shop", Rows(rows, 100, names, rows.tolist()), ANYONE))
    label(hub, [Label("person 7", 1), Label("person 8", 0)])
    prior = asyncio.run(hub.detail("shop")).prior
    assert asyncio.run(hub.forget("shop", ["person 7", "person 9", "nobody"], ANYONE)) == 2
    store = open_store(url)
    row = store.stream("shop")
    assert row is not None
    events = store.log(row.id)
    store.close()
    log = b"".join(event.payload for event in events)
    assert b'"person 6"' in log
    assert str(rows[6, 0]).encode() in log
    for erased in (b'"person 7"', b'"person 9"', *(str(rows[i, 0]).encode() for i in (7, 9))):
        assert erased not in log
    kept = read_rows(next(event.payload for event in events if event.kind == DECIDED))
    assert kept.evidence is not None
    gone = np.isin(np.arange(100), [7, 9])
    for scores in (kept.log_ratios[:, 1:], kept.evidence[:, :, 1:]):
        assert not scores[gone].any()
        assert scores[~gone].any(axis=tuple(range(1, scores.ndim))).all()
    np.testing.assert_array_equal(kept.evidence[~gone], hub.model.score(rows).evidence_from(0)[~gone])
    assert label(hub, [Label("person 7", 1), Label("person 9", 1)]).known == 0
    state = state_of(hub)
    assert asyncio.run(hub.detail("shop")).prior == prior
    hub.close()
    assert state_of(start()) == state


def test_erases_a_label_whose_decision_was_never_made_or_is_not_kept_any_more(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(3, 0.3, 10)
    asyncio.run(hub.decide("shop", rows_of(rows, ["a", "b", "c"]), ANYONE))
    label(hub, [Label("person 1", 1), Label("a", 0)])
    assert asyncio.run(hub.forget("shop", ["person 1"], ANYONE)) == 1
    assert asyncio.run(hub.forget("shop", ["person 1"], ANYONE)) == 0
    row = hub._store.stream("shop")
    assert row is not None
    log = b"".join(event.payload for event in hub._store.log(row.id))
    assert b"person 1" not in log
    assert b'"a"' in log


def test_what_is_erased_leaves_the_files_of_the_store(start: Start, url: str) -> None:
    if url.startswith("postgresql"):
        pytest.skip("a server's files are its own")
    hub, (rows, _) = start(), gaussian_rows(3, 0.3, 10)
    asyncio.run(hub.decide("shop", rows_of(rows, ["person 1", "person 2", "person 3"]), ANYONE))

    def kept(name: bytes) -> bool:
        return any(name in path.read_bytes() for path in Path(url).parent.glob("streams.db*"))

    assert kept(b"person 1")
    asyncio.run(hub.forget("shop", ["person 1"], ANYONE))
    assert not kept(b"person 1")
    assert kept(b"person 2")
    asyncio.run(hub.delete("shop", ANYONE))
    assert not kept(b"person 2")


def test_erases_old_events_of_a_stream_that_never_rests(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(8, 0.3, 10)
    asyncio.run(hub.decide("shop", rows_of(rows[:5], list("abcde")), ANYONE))
    asyncio.run(hub.change("shop", {"name": "gmean"}, ANYONE))
    state, row = state_of(hub), hub._store.stream("shop")
    assert row is not None
    assert hub.prune(time.time() - 60.0) == 0
    assert hub.prune(time.time() + 60.0) == 1
    assert [event.kind for event in hub._store.log(row.id)] == ["created", "settings"]
    hub.close()
    again = start()
    assert state_of(again) == state
    assert asyncio.run(again.decide("shop", rows_of(rows[5:]), ANYONE)).first_row == 5


def test_deletes_a_stream_and_may_make_it_again(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(20, 0.3, 11)
    decide(hub, rows)
    asyncio.run(hub.delete("shop", ANYONE))
    with pytest.raises(UnknownStreamError):
        asyncio.run(hub.detail("shop"))
    assert decide(hub, rows[:1]).first_row == 0


def test_tells_the_history_of_a_stream(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(3_000, 0.4, 12)
    for part in np.array_split(np.arange(3_000), 20):
        decide(hub, rows[part])
    series = asyncio.run(hub.history("shop", points=5))
    assert len({len(column) for column in series.columns.values()}) == 1
    assert 3 <= len(series.columns["row"]) <= 5
    assert series.columns["row"][-1] == 3_000
    prior = asyncio.run(hub.detail("shop")).prior["1"]
    assert series.columns["prior"][-1] == pytest.approx(prior)
    assert series.columns["low"][-1] < prior < series.columns["high"][-1]
    now = asyncio.run(hub.detail("shop")).performance["now"]
    assert series.columns["precision"][-1] == pytest.approx(now["precision"]["value"], abs=0.02)
    assert series.columns["recall"][-1] == pytest.approx(now["recall"]["value"], abs=0.02)
    empty = asyncio.run(hub.history("shop", end=1.0))
    assert empty.columns["row"] == []


def test_a_figure_that_nothing_bounds_is_null_in_json_and_its_source_says_unknown(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(400, 0.001, 12)
    decide(hub, rows)
    performance = json.loads(json_bytes(asyncio.run(hub.detail("shop"))))["performance"]
    precision = performance["now"]["precision"]
    assert (precision["value"], precision["source"]) == (None, "unknown")
    assert 0.5 < precision["high"] - precision["low"] < 1.0
    assert performance["now"]["recall"]["source"] == "expected"
    assert performance["now"]["recall"]["value"] > 0.0
    assert performance["text"].startswith("Now: precision unknown, recall ")


def test_rows_that_wait_together_are_decided_together_and_just_the_same(start: Start) -> None:
    hub, (rows, _) = start(), gaussian_rows(60, 0.3, 13)
    bad = np.full((1, 3), np.inf)  # what the model refuses must not take its neighbours along

    async def all_at_once() -> list[Any]:
        asked = [hub.decide("shop", rows_of(rows[i : i + 1]), ANYONE) for i in range(30)]
        asked += [
            hub.decide("shop", rows_of(rows[30:32], ["a", "b"]), ANYONE),
            hub.decide("shop", rows_of(bad), ANYONE),
        ]
        asked += [hub.decide("shop", rows_of(rows[i : i + 1]), ANYONE) for i in range(32, 60)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(all_at_once())
    refused = [answer for answer in answers if isinstance(answer, BadInputError)]
    decided = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(refused) == 1
    assert [answer.first_row for answer in decided] == [*range(31), *range(32, 60)]
    assert decided[30].decisions.ids == ["a", "b"]
    online = obil.OnlineClassifier(hub.model)
    for answer in decided:
        part = rows[answer.first_row : answer.first_row + len(answer.decisions)]
        one = online.decide_scores(hub.model.score(part), ids=answer.decisions.ids)
        np.testing.assert_allclose(answer.decisions.effective_priors, one.effective_priors, rtol=1e-9)
    row = hub._store.stream("shop")
    assert row is not None
    assert row.seq < 60
