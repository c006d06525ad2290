"""A history stays small, grows coarse with age, and does not depend on how rows were cut into batches."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.errors import InvalidInputError, InvalidStateError
from obil.monitor import LabelShiftMonitor
from obil.online.state.history import StreamHistory, update_monitor
from tests.online.cases import pair_model, pair_scores
from tests.online.row_by_row import add_row


def rows_of(n: int, n_classes: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    thresholds = rng.normal(size=n)
    thresholds[rng.random(n) < 0.05] = np.inf
    return {
        "prevalence": rng.dirichlet(np.full(n_classes, 0.5), n),
        "thresholds": thresholds,
        "alerts": rng.random(n) < 0.1,
        "log_evidence": np.cumsum(rng.normal(size=n)),
    }


def one_by_one(rows: dict[str, Any]) -> StreamHistory:
    history = StreamHistory(rows["prevalence"].shape[1])
    for i in range(len(rows["prevalence"])):
        add_row(
            history,
            rows["prevalence"][i].tolist(),
            float(rows["thresholds"][i]),
            bool(rows["alerts"][i]),
            log_evidence=float(rows["log_evidence"][i]),
        )
    return history


def in_batches(rows: dict[str, Any], cuts: list[int]) -> StreamHistory:
    history = StreamHistory(rows["prevalence"].shape[1])
    n = len(rows["prevalence"])
    stops = sorted({*cuts, n} & set(range(1, n + 1)))
    first = 0
    for stop in stops:
        part = slice(first, stop)
        evidence = [rows["log_evidence"][first + end - 1] for end in history.ends(stop - first)]
        history.add(rows["prevalence"][part], rows["thresholds"][part], rows["alerts"][part], log_evidence=evidence)
        first = stop
    return history


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 3_000),
    n_classes=st.sampled_from([2, 3, 7]),
    cuts=st.lists(st.integers(1, 3_000), max_size=20),
)
def test_batches_and_single_rows_leave_the_same_bits(n: int, n_classes: int, cuts: list[int]) -> None:
    rows = rows_of(n, n_classes)
    alone, together = one_by_one(rows), in_batches(rows, cuts)
    assert json.dumps(alone.state()) == json.dumps(together.state())


@pytest.mark.parametrize("n_classes", [2, 3, 10, 30])
def test_the_state_stays_below_10_kilobytes_whatever_the_length(n_classes: int) -> None:
    history = StreamHistory(n_classes)
    sizes = []
    for seed in range(12):
        rows = rows_of(10_000, n_classes, seed)
        ends = history.ends(10_000)
        tiny = rows["prevalence"] * 1e-3
        tiny[:, 0] += 1.0 - tiny.sum(axis=1)  # many digits
        evidence = -1e5 * rows["log_evidence"][np.array(ends) - 1]
        history.add(tiny, rows["thresholds"], rows["alerts"], log_evidence=evidence)
        sizes.append(len(json.dumps(history.state())))
    assert max(sizes) < 10_000
    assert history.n_rows == 120_000


def test_merged_buckets_hold_what_their_rows_held() -> None:
    rows = rows_of(5_000, 2)
    rows["thresholds"] = np.random.default_rng(1).normal(size=5_000)
    history = one_by_one(rows)
    buckets = history.buckets()
    assert history.bucket_length == 64
    assert sum(bucket.n_rows for bucket in buckets) == 5_000 == history.n_rows
    for bucket in buckets:
        part = slice(bucket.first_row, bucket.first_row + bucket.n_rows)
        np.testing.assert_allclose(bucket.prevalence, rows["prevalence"][part].mean(axis=0), rtol=1e-4)
        assert bucket.threshold == pytest.approx(rows["thresholds"][part].mean(), abs=2e-5)
        assert bucket.alerts == rows["alerts"][part].sum()
        assert bucket.log_evidence == pytest.approx(rows["log_evidence"][part][-1], rel=1e-4)


def test_infinite_thresholds_and_missing_ones_leave_a_gap() -> None:
    history = StreamHistory(2)
    history.add([[0.5, 0.5]] * 24, [math.inf] * 8 + [-math.inf] * 7 + [2.0] + [1.0] * 8, [False] * 24)
    assert [bucket.threshold for bucket in history.buckets()] == [None, 2.0, 1.0]
    history = StreamHistory(2)
    history.add([[0.5, 0.5]] * 3, None, [False] * 3)
    history.add([[0.5, 0.5]], None, [False])
    assert history.buckets()[0].threshold is None
    assert history.buckets()[0].log_evidence is None
    json.dumps(history.state(), allow_nan=False)


def test_ends_are_where_buckets_end() -> None:
    history = StreamHistory(2)
    assert history.ends(0) == []
    assert history.ends(5) == [5]
    history.add([[0.5, 0.5]] * 5, None, [False] * 5)
    assert history.ends(20) == [3, 11, 19, 20]
    long = StreamHistory(2).ends(3_000)
    assert long[127:130] == [1_024, 1_040, 1_056]  # 128 of 8 rows were merged into 64 of 16


@pytest.mark.parametrize("cut", [1, 37, 999])
def test_a_restored_history_goes_on_bit_for_bit(cut: int) -> None:
    rows = rows_of(2_000, 3)
    whole, start = one_by_one(rows), one_by_one({name: values[:cut] for name, values in rows.items()})
    restored = StreamHistory.from_state(3, json.loads(json.dumps(start.state())))
    for i in range(cut, 2_000):
        restored.add(
            rows["prevalence"][i : i + 1], rows["thresholds"][i : i + 1], rows["alerts"][i : i + 1],
            log_evidence=rows["log_evidence"][i : i + 1],
        )  # fmt: skip
    assert restored.state() == whole.state()


def test_a_monitor_that_is_cut_at_the_ends_sees_the_same() -> None:
    model = pair_model()
    ratios = model.log_ratios(np.r_[pair_scores(700, 0.2, 1), pair_scores(700, 0.2, 2) + 4.0])
    one, two = LabelShiftMonitor.for_model(model), LabelShiftMonitor.for_model(model)
    trusted, evidence = update_monitor(one, ratios, StreamHistory(2).ends(len(ratios)))
    np.testing.assert_array_equal(trusted, two.update_many(ratios))
    assert evidence is not None
    assert evidence[-1] == two.log_evidence
    assert one.state() == two.state()
    assert update_monitor(None, ratios, [len(ratios)])[1] is None


def _broken_states() -> list[tuple[str, Any]]:
    good = one_by_one(rows_of(2_001, 2)).state()

    def changed(**parts: Any) -> Any:
        state = json.loads(json.dumps(good))
        for path, value in parts.items():
            *route, last = path.split("__")
            place = state
            for step in route:
                place = place[step]
            place[last] = value
        return state

    full, bucket = good["full"], good["open"]
    return [
        ("nothing", None),
        ("a list", []),
        ("no length", {name: value for name, value in good.items() if name != "length"}),
        ("odd length", changed(length=12)),
        ("true", changed(length=True)),
        ("too few full", one_by_one(rows_of(500, 2)).state() | {"length": 16}),
        ("ragged", changed(full__alerts=full["alerts"][:-1])),
        ("too many alerts", changed(full__alerts=[17] * len(full["alerts"]))),
        ("negative prevalence", changed(full__prevalence=[[1.5, -0.5]] * len(full["alerts"]))),
        ("three classes", changed(full__prevalence=[[0.2, 0.3, 0.5]] * len(full["alerts"]))),
        ("not a number", changed(full__thresholds=["x"] * len(full["alerts"]))),
        ("infinite", changed(full__log_evidence=[math.inf] * len(full["alerts"]))),
        ("open too long", changed(open__rows=16)),
        ("open sums wrong", changed(open__prevalence=[bucket["prevalence"][0] + 1.0, bucket["prevalence"][1]])),
        ("open without threshold", changed(open__threshold=None)),
        ("a text for a column", changed(full__alerts="x" * len(full["alerts"]))),
    ]


@pytest.mark.parametrize(("name", "state"), _broken_states(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_damaged_state_is_refused(name: str, state: Any) -> None:
    with pytest.raises(InvalidStateError):
        StreamHistory.from_state(2, state)


def test_rows_of_another_shape_change_nothing() -> None:
    history = StreamHistory(2)
    history.add([[0.5, 0.5]], [0.0], [True])
    before = json.dumps(history.state())
    for prevalence, thresholds, alerts, evidence in (
        ([[0.2, 0.3, 0.5]], [0.0], [True], None),
        ([[0.5, 0.5]], [0.0, 1.0], [True], None),
        ([[0.5, 0.5]], [0.0], [True, False], None),
        ([[0.5, 0.5]], [0.0], [True], [0.0, 1.0]),
    ):
        with pytest.raises(InvalidInputError):
            history.add(prevalence, thresholds, alerts, log_evidence=evidence)
    with pytest.raises(InvalidInputError):
        StreamHistory(1)
    assert json.dumps(history.state()) == before
