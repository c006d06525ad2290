"""What every tracker promises, whatever its mathematics: one suite for all of them."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from obil.errors import InvalidInputError, InvalidStateError, NotStartedError
from obil.trackers import BayesBank
from obil.trackers.restore import restore_tracker
from obil.trackers.tracker import CompiledTracker
from tests.trackers.cases import (
    CASES,
    NAMES,
    TRACKERS,
    assert_in_simplex,
    class_of,
    start_prior,
    started,
    stream,
    through_json,
    unstarted,
)

each_case = pytest.mark.parametrize(("name", "n_classes"), CASES)
each_tracker = pytest.mark.parametrize("name", NAMES)


def test_the_suite_covers_every_tracker() -> None:
    assert {class_of(name) for name in NAMES} == set(TRACKERS.values())


@each_case
def test_many_at_once_equal_one_at_a_time_bit_for_bit(name: str, n_classes: int) -> None:
    rows = stream(330, n_classes, seed=1)
    at_once, one_by_one = started(name, n_classes), started(name, n_classes)
    before_at_once = at_once.update_many(rows)
    before_one_by_one = []
    for row in rows:
        before_one_by_one.append(one_by_one.prior)
        one_by_one.update(row)
    np.testing.assert_array_equal(before_at_once, before_one_by_one)
    assert at_once.state() == one_by_one.state()
    pieces = started(name, n_classes)
    for part in np.split(rows, [0, 1, 7, 99, 100, 200, 201]):
        pieces.update_many(part)
    assert pieces.state() == at_once.state()


@each_case
def test_a_row_does_not_influence_its_own_prior(name: str, n_classes: int) -> None:
    rows = stream(150, n_classes, seed=2)
    other = rows.copy()
    other[-1, 1:] *= -1.0
    first, second = started(name, n_classes), started(name, n_classes)
    priors, others = first.update_many(rows), second.update_many(other)
    np.testing.assert_array_equal(priors, others)  # only the last row differs, and it comes too late
    np.testing.assert_array_equal(priors[0], started(name, n_classes).prior)
    # the grid's first prior is the mean on its 33 points
    np.testing.assert_allclose(priors[0], start_prior(n_classes), atol=0.02 if name.startswith("Grid") else 1e-15)


@each_case
def test_the_prior_moves_with_the_rows_and_only_the_fixed_one_does_not(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    start = tracker.prior
    rows = np.zeros((150, n_classes))
    rows[:, 1] = 3.0
    tracker.update_many(rows)
    if name == "FixedPrior":
        np.testing.assert_array_equal(tracker.prior, start)
    else:
        assert tracker.prior[1] > start[1] + 0.05


@each_case
def test_the_prior_stays_inside_the_simplex(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    assert tracker.n_classes == n_classes
    assert_in_simplex(tracker.update_many(stream(1_000, n_classes, seed=3)))
    assert_in_simplex(tracker.prior)


@each_case
def test_no_rows_change_nothing(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    tracker.update_many(stream(30, n_classes, seed=4))
    before = tracker.state()
    assert tracker.update_many(np.empty((0, n_classes))).shape == (0, n_classes)
    assert tracker.state() == before


@each_case
def test_the_prior_handed_out_is_a_copy(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    before = tracker.state()
    tracker.prior[:] = 99.0
    tracker.state()["memory"]["prior"][0] = 99.0
    tracker.update_many(np.zeros((0, n_classes)))
    assert tracker.state() == before


@each_case
def test_the_prior_is_read_from_the_evidence_and_not_from_what_decides(name: str, n_classes: int) -> None:
    rows, evidence = stream(330, n_classes, seed=18), stream(330, n_classes, seed=19)
    told, shown = started(name, n_classes), started(name, n_classes)
    np.testing.assert_array_equal(told.update_many(rows, evidence=evidence[:, None]), shown.update_many(evidence))
    assert told.state() == shown.state()
    if name != "FixedPrior":
        alone = started(name, n_classes)
        alone.update_many(rows)
        assert alone.state() != told.state()


@each_case
def test_log_ratios_are_their_own_evidence_where_there_is_no_other(name: str, n_classes: int) -> None:
    rows = stream(150, n_classes, seed=20)
    told, alone = started(name, n_classes), started(name, n_classes)
    np.testing.assert_array_equal(told.update_many(rows, evidence=rows[:, None]), alone.update_many(rows))
    assert told.state() == alone.state()


@each_case
def test_evidence_of_many_rows_equals_that_of_one_at_a_time_bit_for_bit(name: str, n_classes: int) -> None:
    rows, evidence = stream(150, n_classes, seed=21), np.stack([stream(150, n_classes, seed=n) for n in (22, 23)], 1)
    at_once, one_by_one = started(name, n_classes), started(name, n_classes)
    before = at_once.update_many(rows, evidence=evidence)
    singly = [one_by_one.update(row, evidence=given) for row, given in zip(rows, evidence.tolist(), strict=True)]
    np.testing.assert_array_equal(before, singly)
    assert at_once.state() == one_by_one.state()
    without_views = started(name, n_classes)  # trackers that use no views ignore them
    without_views.update_many(rows, evidence=evidence[:, :1])
    assert without_views.state() == at_once.state()


@each_case
def test_bad_evidence_is_refused_and_changes_nothing(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    rows = stream(20, n_classes, seed=24)
    evidence = np.stack([rows, rows], axis=1)
    tracker.update_many(rows, evidence=evidence)
    before = tracker.state()
    spoilt = [evidence.copy() for _ in range(4)]
    for bad, value in zip(spoilt, (np.nan, np.inf, -np.inf, 0.5), strict=True):
        bad[-1, 1, 0 if value == 0.5 else 1] = value
    shapes = (evidence[:-1], evidence[:, :0], evidence[..., :1], evidence[0], rows, evidence[None])
    for bad in (*spoilt, *shapes, "x", 0.0, [[[None] * n_classes]] * 20):
        with pytest.raises(InvalidInputError, match="evidence"):
            tracker.update_many(rows, evidence=bad)
        assert tracker.state() == before
    for bad in (*(each[-1] for each in spoilt), evidence[0, :0], rows[0], evidence[:1], "x", 0.0):
        with pytest.raises(InvalidInputError, match="evidence"):
            tracker.update(rows[0], evidence=bad)
        assert tracker.state() == before


def bad_rows(n_classes: int) -> Iterator[Any]:
    good = stream(5, n_classes, seed=5)
    for value in (np.nan, np.inf, -np.inf):
        rows = good.copy()
        rows[-1, 1] = value  # the good rows before it must not count either
        yield rows
    rows = good.copy()
    rows[2, 0] = 0.5
    yield rows
    yield good[:, :-1] if n_classes > 2 else good[:, :1]
    yield np.column_stack([good, good[:, -1]])
    yield good[0]
    yield [["a"] * n_classes]
    yield None


@each_case
def test_bad_rows_are_refused_and_change_nothing(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    tracker.update_many(stream(110, n_classes, seed=6))
    before = tracker.state()
    for rows in bad_rows(n_classes):
        with pytest.raises(InvalidInputError):
            tracker.update_many(rows)
        assert tracker.state() == before


@each_case
def test_a_bad_single_row_is_refused_and_changes_nothing(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    before = tracker.state()
    good = [0.0] * n_classes
    for row in ([0.0] * (n_classes - 1) + [np.nan], [1.0] * n_classes, [*good, 0.0], good[:-1], [good], 0.0, None, "x"):
        with pytest.raises(InvalidInputError):
            tracker.update(row)
        assert tracker.state() == before


def test_a_ragged_single_row_is_refused_as_invalid_input() -> None:
    with pytest.raises(InvalidInputError):
        BayesBank(0.1).update([0.0, [1.0, 2.0]])


@each_case
def test_a_restored_tracker_continues_bit_for_bit_at_every_step(name: str, n_classes: int) -> None:
    tracker, restored = started(name, n_classes), started(name, n_classes)
    for row in stream(130, n_classes, seed=7):  # past the windows and past the first snapshot
        restored = through_json(restored)
        restored.update(row)
        tracker.update(row)
        assert restored.state() == tracker.state()
    many = stream(300, n_classes, seed=8)
    np.testing.assert_array_equal(restored.update_many(many), tracker.update_many(many))
    assert restored.state() == tracker.state()
    ends = tracker.interval()
    if ends is not None:
        np.testing.assert_array_equal(restored.interval(), ends)


@each_case
def test_starting_again_forgets_everything(name: str, n_classes: int) -> None:
    tracker = started(name, n_classes)
    fresh = tracker.state()
    tracker.update_many(stream(200, n_classes, seed=9))
    assert tracker.start(start_prior(n_classes)) is tracker
    assert tracker.state() == fresh


@each_tracker
def test_an_unstarted_tracker_says_so(name: str) -> None:
    tracker = unstarted(name)
    for use in (
        lambda: tracker.prior,
        lambda: tracker.n_classes,
        lambda: tracker.update([0.0, 1.0]),
        lambda: tracker.update_many([[0.0, 1.0]]),
        tracker.state,
    ):
        with pytest.raises(NotStartedError, match=class_of(name).__name__):
            use()
    tracker.start(0.2).update([0.0, 1.0])
    assert_in_simplex(tracker.prior)


@each_tracker
def test_a_start_prior_outside_the_simplex_is_refused_and_changes_nothing(name: str) -> None:
    tracker = started(name, 2)
    tracker.update_many(stream(30, 2, seed=10))
    before = tracker.state()
    for bad in (0.0, 1.0, np.nan, [0.5, 0.6], [1.0], "x"):
        with pytest.raises(InvalidInputError):
            tracker.start(bad)
    assert tracker.state() == before
    after = stream(30, 2, seed=11)
    np.testing.assert_array_equal(tracker.update_many(after), class_of(name).from_state(before).update_many(after))


@pytest.mark.parametrize("name", ["GridFilter", "Algorithm2-inverted", "BBSE"])
def test_a_start_that_the_settings_cannot_serve_changes_nothing(name: str) -> None:
    tracker = started(name, 2)
    tracker.update_many(stream(30, 2, seed=12))
    before = tracker.state()
    with pytest.raises(InvalidInputError):
        tracker.start([0.2, 0.3, 0.5])
    assert tracker.state() == before
    after = stream(30, 2, seed=13)
    np.testing.assert_array_equal(tracker.update_many(after), class_of(name).from_state(before).update_many(after))


@each_tracker
def test_restoring_finds_the_class_by_its_name(name: str) -> None:
    tracker = started(name, 2)
    tracker.update_many(stream(50, 2, seed=14))
    restored = restore_tracker(json.loads(json.dumps(tracker.state())))
    assert type(restored) is type(tracker)
    assert restored.state() == tracker.state()


@pytest.mark.parametrize("bad", [{}, {"tracker": "NoSuch"}, {"tracker": None}, None, [], "BayesBank", {"tracker": []}])
def test_restoring_what_is_no_state_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidStateError):
        restore_tracker(bad)


# --- damaged states -------------------------------------------------------------------------------------------


def saved(name: str, n_classes: int = 2) -> dict[str, Any]:
    tracker = started(name, n_classes)
    tracker.update_many(stream(230, n_classes, seed=15))
    state: dict[str, Any] = json.loads(json.dumps(tracker.state()))
    return state


def refuse(cls: type[CompiledTracker], state: Any) -> None:
    with pytest.raises(InvalidStateError):
        cls.from_state(state)


@each_tracker
def test_a_state_without_one_of_its_parts_is_refused(name: str) -> None:
    cls, state = class_of(name), saved(name)
    for part in ("tracker", "settings", "memory"):
        refuse(cls, {key: value for key, value in state.items() if key != part})
        refuse(cls, {**state, part: 5})
        refuse(cls, {**state, part: None})
    for field in state["memory"]:
        refuse(cls, {**state, "memory": {key: value for key, value in state["memory"].items() if key != field}})
    refuse(cls, {**state, "memory": {**state["memory"], "more": [0.0]}})
    refuse(cls, {**state, "settings": {**state["settings"], "more": 1}})
    nothing: tuple[Any, ...] = (None, [], 5, "text")
    for bad in nothing:
        refuse(cls, bad)


@each_tracker
def test_a_state_without_its_start_prior_is_refused(name: str) -> None:
    state = saved(name)
    for settings_ in ({}, {"prior": None}, {"prior": [0.5, 0.6]}, {"prior": "x"}):
        kept = {key: value for key, value in state["settings"].items() if key != "prior"}
        refuse(class_of(name), {**state, "settings": {**kept, **settings_}})


@each_tracker
def test_a_state_of_another_tracker_is_refused(name: str) -> None:
    state = saved(name)
    for other in TRACKERS.values():
        if other is not class_of(name):
            refuse(other, state)
            refuse(class_of(name), {**state, "tracker": other.__name__})


@each_tracker
def test_a_memory_of_the_wrong_shape_or_kind_is_refused(name: str) -> None:
    state = saved(name)
    for field, values in state["memory"].items():
        wrong: list[Any] = [None, "x", {}, [[["x"]]], [1.0] * (np.size(values) + 1)]
        if values:
            wrong += [values[:-1], [*values, values[0]]]
        for damage in wrong:
            refuse(class_of(name), {**state, "memory": {**state["memory"], field: damage}})


@each_tracker
def test_a_memory_with_a_number_that_is_not_finite_is_refused(name: str) -> None:
    state = saved(name)
    for field, values in state["memory"].items():
        for value in (float("nan"), float("inf"), -float("inf")):
            flat = np.array(values, dtype=object)
            if flat.size:
                flat.flat[0] = value
                refuse(class_of(name), {**state, "memory": {**state["memory"], field: flat.tolist()}})


@each_tracker
def test_a_saved_prior_outside_the_simplex_is_refused(name: str) -> None:
    state = saved(name)
    for prior in ([0.5, 0.6], [-0.1, 1.1], [0.0, 0.0], [0.3, 0.3]):
        refuse(class_of(name), {**state, "memory": {**state["memory"], "prior": prior}})


Damage = Callable[[dict[str, Any]], None]


def change(field: str, index: tuple[int, ...], value: float) -> Damage:
    def damage(memory: dict[str, Any]) -> None:
        values = memory[field]
        for i in index[:-1]:
            values = values[i]
        values[index[-1]] = value

    return damage


DAMAGES = [
    ("BayesBank", change("weights", (0, 0), -0.1)),
    ("BayesBank", change("weights", (1, 2), 0.9)),
    ("BayesBank", change("weights", (2, 15), 0.1)),  # an expert that is not there yet
    ("BayesBank", change("rate_weights", (0,), -0.5)),
    ("BayesBank", change("rate_weights", (1,), 0.99)),
    ("BayesBank", change("counts", (0, 0), 0.0)),
    ("BayesBank", change("counts", (1, 1), -1.0)),
    ("BayesBank", change("counts", (1, 1), 1e308)),
    ("BayesBank", change("uses", (0, 0), -1.0)),
    ("BayesBank", change("snapshots", (0, 0), -0.5)),
    ("BayesBank", change("snapshots", (0, 0), 5.0)),  # not a prior
    ("BayesBank", change("seen", (0,), -1)),
    ("BayesBank", change("seen", (1,), 9)),  # one more than there is room for
    ("BayesBank", change("seen", (1,), -1)),
    ("BayesBank", change("seen", (1,), 2**62)),
    ("BayesBank", change("seen", (0,), 1.5)),
    ("GridFilter", change("weights", (0, 3), -0.1)),
    ("GridFilter", change("weights", (0, 3), 0.7)),
    ("GridFilter", change("past", (0, 3), 0.7)),
    ("GridFilter", change("rate_weights", (0,), 0.5)),
    ("GridFilter", change("seen", (0,), -5)),
    ("Algorithm2", change("winners", (0,), 2)),
    ("Algorithm2", change("winners", (0,), -1)),
    ("Algorithm2", change("winners", (0,), 2**40)),
    ("Algorithm2", change("counts", (0,), -3)),
    ("Algorithm2", change("counts", (1,), 10_000)),
    ("Algorithm2", change("seen", (0,), -1)),
    ("WindowEM", change("likelihoods", (0, 1), -0.5)),
    ("WindowEM", change("seen", (0,), -1)),
    ("BBSE", change("seen", (0,), -1)),
    ("BBSE", change("predictions", (0, 0), -3.0)),
    ("BBSE", change("predictions", (0, 0), 1e308)),
    ("BBSE", change("sums", (0,), -1e9)),
    ("BBSE", change("sums", (0,), 1e308)),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(DAMAGES)])
def test_values_a_kernel_could_not_have_written_are_refused(name: str, damage: Damage) -> None:
    state = saved(name)
    class_of(name).from_state(state)  # sound before
    damage(state["memory"])
    refuse(class_of(name), state)


def test_a_transposed_memory_is_refused() -> None:
    state = saved("WindowEM")
    state["memory"]["likelihoods"] = np.array(state["memory"]["likelihoods"]).T.tolist()
    refuse(TRACKERS["WindowEM"], state)


LEAVES: list[Any] = [None, True, "x", -1, 0, 1, 3, 2**62, 0.5, 1e-320, 1e308, -1e308, float("nan"), [], {}, [0.5, 0.5]]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


@pytest.mark.parametrize("name", NAMES)
def test_a_state_with_any_one_value_changed_is_refused_or_still_tracks(name: str) -> None:
    # seed 16: 400 changes of one leaf each; a change that passes must leave a tracker that works
    rng = np.random.default_rng(16)
    state = saved(name)
    paths = list(leaves(state))
    settings_paths = [path for path in paths if path[0] == "settings"]
    rows = stream(120, 2, seed=17)
    for trial in range(400):
        chosen = paths if trial % 4 else settings_paths
        path, leaf = chosen[rng.integers(len(chosen))], LEAVES[rng.integers(len(LEAVES))]
        damaged = copy.deepcopy(state)
        place = damaged
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = leaf
        try:
            tracker = class_of(name).from_state(damaged)
        except InvalidStateError:
            continue
        try:
            assert_in_simplex(tracker.update_many(rows)[1:])  # a saved prior may be off by its tolerance of 1e-6
            assert_in_simplex(tracker.prior)
        except AssertionError:
            pytest.fail(f"{'.'.join(map(str, path))} = {leaf!r} was taken, and the prior left the simplex")


# --- hostile rows ---------------------------------------------------------------------------------------------

HOSTILE = (0.0, -0.0, 1e-300, -1e-300, 5e-324, 1.0, -1.0, 30.0, -30.0, 709.0, -709.0, 745.2, -745.2, 1e5, -1e5)
FURIOUS = (*HOSTILE, 1e300, -1e300, 1.7e308, -1.7e308)


@st.composite
def hostile_rows(draw: st.DrawFn, n_rows: int, largest: int = 50) -> np.ndarray:
    """Blocks of rows of a few extreme values: all equal, all different, one class shouting."""
    n_classes = draw(st.integers(2, largest))
    palette = np.array(draw(st.lists(st.sampled_from(FURIOUS), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["mixed", "constant", "alternating", "one class"]))
    rows = palette[rng.integers(len(palette), size=(n_rows, n_classes))]
    if kind == "constant":
        rows[:] = rows[0]
    elif kind == "alternating":
        rows[::2], rows[1::2] = rows[0], -rows[0]
    elif kind == "one class":
        rows[:, 2:] = 0.0
    rows[:, 0] = 0.0
    return rows


relaxed = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.data_too_large])


@settings(relaxed)
@given(hostile_rows(n_rows=250), st.sampled_from([1e-12, 1e-4, 0.3]))
def test_hostile_rows_never_drive_the_bank_out_of_the_simplex(rows: np.ndarray, rarest: float) -> None:
    # 50 examples of 250 rows are 12,500 rows
    prior = np.full(rows.shape[1], rarest / (rows.shape[1] - 1))
    prior[0] = 1.0 - rarest
    for bank in (BayesBank(prior), BayesBank(prior, memories=(2, None), n_snapshots=1, switching_rates=(0.5,))):
        assert_in_simplex(bank.update_many(rows))
        assert_in_simplex(bank.prior)
        ends = bank.interval()
        assert np.isfinite(ends).all()
        assert (ends[:, 0] <= ends[:, 1]).all()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("BayesBank")])
@settings(relaxed, max_examples=25)
@given(rows=hostile_rows(n_rows=120))
def test_hostile_rows_never_drive_a_tracker_out_of_the_simplex(name: str, rows: np.ndarray) -> None:
    if name.startswith("GridFilter"):
        rows = np.ascontiguousarray(rows[:, :2])
    tracker = started(name, rows.shape[1])
    assert_in_simplex(tracker.update_many(rows))
    assert_in_simplex(tracker.prior)


@pytest.mark.parametrize("name", NAMES)
@settings(relaxed, max_examples=6)
@given(rows=hostile_rows(n_rows=125, largest=6))
def test_hostile_rows_survive_a_save_and_a_restore_at_every_step(name: str, rows: np.ndarray) -> None:
    if name.startswith("GridFilter"):
        rows = np.ascontiguousarray(rows[:, :2])
    straight = started(name, rows.shape[1])
    restored = started(name, rows.shape[1])
    before = []
    for row in rows:
        restored = through_json(restored)
        before.append(restored.prior)
        restored.update(row)
    np.testing.assert_array_equal(straight.update_many(rows), before)
    assert restored.state() == straight.state()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rarest", [1e-17, 1e-300, 5e-324])
def test_a_start_prior_of_almost_nothing_is_no_trap(name: str, rarest: float) -> None:
    tracker = unstarted(name)
    try:
        tracker.start([1.0 - rarest, rarest])
    except InvalidInputError:
        return  # a clear refusal is fine too
    rows = np.array([[0.0, 800.0], [0.0, -800.0], [0.0, 30.0], [0.0, 0.0]] * 30)
    assert_in_simplex(tracker.update_many(rows))
    assert_in_simplex(tracker.prior)
