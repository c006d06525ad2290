"""New keys of a fleet start where the others' priors lie, and what a key decides follows from its rows and the log."""

import json
from typing import Any

import numpy as np
import pytest

from obil import OnlineClassifier, OnlineFleet, estimate_prior
from obil.arrays import FloatArray
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.fleet_level import FleetLevel
from obil.online.segments import SegmentEstimates, estimate_segments
from obil.trackers import BayesBank
from obil.trackers.evidence import BinaryEvidence
from tests.online.cases import pair_model, pair_scores, triangle_model, triangle_scores

PAIR, TRIANGLE = pair_model(), triangle_model()
N_ROWS = 60  # of a key


def drawn(n_keys: int, *, seed: int = 0, first: int = 0) -> tuple[FloatArray, list[str]]:
    """Rows of keys whose priors are drawn from Beta(2, 38), by key."""
    priors = np.random.default_rng(seed).beta(2.0, 38.0, n_keys)
    rows = np.concatenate([pair_scores(N_ROWS, prior, 1_000 * seed + i) for i, prior in enumerate(priors)])
    return rows[:, None], [f"branch {first + i // N_ROWS}" for i in range(len(rows))]


def labelled(fleet: OnlineFleet, keys: list[str], *, seed: int = 0) -> None:
    """Label every second row of each key; a tenth of the labels are frauds."""
    rng = np.random.default_rng(seed)
    for row in range(0, len(keys), 2):
        assert fleet.feedback(keys[row], row, "fraud" if rng.random() < 0.1 else "fine")


