"""The ledger against a plain list that remembers everything, and against whatever may arrive."""

import math
import sys
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision_ids import as_id, as_ids
from obil.online.labels.label_ledger import LabelLedger, LabelledRow
from obil.online.labels.pending_block import COUNTED, N_HEAD, LabelCounts, read_pending, write_pending


def ratios_of(n: int, n_classes: int = 2, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, n_classes))
    rows[:, 0] = 0.0
    return rows


def alerts_of(ratios: np.ndarray) -> np.ndarray:
    return np.asarray(ratios[:, 1] > 0.5)


def filled(n: int, *, n_classes: int = 2, horizon: int = 100, unlabeled_as: int | None = None) -> LabelLedger:
    ledger = LabelLedger(n_classes, horizon=horizon, unlabeled_as=unlabeled_as)
    ratios = ratios_of(n, n_classes)
    ledger.remember(0, range(n), ratios, alerts_of(ratios))
    return ledger


def restored(ledger: LabelLedger) -> LabelLedger:
    return ledger.restored(ledger.state())


def shown(record: LabelledRow | None) -> tuple[Any, ...] | None:
    """Return a record as something that compares, its floats to the bit."""
    if record is None:
        return None
    values = [getattr(record, name) for name in type(record).__slots__]
    return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)


class Oracle:
    """What a ledger should do, from a list of all the decisions there ever were."""

    def __init__(self, *, horizon: int, unlabeled_as: int | None) -> None:
        self.horizon, self.unlabeled_as = horizon, unlabeled_as
        self.decisions: list[dict[str, Any]] = []
        self.tally = dict.fromkeys(["labelled", "unknown", "repeated", "replaced", "unlabeled", "superseded"], 0)

    def live(self) -> list[dict[str, Any]]:
        return self.decisions[-self.horizon :] if self.horizon else []

    def remember_one(
        self, row: int, name: Any, ratios: np.ndarray, alert: bool, inputs: np.ndarray
    ) -> tuple[Any, ...] | None:
        leaving = self.live()[0] if self.horizon and len(self.live()) == self.horizon else None
        decision = {
            "row": row,
            "id": name,
            "ratios": np.array([0.0, *ratios[1:]]),
            "alert": alert,
            "inputs": inputs.tobytes(),
            "label": None,
            "taken": False,
        }
        self.decisions.append(decision)
        for other in self.live()[:-1]:
            if other["id"] == name and not other["taken"]:
                other["taken"] = True
                self.tally["superseded"] += 1
        if leaving is None or self.unlabeled_as is None or (leaving["label"] is None and leaving["taken"]):
            return None
        said = leaving["label"]
        if said is None:
            self.tally["unlabeled"] += 1
            said = (self.unlabeled_as, 1.0)
        known = leaving["row"], leaving["id"], leaving["ratios"].tobytes(), leaving["alert"]
        return *known, *said, None, 1.0, leaving["inputs"], False

    def label(self, name: Any, label: int, propensity: float) -> tuple[Any, ...] | None:
        found = [one for one in self.live() if one["id"] == name]
        if not found:
            self.tally["unknown"] += 1
            return None
        one, before = found[-1], found[-1]["label"]
        known = one["row"], name, one["ratios"].tobytes(), one["alert"], label
        if before is not None and before[0] == label:
            self.tally["repeated"] += 1
            return *known, before[1], None, 1.0, None, True
        one["label"] = (label, propensity)
        self.tally["labelled" if before is None else "replaced"] += 1
        return *known, propensity, *((None, 1.0) if before is None else before), one["inputs"], False

    @property
    def counts(self) -> LabelCounts:
        pending = [one for one in self.live() if one["label"] is None and not one["taken"]]
        return LabelCounts(**self.tally, pending=len(pending))


# "own": the row number; small whole numbers collide with each other and with the row numbers, before and after
IDS = st.one_of(st.just("own"), st.integers(-2, 25), st.sampled_from(["a", "b", "ü", "7", ""]))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), st.lists(IDS, max_size=12)),
        st.tuples(st.just("numbered"), st.integers(0, 12)),
        st.tuples(st.just("label"), IDS, st.integers(0, 2), st.sampled_from([1.0, 0.5, 1e-3, 0.1 + 0.2])),
        st.tuples(st.just("cut")),
    ),
    max_size=25,
)
SETTINGS = st.sampled_from([(0, None), (1, None), (1, 0), (2, 1), (3, None), (5, 0), (20, 2), (40, None), (40, 0)])


