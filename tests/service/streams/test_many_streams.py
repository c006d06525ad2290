"""Many streams whose requests wait together decide as if each were alone."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import obil
from obil.service.refusals import BadInputError
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Decided, Label, Rows, Sender, StreamSettings
from obil.service.streams.replay import replay
from obil.service.streams.stream_hub import StreamHub
from obil.serving.ratio_model import RatioModel
from tests.service.models import gaussian_rows, saved_model
from tests.thorough import repeats

ANYONE = Sender()
COLUMNS = ("numbers", "effective_priors", "posteriors", "thresholds", "log_ratios", "evidence", "trusted", "reachable")


@pytest.fixture(scope="module", params=["plain", "views"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model", views=request.param == "views")


def hub_on(folder: Path, path: Path, **settings: Any) -> StreamHub:
    store = open_store(str(path))
    return StreamHub(store, ModelRegistry(folder, store), **settings)


def rows_of(values: np.ndarray) -> Rows:
    return Rows(values, len(values))


def settings_of(number: int) -> StreamSettings:
    """Return settings of three kinds, so that streams that wait together do not all have the same."""
    if number % 3 == 1:
        return StreamSettings(tracker="bank", prior=0.3)
    if number % 3 == 2:
        return StreamSettings(horizon=40, unlabeled_as="negative", policy={"name": "fbeta", "beta": 1.0})
    return StreamSettings()


def online_like(number: int, model: RatioModel) -> obil.OnlineClassifier:
    if number % 3 == 1:
        return obil.OnlineClassifier(model, tracker=obil.trackers.BayesBank(), prior=0.3)
    if number % 3 == 2:
        return obil.OnlineClassifier(model, horizon=40, unlabeled_as="negative", policy="f1")
    return obil.OnlineClassifier(model)


def test_streams_decide_as_single_classifiers_a_fleet_and_their_logs_through_page_outs_and_a_restart(
    folder: Path, tmp_path: Path
) -> None:
    n_streams, n_rows, path = 100, repeats(200, 2_000), tmp_path / "streams.db"
    hub = hub_on(folder, path, max_streams=30)  # most leave memory between two of their requests
    assert hub.model.batch_invariant  # so that the bits of a score do not depend on who waits beside it
    rows, labels = gaussian_rows(n_streams * n_rows, 0.3, 1)
    rows, labels = rows.reshape(n_streams, n_rows, -1), labels.reshape(n_streams, n_rows)
    onlines = [online_like(number, hub.model) for number in range(n_streams)]
    fleet, in_fleet = obil.OnlineFleet(hub.model, most_in_memory=20, store={}), range(0, n_streams, 3)  # of one kind

    async def decide_and_label(hub: StreamHub, first: int, end: int) -> None:
        asked = [
            hub.decide(f"s{number}", rows_of(part), ANYONE)
            for number in range(n_streams)
            for part in np.split(rows[number, first:end], [1, 2])  # two single rows, and some together
        ]
        told = {i: int(i) % 7 < 3 for i in range(max(first - 20, 0), end - 20)}
        answers = await asyncio.gather(*asked)
        for number, online in enumerate(onlines):
            for answer in answers[3 * number : 3 * number + 3]:
                require_as_alone(answer, online, rows[number])
        late = {
            number: [Label(i, int(labels[number, i]), 0.5) for i in told if told[i] and i % 3 == number % 3]
            for number in range(n_streams)
        }
        await asyncio.gather(*(hub.label(f"s{number}", own, ANYONE) for number, own in late.items() if own))
        for number, own in late.items():
            for one in own:
                onlines[number].feedback(one.id, one.label, propensity=one.propensity)
        place, number = np.divmod(np.arange((end - first) * len(in_fleet)), len(in_fleet))  # in turns
        number *= 3
        fleet.decide_many(rows[number, first + place], keys=number.tolist())
        for number in in_fleet:
            for one in late[number]:
                fleet.feedback(number, one.id, one.label, propensity=one.propensity)
            assert fleet[number].state() == onlines[number].state()  # at every checkpoint

    async def create(hub: StreamHub) -> None:
        await asyncio.gather(*(hub.create(f"s{number}", settings_of(number), ANYONE) for number in range(n_streams)))

    asyncio.run(create(hub))
    n_turns, n_together = 10, n_rows // 10
    for turn in range(n_turns):
        if turn == n_turns // 2:
            hub.close()
            hub = hub_on(folder, path, max_streams=30)
        asyncio.run(decide_and_label(hub, n_together * turn, n_together * (turn + 1)))
    states = [
        hub._writer.submit(f"s{number}", lambda live, _session, _at: live.online.state()).result()
        for number in range(n_streams)
    ]
    hub.close()
    store = open_store(str(path))
    models = ModelRegistry(folder, store)
    for number, online in enumerate(onlines):
        row = store.stream(f"s{number}")
        assert row is not None
        assert (row.n_rows, row.n_alerts > 0) == (n_rows, True)
        assert replay(None, store.log(row.id), models.get).state() == online.state() == states[number]
    store.close()


def require_as_alone(answer: Decided, online: obil.OnlineClassifier, rows: np.ndarray) -> None:
    first = online.n_rows
    assert answer.first_row == first
    expected = online.decide_many(rows[first : first + len(answer.decisions)])
    assert list(answer.decisions.ids) == list(expected.ids)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(answer.decisions, name), getattr(expected, name))


def test_rows_of_many_streams_are_scored_in_one_call_and_a_bad_one_is_refused_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, (rows, _) = hub_on(folder, tmp_path / "streams.db"), gaussian_rows(40, 0.3, 5)
    sizes: list[int] = []
    score = RatioModel.score

    def counted(model: RatioModel, X: Any, **given: Any) -> Any:
        sizes.append(len(X))
        return score(model, X, **given)

    async def all_at_once(values: np.ndarray) -> list[Any]:
        hub._writer._last_size = len(values)  # as if as many had come together before
        asked = (hub.decide(f"s{i}", rows_of(values[i : i + 1]), ANYONE) for i in range(len(values)))
        return await asyncio.gather(*asked, return_exceptions=True)

    monkeypatch.setattr(RatioModel, "score", counted)
    answers = asyncio.run(all_at_once(rows))
    assert sum(sizes) == 40
    assert max(sizes) >= 20  # a few may have come before the others
    rows[7] = np.inf
    again = asyncio.run(all_at_once(rows))
    hub.close()
    assert [i for i, one in enumerate(again) if isinstance(one, BadInputError)] == [7]
    assert [one.first_row for i, one in enumerate(again) if i != 7] == [1] * 39
    log_ratios = np.concatenate([one.decisions.log_ratios for one in answers])
    np.testing.assert_array_equal(log_ratios[:7], score(hub.model, rows[:7]).log_ratios)


def test_a_stream_that_leaves_memory_after_each_row_has_no_point_of_its_history_for_each(
    folder: Path, tmp_path: Path
) -> None:
    hub, (rows, _) = hub_on(folder, tmp_path / "streams.db", max_streams=1), gaussian_rows(12, 0.3, 6)
    for i in range(12):
        for name in ("north", "south"):
            asyncio.run(hub.decide(name, rows_of(rows[i : i + 1]), ANYONE))
    assert asyncio.run(hub.history("north")).columns["row"] == [1.0]
    hub.close()


def test_only_the_least_recently_used_streams_leave_memory_and_idle_ones_by_themselves(
    folder: Path, tmp_path: Path
) -> None:
    hub, (rows, _) = hub_on(folder, tmp_path / "streams.db", max_streams=3), gaussian_rows(1, 0.3, 7)

    def in_memory_after(*names: str) -> list[str]:
        for name in names:
            asyncio.run(hub.decide(name, rows_of(rows), ANYONE))
        # once the next request is refused, those that had to leave have left
        assert hub._writer.submit("unknown", lambda _live, _session, _at: None).exception(timeout=30.0) is not None
        return list(hub._writer._streams)

    assert in_memory_after("a", "b", "c") == ["a", "b", "c"]
    assert in_memory_after("a", "d") == ["c", "a", "d"]
    assert in_memory_after("c") == ["a", "d", "c"]
    hub._writer._idle_seconds = 0.0
    assert in_memory_after("b") == []
    hub.close()
