"""A saved monitor resumes bit for bit; a damaged state, or one of another model, is refused."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from obil.errors import InvalidStateError
from obil.monitor import LabelShiftMonitor
from obil.serving.holdout import Holdout
from tests.monitor.cases import held_out, stream, three_path

ROWS = held_out(np.random.default_rng(0))


def through_json(monitor: LabelShiftMonitor, rows: Holdout = ROWS) -> LabelShiftMonitor:
    return LabelShiftMonitor.from_state(rows, json.loads(json.dumps(monitor.state(), allow_nan=False)))


def saved(*, shift: float = 0.0) -> dict[str, Any]:
    monitor = LabelShiftMonitor(ROWS)
    monitor.update_many(stream(np.random.default_rng(1), np.full(777, 0.05), shift=shift))
    state: dict[str, Any] = json.loads(json.dumps(monitor.state()))
    return state


def refuse(state: Any, rows: Holdout = ROWS) -> None:
    with pytest.raises(InvalidStateError):
        LabelShiftMonitor.from_state(rows, state)


@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_a_restored_monitor_continues_bit_for_bit_at_random_cuts(shift: float) -> None:
    rng = np.random.default_rng(2)
    rows = stream(rng, np.full(2_500, 0.05), shift=shift)
    cuts = np.sort(rng.choice(2_500, size=25, replace=False))
    straight, restored = LabelShiftMonitor(ROWS, alpha=0.01), LabelShiftMonitor(ROWS, alpha=0.01)
    for part in np.split(rows, cuts):
        restored = through_json(restored)
        np.testing.assert_array_equal(restored.update_many(part), straight.update_many(part))
        assert restored.state() == straight.state()
    assert straight.trusted == (shift == 0.0)
    straight.restart()
    restored.restart()
    assert through_json(restored).state() == straight.state()


def test_a_restored_monitor_of_three_classes_continues_row_by_row() -> None:
    rng = np.random.default_rng(3)
    held = held_out(rng, (400, 100, 100))
    straight, restored = LabelShiftMonitor(held), LabelShiftMonitor(held)
    for row in stream(rng, three_path(rng, 120)):
        restored = through_json(restored, held)
        restored.update(row)
        straight.update(row)
        assert restored.state() == straight.state()


def test_a_state_of_another_model_is_refused_and_says_so() -> None:
    state = saved()
    other = ROWS.log_ratios.copy()
    other[5, 1] = np.nextafter(other[5, 1], 9.0)
    for rows in (
        Holdout.of(other, ROWS.labels),
        Holdout.of(ROWS.log_ratios, ROWS.labels, np.full(len(ROWS.labels), 2.0)),
        held_out(np.random.default_rng(4)),
        held_out(np.random.default_rng(4), (400, 100, 100)),
    ):
        with pytest.raises(InvalidStateError, match="other held-out rows"):
            LabelShiftMonitor.from_state(rows, state)


def test_a_state_without_one_of_its_parts_is_refused() -> None:
    state = saved()
    for part in state:
        refuse({key: value for key, value in state.items() if key != part})
        refuse({**state, part: 5})
        refuse({**state, part: None})
    for field in state["memory"]:
        refuse({**state, "memory": {key: value for key, value in state["memory"].items() if key != field}})
    refuse({**state, "memory": {**state["memory"], "more": [0.0]}})
    refuse({**state, "memory": {**state["memory"], 3: [0.0]}})
    refuse({**state, "settings": {**state["settings"], "more": 1}})
    refuse({**state, "settings": {**state["settings"], "alpha": 2.0}})
    refuse({**state, "monitor": "BayesBank"})
    for bad in (None, [], 5, "text"):
        refuse(bad)


def test_a_memory_of_the_wrong_shape_or_kind_is_refused() -> None:
    state = saved()
    for field, values in state["memory"].items():
        wrong: list[Any] = [None, "x", {}, [[["x"]]], [1.0] * (np.size(values) + 1), values[:-1], [*values, values[0]]]
        for damage in wrong:
            refuse({**state, "memory": {**state["memory"], field: damage}})
        for value in (np.nan, np.inf, -np.inf):
            flat = np.array(values, dtype=object)
            flat.flat[0] = value
            refuse({**state, "memory": {**state["memory"], field: flat.tolist()}})


DAMAGES: list[tuple[str, tuple[int, ...], float]] = [
    ("pays", (0, 0), 1.5),  # cash that grows
    ("pays", (3, 2), 30.0),  # a bet that wins under the null
    ("pays", (9, 0), -0.5),
    ("wealths", (0,), -0.1),
    ("wealths", (1,), 0.9),
    ("evidence", (0,), 100.0),  # above its own peak
    ("evidence", (1,), 6.0),  # past the alarm, without one
    ("seen", (0,), -1),
    ("seen", (1,), 778),  # more than were seen
    ("seen", (2,), 5),  # an alarm without evidence
    ("seen", (3,), -1),
    ("fresh", (0,), 400.0),
    ("fresh", (0,), -1.0),
    ("counts", (0, 0), -1.0),
    ("counts", (1, 1), 1e9),
    ("priors", (2, 0), 0.1),
    ("priors", (2, 1), -0.1),
    ("mixing", (1, 1), 0.5),
    ("parts", (0, 0, 0), 0.9),
    ("parts", (0, 1, 0), -1e-3),
    ("paid", (0,), 1.0),  # in a block that has no rows yet
]


@pytest.mark.parametrize(("field", "place", "value"), DAMAGES)
def test_values_no_monitor_could_have_written_are_refused(field: str, place: tuple[int, ...], value: float) -> None:
    state = saved()
    LabelShiftMonitor.from_state(ROWS, state)  # sound before
    values = state["memory"][field]
    for i in place[:-1]:
        values = values[i]
    values[place[-1]] = value
    refuse(state)


@pytest.mark.parametrize("n_rows", [43, 48])
def test_a_monitor_that_bets_in_blocks_resumes_inside_of_one(n_rows: int) -> None:
    rows = stream(np.random.default_rng(4), np.full(400, 0.1))
    whole = LabelShiftMonitor(ROWS, block=8)
    whole.update_many(rows)
    first = LabelShiftMonitor(ROWS, block=8)
    first.update_many(rows[:n_rows])
    resumed = LabelShiftMonitor.from_state(ROWS, first.state())
    for row in rows[n_rows:]:
        resumed.update(row)
    assert resumed.state() == whole.state()
    restarted = LabelShiftMonitor.from_state(ROWS, first.state())
    restarted.restart()
    assert restarted.log_evidence == 0.0
    restarted.update_many(rows[:8])  # the block begins anew
    assert restarted.log_evidence != 0.0


@pytest.mark.parametrize("paid", [0.0, 2.0, 4.0])
def test_what_bets_paid_in_an_open_block_is_held_to_its_rows(paid: float) -> None:
    monitor = LabelShiftMonitor(ROWS, block=8)
    monitor.update_many(stream(np.random.default_rng(4), np.full(43, 0.1)))
    state = monitor.state()
    assert state["memory"]["paid"][0] == 3.0  # cash
    state["memory"]["paid"][0] = paid
    refuse(state)


def test_a_class_that_could_never_return_is_refused() -> None:
    state = saved()
    state["memory"]["mixing"][0] = [1.0, 0.0]  # the kernel would divide by its weight
    refuse(state)


def test_an_alarm_cannot_be_taken_back_by_hand() -> None:
    state = saved(shift=-1.0)
    assert state["memory"]["seen"][2] > 0
    state["memory"]["seen"][2] = 0
    refuse(state)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def test_a_state_with_any_one_value_changed_is_refused_or_still_works() -> None:
    # seed 5: 300 changes of one leaf each; one that passes must leave a monitor that works
    values: list[Any] = [None, True, "x", -1, 0, 1, 3, 2**62, 0.5, 1e-320, 1e308, -1e308, np.nan, [], {}, [0.5, 0.5]]
    rng = np.random.default_rng(5)
    state = saved()
    paths = list(leaves(state))
    rows = stream(rng, np.full(200, 0.05))
    for _ in range(300):
        path, leaf = paths[rng.integers(len(paths))], values[rng.integers(len(values))]
        damaged = copy.deepcopy(state)
        place = damaged
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = leaf
        try:
            monitor = LabelShiftMonitor.from_state(ROWS, damaged)
        except InvalidStateError:
            continue
        monitor.update_many(rows)
        assert np.isfinite(monitor.log_evidence), (path, leaf)
        through_json(monitor)