@settings(max_examples=300, deadline=None)
@given(EVENTS, SETTINGS, st.integers(0, 20))
def test_agrees_with_a_list_that_remembers_everything(
    events: list[Any], setting: tuple[int, int | None], row: int
) -> None:
    """In batches, one by one, and saved and restored at random cuts: three ledgers and the oracle are one."""
    horizon, unlabeled_as = setting
    together, alone, unbroken = (
        LabelLedger(3, horizon=horizon, unlabeled_as=unlabeled_as, n_inputs=2) for _ in range(3)
    )
    oracle = Oracle(horizon=horizon, unlabeled_as=unlabeled_as)
    random = np.random.default_rng(0)
    for event in events:
        if event[0] == "cut":
            together, alone = (restored(one) for one in (together, alone))
        elif event[0] == "label":
            _, name, label, propensity = event
            name = max(row - 2, 0) if name == "own" else name
            expected = oracle.label(name, label, propensity)
            for ledger in (together, alone, unbroken):
                assert shown(ledger.label(name, label, propensity=propensity)) == expected
        else:
            n = event[1] if event[0] == "numbered" else len(event[1])
            own = range(row, row + n)
            ids = (
                own
                if event[0] == "numbered"
                else [i if name == "own" else name for i, name in zip(own, event[1], strict=True)]
            )
            ratios = np.round(random.normal(size=(n, 3)), 2) * 10.0 ** random.integers(-300, 300, size=(n, 3))
            ratios[:, 0] = -0.0
            alerts = alerts_of(ratios)
            inputs = random.uniform(-3.0, 3.0, size=(n, 2)).astype(np.float32)
            rows = list(zip(own, ids, ratios, alerts.tolist(), inputs, strict=True))
            expected = [one for one in (oracle.remember_one(*one) for one in rows) if one is not None]
            singly = [alone.remember_one(*one) for one in rows]
            assert [shown(one) for one in together.remember(row, ids, ratios, alerts, inputs)] == expected
            assert [shown(one) for one in singly if one is not None] == expected
            assert [shown(one) for one in unbroken.remember(row, ids, ratios, alerts, inputs)] == expected
            row += n
        assert together.counts == alone.counts == unbroken.counts == oracle.counts
        assert together.state() == alone.state() == unbroken.state()


def test_labels_find_their_decisions_out_of_order() -> None:
    ledger, ratios = filled(50), ratios_of(50)
    for row in np.random.default_rng(1).permutation(50):
        arrived = ledger.label(row, int(row) % 2, propensity=0.25)
        assert arrived is not None
        assert (arrived.row, arrived.label, arrived.propensity) == (row, row % 2, 0.25)
        assert arrived.log_ratios.tobytes() == ratios[row].tobytes()
        assert arrived.alert == (ratios[row, 1] > 0.5)
        assert (arrived.replaced, arrived.replaced_propensity, arrived.repeated) == (None, 1.0, False)
    assert ledger.counts == LabelCounts(labelled=50)


def test_the_same_label_twice_is_counted_and_changes_nothing() -> None:
    ledger = filled(5)
    ledger.label(3, 1, propensity=0.5)
    again = ledger.label(3, 1, propensity=0.9)
    assert again is not None
    assert again.repeated
    assert again.propensity == 0.5
    assert ledger.counts == LabelCounts(labelled=1, repeated=1, pending=4)
    changed = ledger.label(3, 0)
    assert changed is not None
    assert changed.replaced_propensity == 0.5


def test_a_contradicting_label_replaces_the_earlier_one_and_says_what_to_take_back() -> None:
    ledger = filled(5)
    ledger.label(3, 1, propensity=0.5)
    there, back = ledger.label(3, 0, propensity=0.2), ledger.label(3, 1)
    assert there is not None
    assert back is not None
    assert (there.replaced, there.replaced_propensity, there.label, there.repeated) == (1, 0.5, 0, False)
    assert (back.replaced, back.replaced_propensity, back.label, back.repeated) == (0, 0.2, 1, False)
    assert ledger.counts == LabelCounts(labelled=1, replaced=2, pending=4)


@pytest.mark.parametrize("name", [50, -1, 10**30, "3", "never decided"])
def test_a_label_for_what_was_never_decided_is_unknown(name: Any) -> None:
    ledger = filled(50)
    assert ledger.label(name, 1) is None
    assert ledger.counts == LabelCounts(unknown=1, pending=50)


def test_a_label_beyond_the_horizon_is_unknown() -> None:
    ledger = filled(150)
    assert ledger.label(49, 1) is None
    assert ledger.label(50, 1) is not None
    ledger.remember_one(150, "next", [0.0, 1.0], True)
    assert ledger.label(50, 1) is None  # neither repeated nor replaced: it is forgotten, label and all
    assert ledger.counts == LabelCounts(labelled=1, unknown=2, pending=100)


