"""A fleet decides each key as a classifier of its own would, wherever the key's stream is kept."""

from typing import Any

import numpy as np
import pytest

from obil import Costs, OnlineClassifier, OnlineFleet
from obil.arrays import FloatArray
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers import BayesBank
from tests.online.cases import pair_model, pair_scores, triangle_model, triangle_scores

PAIR, TRIANGLE = pair_model(), triangle_model()


def pair_rows(n: int) -> FloatArray:
    return pair_scores(n, 0.1, 1)[:, None]


def triangle_rows(n: int) -> FloatArray:
    return triangle_scores(n, [0.5, 0.3, 0.2], 1)


def drawn_keys(n_rows: int, n_keys: int, *, seed: int = 0) -> list[str]:
    return [f"branch {number}" for number in np.random.default_rng(seed).integers(0, n_keys, n_rows)]


def rows_of(keys: list[str], key: str) -> list[int]:
    return [row for row, one in enumerate(keys) if one == key]


@pytest.mark.parametrize("model", [PAIR, TRIANGLE])
@pytest.mark.parametrize("settings", [{}, {"horizon": 0, "monitor": False, "tracker": BayesBank()}])
def test_each_key_is_decided_bit_for_bit_as_alone(model: Any, settings: dict[str, Any]) -> None:
    rows = (pair_rows if model is PAIR else triangle_rows)(3_000)
    keys = drawn_keys(3_000, 300)  # more than are at hand as objects
    fleet = OnlineFleet(model, **settings)
    decided = [fleet.decide_many(rows[part], keys=keys[part]) for part in (slice(0, 1_300), slice(1_300, 3_000))]
    priors = np.concatenate([part.effective_priors for part in decided])
    labels = np.concatenate([part.labels for part in decided])
    assert len(fleet) == 300
    for key in sorted(set(keys))[:40]:
        own = rows_of(keys, key)
        alone = OnlineClassifier(model, **settings)
        first = alone.decide_many(rows[[row for row in own if row < 1_300]])
        second = alone.decide_many(rows[[row for row in own if row >= 1_300]])
        assert np.array_equal(priors[own], np.concatenate([first.effective_priors, second.effective_priors]))
        assert np.array_equal(labels[own], np.concatenate([first.labels, second.labels]))
        assert fleet[key].state() == alone.state()


def test_labels_reach_the_decision_of_their_key() -> None:
    rows = pair_rows(60)
    fleet, alone = OnlineFleet(PAIR), OnlineClassifier(PAIR)
    fleet.decide_many(rows, keys=["a", "b"] * 30, ids=[f"{i // 2}" for i in range(60)])
    alone.decide_many(rows[::2], ids=[f"{i}" for i in range(30)])
    for name, label in (("3", "fraud"), ("7", "fine"), ("no such row", "fine")):
        assert fleet.feedback("a", name, label) == alone.feedback(name, label)
    assert not fleet.feedback("no such key", "3", "fine")
    assert fleet["a"].state() == alone.state() != fleet["b"].state()
    assert fleet["b"].label_counts.labelled == 0


def test_streams_that_are_not_used_go_to_the_store_and_come_back() -> None:
    rows, keys = pair_rows(2_000), drawn_keys(2_000, 40)
    store: dict[str, bytes] = {}
    kept, stored = OnlineFleet(PAIR), OnlineFleet(PAIR, store=store, most_in_memory=7)
    for part in np.array_split(np.arange(2_000), 10):
        own = [keys[row] for row in part]
        assert np.array_equal(
            kept.decide_many(rows[part], keys=own).effective_priors,
            stored.decide_many(rows[part], keys=own).effective_priors,
        )
    assert len(store) >= 33
    assert len(stored) == len(kept) == len(set(keys)) == len(list(stored))
    again = OnlineFleet(PAIR, store=store, most_in_memory=7)
    stored.flush()
    for key in set(keys):
        assert again[key].state() == kept[key].state()