def interleaved(n: int, seed: int) -> Any:
    """An order of the rows of `drawn` in which those of each key come as they do there."""
    owner = np.repeat(np.arange(n // N_ROWS), N_ROWS)
    shuffled = np.random.default_rng(seed).permutation(owner)
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(shuffled, kind="stable")] = np.arange(n)
    return order


@pytest.mark.parametrize("settings", [{}, {"tracker": BayesBank()}])
@pytest.mark.parametrize("n_keys", [40, 5])  # decided together, or key by key
def test_new_keys_start_at_the_level_and_older_ones_stay(settings: dict[str, Any], n_keys: int) -> None:
    rows, keys = drawn(n_keys)
    fleet = OnlineFleet(PAIR, common_level=True, **settings)
    fleet.decide_many(rows, keys=keys, ids=range(len(rows)))
    if not settings:
        labelled(fleet, keys)
    level = fleet.update_common_level()
    assert level is not None
    assert fleet.common_levels == (level,)
    assert (level.n_keys, level.n_rows) == (n_keys, len(rows) if settings else len(rows) // 2)
    later, more = drawn(n_keys, seed=1, first=n_keys)
    both = fleet.decide_many(np.concatenate([rows, later]), keys=keys + more)
    truth = 0.05 if settings else 0.1  # as the rows show it, or the labels
    for at, known in ((level.prior, more[0]), (PAIR.prior_, keys[0])):
        own = [i for i, key in enumerate(keys + more) if key == known]
        tracker = None
        if settings:
            tracker = BayesBank(start_rows=np.clip(level.size, 10.0, 800.0)) if known == more[0] else BayesBank()
        alone = OnlineClassifier(PAIR, prior=np.array(at), tracker=tracker)
        if known == keys[0]:
            before = [i for i in own if i < len(keys)]
            alone.decide_many(rows[before], ids=before)
            rng = np.random.default_rng(0)
            for row in range(0, N_ROWS, 2) if not settings else ():
                alone.feedback(row, "fraud" if rng.random() < 0.1 else "fine")
        expected = alone.decide_many(np.concatenate([rows, later])[own])
        assert np.array_equal(both.effective_priors[own], expected.effective_priors)
        assert fleet[known].state() == alone.state()
    assert abs(level.prior[1] - truth) < 0.03
    assert abs(level.prior[1] - truth) < abs(PAIR.prior_[1] - truth) / 2


@pytest.mark.parametrize("model", [PAIR, TRIANGLE])
def test_a_level_is_the_same_bits_however_the_keys_are_interleaved(model: Any) -> None:
    rows, keys = drawn(8)
    if model is TRIANGLE:
        rows = triangle_scores(len(rows), [0.5, 0.3, 0.2], 1)
    levels = set()
    for seed in range(3):
        fleet = OnlineFleet(model, common_level=True, tracker=BayesBank())
        order = interleaved(len(rows), seed)
        for part in np.array_split(order, seed * 7 + 1):
            fleet.decide_many(rows[part], keys=[keys[row] for row in part])
        levels.add(fleet.update_common_level())
    assert len(levels) == 1


def test_a_level_of_labels_depends_on_the_labels_of_each_key_alone() -> None:
    rows, keys = drawn(40)
    levels = set()
    store: dict[str, bytes] = {}
    for seed, stored in ((0, {}), (1, {"store": store, "most_in_memory": 3})):
        fleet = OnlineFleet(PAIR, common_level=True, **stored)  # type: ignore[arg-type]
        order = interleaved(len(rows), seed)
        fleet.decide_many(rows[order], keys=[keys[row] for row in order], ids=[int(row) for row in order])
        assert fleet.update_common_level() is None  # rows alone move no prior here
        for row in order.tolist()[::-1]:
            if row % N_ROWS == 7:
                fleet.feedback(keys[row], row, "fraud" if row < 5 * N_ROWS else "fine")
        levels.add(fleet.update_common_level())
    assert len(levels) == 1
    (level,) = levels
    assert level is not None
    assert (level.n_keys, level.n_rows) == (40, 40)
    assert abs(level.prior[1] - 5 / 40) < 0.04
    found = estimate_segments({str(i): BinaryEvidence.of([[0.0, 30.0 if i < 5 else -30.0]]) for i in range(40)})
    assert abs(level.prior[1] - found.mean[1]) < 1e-6


def test_more_rows_than_a_block_are_added_up_in_the_same_order() -> None:
    rows, keys = pair_scores(1_500, 0.05, 3)[:, None], ["a", "b", "a"] * 500
    levels = set()
    for cuts in (1, 13, 400):
        fleet = OnlineFleet(PAIR, common_level=True, tracker=BayesBank())
        for part in np.array_split(np.arange(1_500), cuts):
            fleet.decide_many(rows[part], keys=[keys[row] for row in part])
        levels.add(fleet.update_common_level())
    assert len(levels) == 1
    (level,) = levels
    assert level is not None
    assert level.n_rows == 1_500


def test_keys_are_estimated_as_segments_are() -> None:
    rows, keys = drawn(30)
    fleet = OnlineFleet(PAIR, common_level=True)
    fleet.decide_many(rows, keys=keys)
    found, expected = fleet.estimate_priors(), estimate_prior(PAIR, rows, by=keys)
    assert isinstance(expected, SegmentEstimates)
    assert list(found) == list(expected)
    for key in found:
        assert np.allclose(found[key].prior, expected[key].prior, atol=1e-9)
        assert np.allclose(found[key].interval, expected[key].interval, atol=1e-9)


def test_keys_that_moved_are_named() -> None:
    moved = {"branch 3", "branch 11"}
    rows, keys = drawn(20)
    for key in moved:
        own = [row for row, one in enumerate(keys) if one == key]
        rows[own] = pair_scores(N_ROWS, 0.6, 77)[:, None]
    fleet = OnlineFleet(PAIR, common_level=True, tracker=BayesBank())
    assert fleet.deviating() == ()
    fleet.decide_many(rows, keys=keys)
    assert set(fleet.deviating(0.01)) == moved
    fleet.update_common_level()
    assert fleet.deviating() == ()  # nothing is known since


def test_rows_of_a_single_key_count_wherever_they_are_decided() -> None:
    rows, _ = drawn(2)
    fleets = [OnlineFleet(PAIR, common_level=True, tracker=BayesBank()) for _ in range(2)]
    fleets[0].decide_many(rows[:40], keys=["a", "b"] * 20)
    for i, row in enumerate(rows[:40]):
        fleets[1].decide(row, key="ab"[i % 2])
    for fleet in fleets:
        fleet["a"].decide_many(rows[40:60])
        fleet["a"].decide(rows[60])
    assert fleets[0].update_common_level() == fleets[1].update_common_level()
    assert fleets[0].common_levels[0].n_rows == 61


def test_rows_after_an_alarm_are_left_out_and_so_is_a_forgotten_key() -> None:
    rows, _ = drawn(2)
    odd = np.tile([[1.0]], (4_000, 1))  # a score in the middle, again and again: no prior explains it
    fleet = OnlineFleet(PAIR, common_level=True)
    decided = fleet.decide_many(np.concatenate([rows, odd]), keys=["a", "b"] * 60 + ["odd"] * 4_000)
    assert not fleet["odd"].trusted
    assert fleet.estimate_priors().common.n_rows == int(decided.trusted.sum()) < 4_000
    assert fleet.forget("odd")
    assert fleet.estimate_priors().common.n_rows == 120


def test_streams_in_a_store_keep_the_level_they_started_at() -> None:
    rows, keys = drawn(40)
    store: dict[str, bytes] = {}
    kept = OnlineFleet(PAIR, common_level=True, tracker=BayesBank())
    stored = OnlineFleet(PAIR, common_level=True, tracker=BayesBank(), store=store, most_in_memory=3)
    later, more = drawn(40, seed=1, first=20)
    for fleet in (kept, stored):
        fleet.decide_many(rows, keys=keys)
        fleet.update_common_level()
        fleet.decide_many(later, keys=more)
        fleet.update_common_level()
        fleet.policy = "recall:0.9"
        fleet.decide_many(rows, keys=[f"{key} of the third" for key in keys])
    stored.flush()
    saved = json.dumps([level.to_json() for level in kept.common_levels])
    levels = [FleetLevel.from_json(record) for record in json.loads(saved)]
    assert stored.common_levels == kept.common_levels == tuple(levels)
    assert len(levels) == 2
    settings: dict[str, Any] = {"store": store, "most_in_memory": 50, "policy": "recall:0.9", "tracker": BayesBank()}
    again = OnlineFleet(PAIR, common_level=levels, **settings)
    for key in kept:
        assert again[key].state() == kept[key].state()
    again.decide(rows[0], key="new")
    assert again["new"].tracker.start_prior.tolist() == list(levels[1].prior)  # type: ignore[attr-defined]
    with pytest.raises(InvalidStateError, match="another start prior"):
        OnlineFleet(PAIR, **settings)["branch 59"].n_rows


def test_a_level_needs_two_keys_and_a_fleet_that_compares_them() -> None:
    rows, keys = drawn(2)
    fleet = OnlineFleet(PAIR, common_level=True, tracker=BayesBank())
    assert fleet.update_common_level() is None
    fleet.decide_many(rows[:5], keys=["a"] * 5)
    assert fleet.update_common_level() is None
    fleet.decide_many(rows, keys=keys)
    level = fleet.update_common_level()
    assert level is not None
    assert level.n_rows == 5 + len(rows)  # the rows of the first try are not lost
    assert fleet.update_common_level() == level
    for ask in (OnlineFleet(PAIR).update_common_level, OnlineFleet(PAIR).deviating):
        with pytest.raises(InvalidInputError, match="make it with common_level=True"):
            ask()


@pytest.mark.parametrize("record", [{}, [], {"prior": [0.5, 0.6], "size": 1.0, "n_keys": 1, "n_rows": 2}])
def test_a_record_that_is_no_level_is_refused(record: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"common level|sum to 1"):
        FleetLevel.from_json(record)