def test_a_horizon_of_nothing_remembers_nothing() -> None:
    ledger = filled(20, horizon=0)
    assert ledger.remember_one(20, "x", [0.0, 1.0], True) is None
    assert ledger.label(20, 1) is None
    assert ledger.label("x", 1) is None
    assert ledger.counts == LabelCounts(unknown=2)
    assert restored(ledger).state() == ledger.state()


def test_where_unlabeled_as_is_a_class_every_row_is_given_out_once_oldest_first() -> None:
    ledger, ratios = LabelLedger(2, horizon=10, unlabeled_as=0), ratios_of(100)
    left: list[LabelledRow] = []
    for first in range(0, 100, 4):
        part = ratios[first : first + 4]
        left += ledger.remember(first, range(first, first + 4), part, alerts_of(part))
        ledger.label(first, 1)
    assert [one.row for one in left] == list(range(90))
    assert [one.label for one in left] == [int(row % 4 == 0) for row in range(90)]
    assert all(one.log_ratios.tobytes() == ratios[one.row].tobytes() for one in left)
    assert all(one.alert == (ratios[one.row, 1] > 0.5) for one in left)
    assert ledger.counts.unlabeled == sum(one.label == 0 for one in left)
    assert ledger.label(left[-1].row, 1) is None  # too late: it has been counted


@pytest.mark.parametrize("names", [range(5, 105), [f"order {row}" for row in range(5, 105)]])
def test_missing_labels_of_a_batch_larger_than_the_horizon(names: Any) -> None:
    ledger, ratios = filled(5, horizon=10, unlabeled_as=0), ratios_of(100, seed=1)
    ledger.label(2, 1)
    left = ledger.remember(5, names, ratios, alerts_of(ratios))
    assert [one.row for one in left] == list(range(95))
    assert [one.row for one in left if one.label] == [2]
    assert [one.id for one in left[5:]] == list(names[:90])
    assert all(one.log_ratios.tobytes() == ratios[one.row - 5].tobytes() for one in left[5:])
    assert ledger.counts == LabelCounts(labelled=1, unlabeled=94, pending=10)


def test_what_a_missing_label_returns_is_not_overwritten_later() -> None:
    ledger, ratios = filled(10, horizon=10, unlabeled_as=0), ratios_of(10, seed=1)
    left = ledger.remember(10, range(10, 20), ratios, alerts_of(ratios))
    arrived = ledger.label(15, 1)
    assert arrived is not None
    ledger.remember(20, range(20, 30), ratios, alerts_of(ratios))
    assert [one.log_ratios.tobytes() for one in left] == [row.tobytes() for row in ratios_of(10)]
    assert arrived.log_ratios.tobytes() == ratios[5].tobytes()


@pytest.mark.parametrize("names", [range(20), [f"order {row}" for row in range(20)]])
def test_the_callers_rows_are_neither_changed_nor_kept(names: Any) -> None:
    ledger, ratios = LabelLedger(2, horizon=10, unlabeled_as=0), ratios_of(20)
    ratios[:, 0] = -0.0
    given_ratios = ratios.copy()
    left = ledger.remember(0, names, given_ratios, alerts_of(ratios))
    assert given_ratios.tobytes() == ratios.tobytes()
    given_ratios[:] = 9.0
    assert [one.log_ratios.tolist() for one in left] == ratios[:10].tolist()
    assert read_pending(ledger.state(), n_classes=2).log_ratios[:, 1].tolist() == ratios[10:, 1].tolist()


def test_the_newest_decision_has_the_id() -> None:
    ledger = LabelLedger(2, horizon=3, unlabeled_as=0)
    for row, name in enumerate(["a", "a", "b"]):
        assert ledger.remember_one(row, name, [0.0, float(row)], False) is None
    arrived = ledger.label("a", 1)
    assert arrived is not None
    assert arrived.row == 1
    assert ledger.counts == LabelCounts(labelled=1, superseded=1, pending=1)
    assert (
        ledger.remember_one(3, "c", [0.0, 0.0], False) is None
    )  # row 0 could not be labelled: its unlabeled_as is none


def test_an_own_number_and_a_row_number_that_collide_mean_the_newest() -> None:
    ledger = LabelLedger(2, horizon=10)
    for row, name in enumerate([0, 3, 2, 3, 2]):
        ledger.remember_one(row, name, [0.0, 1.0], False)
    found = [ledger.label(name, 1) for name in range(5)]
    assert [None if one is None else one.row for one in found] == [0, None, 4, 3, None]
    assert ledger.counts == LabelCounts(labelled=3, unknown=2, superseded=2)