def test_the_view_of_a_key_stays_valid_when_others_are_used() -> None:
    fleet = OnlineFleet(PAIR)
    fleet.decide_many(pair_rows(600), keys=["x", *(f"{i}" for i in range(599))])
    view = fleet["x"]
    fleet.decide_many(pair_rows(600), keys=[f"{i}" for i in range(600)])  # others push it out
    view.decide(pair_rows(1)[0])
    assert view.n_rows == fleet["x"].n_rows == 2
    with pytest.raises(InvalidInputError, match=r"costs of 'x' cannot be set: .* Set fleet.policy"):
        view.costs = Costs(false_positive=1, false_negative=50)
    assert fleet.forget("x")
    with pytest.raises(KeyError):
        view.decide(pair_rows(1)[0])
    assert "x" not in fleet


def test_a_policy_of_the_fleet_holds_for_every_stream_wherever_it_is_kept() -> None:
    rows, keys = pair_rows(900), drawn_keys(900, 300)
    store: dict[str, bytes] = {}
    fleets = OnlineFleet(PAIR), OnlineFleet(PAIR, store=store, most_in_memory=5)
    single = OnlineClassifier(PAIR)
    own = rows_of(keys, "branch 7")
    for fleet in fleets:
        fleet.decide_many(rows, keys=keys)
        fleet.policy = "recall:0.9"
    single.decide_many(rows[own])
    single.policy = "recall:0.9"
    expected = single.decide_many(rows[own])
    for fleet in fleets:
        decided = fleet.decide_many(rows, keys=keys)
        assert np.array_equal(decided.labels[own], expected.labels)
        assert fleet["branch 7"].policy == single.policy


def test_a_key_that_is_forgotten_starts_anew() -> None:
    fleet = OnlineFleet(PAIR)
    fleet.decide_many(pair_rows(20), keys=["a"] * 20)
    assert fleet.forget("a")
    assert not fleet.forget("a")
    assert "a" not in fleet
    with pytest.raises(KeyError):
        fleet["a"]
    fleet.decide(pair_rows(1)[0], key="a")
    assert fleet["a"].n_rows == 1


def test_bad_input_changes_nothing() -> None:
    fleet = OnlineFleet(PAIR)
    with pytest.raises(InvalidInputError, match="keys must name every row"):
        fleet.decide_many(pair_rows(3), keys=["a"])
    with pytest.raises(InvalidInputError, match="ids must name every row"):
        fleet.decide_many(pair_rows(3), keys=["a"] * 3, ids=["one"])
    for missing in (None, float("nan")):
        with pytest.raises(InvalidInputError, match=r"row 1 \(from 0\) has no key"):
            fleet.decide_many(pair_rows(3), keys=["a", missing, "b"])
    with pytest.raises(InvalidInputError, match="evidence"):
        fleet.decide_log_ratios([[0.0, 1.0]], keys=["a"], evidence=[[[0.0, np.inf]]])
    with pytest.raises(InvalidStateError, match=r"the state of 'a' belongs to a stream with another start prior"):
        OnlineFleet(PAIR, prior=0.5, store={"a": OnlineClassifier(PAIR).state()}, most_in_memory=1)["a"].n_rows
    with pytest.raises(InvalidInputError, match="log_ratios"):
        fleet.decide_log_ratios([[0.0, 1.0], [0.0, np.nan]], keys=["a", "b"])
    with pytest.raises(InvalidInputError, match="store and most_in_memory belong together"):
        OnlineFleet(PAIR, store={})
    with pytest.raises(InvalidInputError, match="most_in_memory must be a positive integer, got 0"):
        OnlineFleet(PAIR, store={}, most_in_memory=0)
    with pytest.raises(InvalidInputError, match="no store"):
        fleet.flush()
    assert len(fleet) == 0
    assert len(fleet.decide_many(pair_rows(3)[:0], keys=[])) == 0