def test_numpy_numbers_and_texts_are_plain_ids() -> None:
    ledger = LabelLedger(2)
    ledger.remember(0, np.array([7, 8]), ratios_of(2), np.array([True, False]))
    ledger.remember(2, np.array(["x", "y"]), ratios_of(2), [True, False])
    ledger.remember_one(np.int64(4), np.uint8(200), ratios_of(1)[0], np.True_)
    assert [ledger.label(name, 1) is not None for name in (7, np.int32(8), "x", np.str_("y"), 200)] == [True] * 5
    assert list(read_pending(ledger.state(), n_classes=2).ids.values()) == [7, 8, "x", "y", 200]


def test_the_default_ids_take_no_room() -> None:
    for ids in (range(1_000), list(range(1_000))):
        ledger, ratios = LabelLedger(2), ratios_of(1_000)
        ledger.remember(0, ids, ratios, alerts_of(ratios))
        ledger.remember_one(1_000, 1_000, ratios[0], True)
        assert not ledger._names.id_of
        assert not ledger._names.row_of
        assert not read_pending(ledger.state(), n_classes=2).ids


def test_a_stream_may_start_anywhere_and_then_has_no_gaps() -> None:
    ledger = LabelLedger(2)
    ledger.remember_one(5_000, 5_000, [0.0, 1.0], True)
    for row in (5_000, 5_002, 0, -1, 5_001.0, True, "5001", None, np.array([5_001]), 10**5_000):
        with pytest.raises(InvalidInputError, match="the next one is 5001"):
            ledger.remember_one(row, "x", [0.0, 1.0], True)
    for row in (-1, 2**53 + 1, 0.0, False, "0", None):
        with pytest.raises(InvalidInputError, match="the first row must be an integer"):
            LabelLedger(2).remember(row, ["x"], [[0.0, 1.0]], [True])


def test_nothing_to_remember_starts_nothing() -> None:
    ledger = LabelLedger(2)
    assert ledger.remember(7, [], np.empty((0, 2)), np.empty(0, dtype=bool)) == []
    assert ledger.state() == LabelLedger(2).state()


HUGE = pytest.param(10**5_000, id="huge")  # too long to print
BAD_IDS = [None, True, np.False_, 1.0, math.nan, b"x", ("a", 1), ["a"], {"a": 1}, object(), np.datetime64("2020")]
HUGE_IDS = [2**128, -(2**128), 10**5_000, "x" * 1_001, "\ud800"]


@pytest.mark.parametrize("name", [*BAD_IDS, *HUGE_IDS], ids=lambda name: type(name).__name__)
def test_an_id_that_cannot_be_kept_is_refused_and_nothing_changes(name: Any) -> None:
    ledger = filled(5)
    ledger.label(2, 1)
    before = ledger.state()
    with pytest.raises(InvalidInputError, match="id"):
        ledger.remember_one(5, name, [0.0, 1.0], True)
    with pytest.raises(InvalidInputError, match="id"):
        ledger.remember(5, ["fine", name], ratios_of(2), [True, False])
    with pytest.raises(InvalidInputError, match="id"):
        ledger.label(name, 1)
    assert ledger.state() == before


@pytest.mark.parametrize(
    "ids",
    [
        *(["a"], ["a"] * 3, "ab", b"ab", {"a": 1, "b": 2}, None, 7, range(3), range(2**70), range(2**200, 2**200 + 2)),
        *(np.array([[1], [2]]), np.array([1.0, 2.0]), np.array(["2020", "2021"], dtype="datetime64[ns]")),
    ],
    ids=lambda ids: f"{ids}"[:12],
)
def test_ids_that_do_not_name_every_row_are_refused(ids: Any) -> None:
    ledger = LabelLedger(2)
    with pytest.raises(InvalidInputError, match="id"):
        ledger.remember(0, ids, ratios_of(2), [True, False])
    assert ledger.state() == LabelLedger(2).state()


@pytest.mark.parametrize("label", [True, np.True_, -1, 2, 1.0, "1", None, math.nan, [1], np.array([1]), HUGE])
def test_a_label_that_is_no_class_number_is_refused_and_nothing_changes(label: Any) -> None:
    ledger = filled(5)
    before = ledger.state()
    for name in (2, "unknown"):
        with pytest.raises(InvalidInputError, match=r"label must be an integer in 0 \.\.\. 1"):
            ledger.label(name, label)
    assert ledger.state() == before


@pytest.mark.parametrize(
    "propensity", [0, 0.0, -0.1, 1.0000001, 2, True, math.nan, math.inf, "0.5", None, [0.5], 1j, HUGE]
)
def test_a_propensity_that_is_no_probability_is_refused_and_nothing_changes(propensity: Any) -> None:
    ledger = filled(5)
    before = ledger.state()
    with pytest.raises(InvalidInputError, match=r"propensity must be a probability in \[1e-9, 1\]"):
        ledger.label(2, 1, propensity=propensity)
    assert ledger.state() == before


@pytest.mark.parametrize("propensity", [1, 1e-9, np.float32(0.1), np.float64(0.3), np.int64(1)])
def test_a_propensity_is_kept_as_a_plain_float(propensity: Any) -> None:
    ledger = filled(5)
    ledger.label(2, np.int64(1), propensity=propensity)
    assert read_pending(ledger.state(), n_classes=2).came == {2: (1, float(propensity))}


@pytest.mark.parametrize(
    "row", [[0.0], [0.0, 1.0, 2.0], [1.0, 0.0], [0.0, math.nan], [0.0, math.inf], [[0.0, 1.0]], 0.0, ["a", "b"], None]
)
def test_log_ratios_that_are_none_are_refused_and_nothing_changes(row: Any) -> None:
    ledger = filled(5)
    before = ledger.state()
    for given_row in (row, np.array(row)):
        with pytest.raises(InvalidInputError, match=r"log.ratios"):
            ledger.remember_one(5, "x", given_row, True)
        with pytest.raises(InvalidInputError, match="log_ratios"):
            ledger.remember(5, ["x"], [given_row], [True])
    assert ledger.state() == before


def test_log_ratios_of_any_kind_of_number_are_kept_as_floats() -> None:
    ledger, huge = LabelLedger(3), [0.0, 1e308, 1e308]  # the sum overflows, the terms do not
    for row, values in enumerate([[0, 1, 2], np.array([0, 1, 2], dtype=np.float32), np.array([0, 1, 2], ">f8"), huge]):
        ledger.remember_one(row, row, values, False)
    saved = read_pending(ledger.state(), n_classes=3)
    assert saved.log_ratios.tolist() == [[0.0, 1.0, 2.0]] * 3 + [[0.0, 1e308, 1e308]]


@pytest.mark.parametrize("alert", [1, 0, None, "yes", 1.0, np.array([True])])
def test_alerts_that_are_not_booleans_are_refused_and_nothing_changes(alert: Any) -> None:
    ledger = LabelLedger(2)
    with pytest.raises(InvalidInputError, match="alert must be True or False"):
        ledger.remember_one(0, "x", [0.0, 1.0], alert)
    with pytest.raises(InvalidInputError, match="alerts must be 1 booleans"):
        ledger.remember(0, ["x"], [[0.0, 1.0]], [alert])
    with pytest.raises(InvalidInputError, match="alerts must be 2 booleans"):
        ledger.remember(0, ["x", "y"], ratios_of(2), [alert, [True, False]])
    assert ledger.state() == LabelLedger(2).state()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": -1}, "horizon"),
        ({"horizon": 1.5}, "horizon"),
        ({"horizon": True}, "horizon"),
        ({"horizon": None}, "horizon"),
        ({"horizon": 10**9}, "horizon"),
        ({"n_classes": 1}, "n_classes"),
        ({"n_classes": "2"}, "n_classes"),
        ({"unlabeled_as": 2}, "unlabeled_as"),
        ({"unlabeled_as": -1}, "unlabeled_as"),
        ({"unlabeled_as": False}, "unlabeled_as"),
        ({"unlabeled_as": "negative"}, "unlabeled_as"),
        ({"unlabeled_as": 0, "horizon": 0}, "unlabeled_as"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        LabelLedger(**{"n_classes": 2} | arguments)


def saved() -> LabelLedger:
    """Return a small ledger with a bit of everything in it: rows 2 to 5 of 3 classes, of ids 2, "d", "d" and 5."""
    ledger, ratios = LabelLedger(3, horizon=4, unlabeled_as=0, n_inputs=2), ratios_of(6, 3)
    inputs = np.arange(-6.0, 6.0, dtype=np.float32).reshape(6, 2) / 2.0
    ledger.remember(0, [0, "b", 2, "d", "d", 5], ratios, alerts_of(ratios), inputs)
    ledger.label("d", 1, propensity=0.5)
    ledger.label("d", 2, propensity=0.25)
    ledger.label(99, 2)
    return ledger


def counted(**counts: int) -> dict[str, int]:
    return {name: getattr(saved().counts, name) for name in COUNTED} | counts


def with_ratio(value: float) -> np.ndarray:
    ratios = ratios_of(4, 3)
    ratios[3, 2] = value
    return ratios


TOO_LONG = "x" * 1_001
DAMAGES: list[tuple[str, Any, str]] = [
    ("next_row", 3, "rows"),  # of four rows
    ("next_row", -7, "rows"),
    ("next_row", 2**62, "rows"),
    ("log_ratios", with_ratio(math.nan), "finite"),
    ("log_ratios", with_ratio(math.inf), "finite"),
    ("log_ratios", ratios_of(3, 3), "length"),
    ("log_ratios", ratios_of(5, 3), "length|labels"),
    ("log_ratios", ratios_of(4, 2), "buffer|length|labels"),  # of two classes
    ("inputs", np.full((4, 2), math.nan), "inputs"),
    ("inputs", np.full((4, 2), 3.5), "inputs"),
    ("inputs", np.zeros((4, 1)), "inputs of a row"),
    ("alerts", np.zeros(3, dtype=bool), "length|labels"),
    ("alerts", np.zeros(20, dtype=bool), "rows"),
    ("ids", {2: "a", 6: "b"}, "ids"),  # of a row that comes later
    ("ids", {1: "a"}, "ids"),  # of a row that is gone
    ("ids", {2: 1.0}, "id"),
    ("ids", {2: True}, "id"),
    ("ids", {2: None}, "id"),
    ("ids", {2: [1]}, "id"),
    ("ids", {2: TOO_LONG}, "id"),
    ("ids", {2: 2**128}, "id"),
    ("came", {6: (1, 0.5)}, "labels"),
    ("came", {1: (1, 0.5)}, "labels"),
    ("came", {3: (3, 0.5)}, "labels"),
    ("came", {3: (-1, 0.5)}, "labels"),
    ("came", {3: (1, 0.0)}, "propensities"),
    ("came", {3: (1, 1.5)}, "propensities"),
    ("came", {3: (1, math.nan)}, "propensities"),
    ("came", {2: (1, 1.0), 3: (1, 1.0)}, "counts are smaller than its labels"),
    ("counts", counted(unlabeled=-1), "counts"),
    ("counts", counted(labelled=0), "counts"),
    ("counts", counted(superseded=0), "counts"),
    ("counts", counted(unknown=2**62), "counts"),
]


@pytest.mark.parametrize(("field", "value", "message"), DAMAGES, ids=[str(i) for i in range(len(DAMAGES))])
def test_a_damaged_state_is_refused_and_says_what_is_wrong(field: str, value: Any, message: str) -> None:
    ledger = saved()
    whole = read_pending(ledger.state(), n_classes=3)
    assert write_pending(whole) == ledger.state()
    with pytest.raises(InvalidStateError, match=message):
        ledger.restored(write_pending(whole._replace(**{field: value})))


NEXT_ROW, N_ROWS, N_LABELS, N_ID_BYTES = range(4)  # places in the head of the block


@pytest.mark.parametrize("place", range(N_HEAD))
@pytest.mark.parametrize("value", [-(2**63), -2, -1, 2**62, 2**63 - 1])
def test_a_head_of_numbers_out_of_range_is_refused(place: int, value: int) -> None:
    state = bytearray(saved().state())
    state[8 * place : 8 * place + 8] = np.array([value], dtype="<i8").tobytes()
    with pytest.raises(InvalidStateError, match="damaged"):
        saved().restored(bytes(state))


@pytest.mark.parametrize("place", [N_ROWS, N_LABELS, N_ID_BYTES])
def test_a_block_of_fewer_or_more_than_it_says_is_refused(place: int) -> None:
    state = saved().state()
    head = np.frombuffer(state, "<i8", N_HEAD)
    for step in (-2, -1, 1, 2, 2**60, 2**61):
        changed = head.copy()
        changed[place] += step
        if step > 2:
            changed[NEXT_ROW] = 2**62 - 1  # a stream that has had as many
        with pytest.raises(InvalidStateError, match="damaged"):
            saved().restored(changed.tobytes() + state[head.nbytes :])


def test_a_block_that_is_cut_short_or_goes_on_is_refused() -> None:
    state = saved().state()
    for cut in range(len(state)):
        with pytest.raises(InvalidStateError, match="damaged"):
            saved().restored(state[:cut])
    for rest in (b"x", b"[]", bytes(8)):
        with pytest.raises(InvalidStateError, match="damaged"):
            saved().restored(state + rest)


@pytest.mark.parametrize(
    "ids",
    [
        b"{}", b"null", b"[1]", b"[[0]]", b"[[0, 1, 2]]", b'[["0", 1]]', b"[[true, 1]]", b"[[1, 2], [1, 3]]",
        b"[[-1, 2]]", b"[[0, {}]]", b"[[0, NaN]]", b"[[0, 1e999]]", b"[", b"[" * 100_000, b"\xff\xfe",
        b'[[0, "\\ud800"]]', b"[[0, " + b"9" * 5_000 + b"]]",
    ],
    ids=lambda ids: f"{ids!r:.20}",
)  # fmt: skip
def test_ids_that_are_none_are_refused(ids: bytes) -> None:
    state = saved().state()
    head = np.frombuffer(state, "<i8", N_HEAD).copy()
    body = state[head.nbytes : len(state) - int(head[N_ID_BYTES])]
    head[N_ID_BYTES] = len(ids)
    with pytest.raises(InvalidStateError, match="damaged"):
        saved().restored(head.tobytes() + body + ids)


def test_a_state_of_other_settings_is_refused() -> None:
    state = saved().state()
    with pytest.raises(InvalidStateError, match="damaged"):
        LabelLedger(2, horizon=4, unlabeled_as=0).restored(state)
    with pytest.raises(InvalidStateError, match="unlabeled"):
        LabelLedger(3, horizon=4).restored(state)
    with pytest.raises(InvalidStateError, match="labels saw 6 rows, the stream 7"):
        saved().restored(state, n_rows=7)
    none = LabelLedger(3, horizon=0)
    none.remember(0, [], ratios_of(0, 3), [])
    none.next_row = 0
    with pytest.raises(InvalidStateError, match="labels saw 0 rows, the stream 7"):
        LabelLedger(3, horizon=4).restored(none.state(), n_rows=7)
    assert saved().restored(state, n_rows=6).state() == state


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_state_with_any_bytes_changed_is_refused_or_goes_on(changes: list[tuple[int, int]]) -> None:
    state = bytearray(saved().state())
    for place, value in changes:
        state[place % len(state)] = value
    try:
        ledger = saved().restored(bytes(state))
    except InvalidStateError:
        return
    first = ledger.next_row or 0
    ratios = ratios_of(30, 3)
    ledger.remember(first, range(first, first + 30), ratios, alerts_of(ratios))
    assert restored(ledger).state() == ledger.state()


@pytest.mark.parametrize("names", [None, "own"])
@pytest.mark.parametrize("horizon", [0, 1, 7, 29, 30, 31, 200])
def test_a_ledger_goes_on_with_another_horizon_as_one_that_never_knew_the_rows_it_forgets(
    horizon: int, names: str | None
) -> None:
    ratios = ratios_of(60)
    ids: list[Any] = list(range(60)) if names is None else [f"order {row // 2}" for row in range(60)]
    long, short = LabelLedger(2, horizon=30), LabelLedger(2, horizon=horizon)
    resumed = LabelLedger(2, horizon=horizon)
    long.remember(0, ids[:40], ratios[:40], alerts_of(ratios[:40]))
    kept = min(horizon, 30)  # rows of 40
    short.remember(40 - kept, ids[40 - kept : 40], ratios[40 - kept : 40], alerts_of(ratios[40 - kept : 40]))
    if kept == 0:
        short.next_row = 40
    for row in range(10, 40, 3):
        long.label(ids[row], row % 2, propensity=0.5)
        if row >= 40 - kept:
            short.label(ids[row], row % 2, propensity=0.5)
    resumed = resumed.restored(long.state(), n_rows=40)
    assert resumed.horizon == horizon
    for ledger in (resumed, short):
        ledger.remember(40, ids[40:], ratios[40:], alerts_of(ratios[40:]))
    for row in range(60):
        assert shown(resumed.label(ids[row], 1)) == shown(short.label(ids[row], 1))
    assert resumed.counts.pending == short.counts.pending
    again = resumed.restored(resumed.state())
    assert again.state() == resumed.state()
    assert again.counts == resumed.counts


def test_a_stream_that_no_longer_waits_for_labels_can_be_resumed_later_and_wait_again() -> None:
    ledger = filled(20)
    ledger.label(5, 1)
    none = LabelLedger(2, horizon=0).restored(ledger.state(), n_rows=20)  # is told of no row from here on
    assert none.counts == LabelCounts(labelled=1)
    for n_rows in (20, 33):
        none = none.restored(none.state(), n_rows=n_rows)
    again = LabelLedger(2, horizon=4).restored(none.state(), n_rows=33)
    again.remember(33, range(33, 40), ratios_of(7), alerts_of(ratios_of(7)))
    assert again.label(35, 1) is None
    assert again.label(36, 1) is not None
    assert again.restored(again.state(), n_rows=40).state() == again.state()


def test_with_unlabeled_as_rows_that_a_shorter_horizon_forgets_are_learned_from_by_nobody() -> None:
    ledger = filled(20, horizon=20, unlabeled_as=0)
    ledger.label(1, 1)
    short = LabelLedger(2, horizon=5, unlabeled_as=0).restored(ledger.state(), n_rows=20)
    assert short.counts == LabelCounts(labelled=1, pending=5)
    left = short.remember(20, range(20, 22), ratios_of(2), alerts_of(ratios_of(2)))
    assert [one.row for one in left] == [15, 16]


def test_the_state_of_a_thousand_rows_is_small() -> None:
    ledger = filled(1_000, horizon=1_000)
    assert len(ledger.state()) < 8_300  # bytes: 8,205
    for row in range(1_000):
        ledger.label(row, 1, propensity=0.37)
    assert len(ledger.state()) < 33_000  # 32,205
    short = LabelLedger(2, horizon=1_000)
    short.remember(0, [f"{row:012d}" for row in range(1_000)], ratios_of(1_000), alerts_of(ratios_of(1_000)))
    assert len(short.state()) < 32_000


def test_the_memory_of_a_million_rows_is_that_of_the_horizon() -> None:
    ledger, ratios = LabelLedger(2, horizon=100), ratios_of(1_000)
    alerts = alerts_of(ratios)
    for first in range(0, 1_000_000, 1_000):
        # every tenth batch has ids of its own, some of them twice
        own = [f"order {row // 2}" for row in range(first, first + 1_000)]
        ids: Any = own if first % 10_000 == 0 else range(first, first + 1_000)
        ledger.remember(first, ids, ratios, alerts)
        for row in range(first + 900, first + 1_000, 3):
            ledger.label(ids[row - first], 1)
    held = (ledger._names.id_of, ledger._names.row_of, ledger._came, ledger._stale)
    assert [len(one) <= 100 for one in held] == [True] * 4
    assert sum(map(sys.getsizeof, held)) < 40_000
    assert ledger._ratios.shape == (100, 2)
    assert ledger.counts.labelled == 34_000
    assert len(ledger.state()) < 10_000


def test_a_short_stream_is_small_whatever_its_horizon() -> None:
    ledger = LabelLedger(2, horizon=10_000_000)
    assert ledger._ratios.nbytes == 0
    for row in range(1_000):
        ledger.remember_one(row, row, [0.0, 1.0], False)
    assert ledger._ratios.shape == (1_024, 2)


def test_one_row_takes_a_few_microseconds() -> None:
    """About 1 us when nothing else runs; the fastest of many short runs, against twenty times that."""
    ledger, row, fastest = LabelLedger(2), np.array([0.0, 1.5]), math.inf
    for first in range(0, 50_000, 1_000):
        begin = time.perf_counter()
        for number in range(first, first + 1_000):
            ledger.remember_one(number, number, row, False)
        fastest = min(fastest, (time.perf_counter() - begin) / 1_000)
    assert fastest < 20e-6


def test_ids_can_be_checked_before_anything_is_done_with_the_rows() -> None:
    assert as_ids(range(3, 6)) == range(3, 6)
    assert as_ids(iter(["a", np.int64(3)])) == ["a", 3]
    assert as_ids(["ü", "a"]) == ["ü", "a"]
    assert [type(as_id(name)) for name in (np.int8(3), np.str_("a"))] == [int, str]
    with pytest.raises(InvalidInputError, match="whole number, got float"):
        as_ids(["a", 1.5])


@pytest.mark.parametrize("ids", [["a", "b", "c"], [0, 1, 2]])
@pytest.mark.parametrize("unlabeled_as", [None, 0])
def test_forgets_a_row_for_good(ids, unlabeled_as) -> None:
    ledger = LabelLedger(2, horizon=3, unlabeled_as=unlabeled_as)
    ledger.remember(0, ids, np.array([[0.0, 1.5], [0.0, -2.0], [0.0, 0.5]]), np.array([True, False, False]))
    assert ledger.row_of(ids[1]) == 1
    assert ledger.forget(1)
    assert not ledger.forget(7)
    assert ledger.row_of(ids[1]) is None
    assert ledger.label(ids[1], 1) is None
    assert ledger.label("\0erased 1", 1) is None
    assert ledger.counts.pending == 2
    again = restored(ledger)
    assert again.state() == ledger.state()
    assert again.counts == ledger.counts
    assert np.array([-2.0]).tobytes() not in ledger.state()
    for one in (ledger, again):  # its unlabeled_as means nothing
        left = one.remember(3, ["x", "y"], np.array([[0.0, 1.0]] * 2), np.array([False] * 2))
        assert [gone.row for gone in left] == ([] if unlabeled_as is None else [0])
