"""A history stays small, grows coarse with age, and does not depend on how rows were cut into batches."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.errors import InvalidInputError, InvalidStateError
from obil.flat_record import in_record
from obil.monitor import LabelShiftMonitor
from obil.online.state.history import (
    ALERTS,
    IN_OPEN,
    LENGTH,
    N_FULL,
    N_THRESHOLDS,
    StreamHistory,
    update_monitor,
)
from tests.online.bits import bits_of
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
    assert bits_of(alone.memory) == bits_of(together.memory)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 30])
def test_the_memory_stays_below_6_kilobytes_whatever_the_length(n_classes: int) -> None:
    history = StreamHistory(n_classes)
    size = len(bits_of(history.memory))
    for seed in range(12):
        rows = rows_of(10_000, n_classes, seed)
        evidence = rows["log_evidence"][np.array(history.ends(10_000)) - 1]
        history.add(rows["prevalence"], rows["thresholds"], rows["alerts"], log_evidence=evidence)
        history.require_possible()
        assert len(bits_of(history.memory)) == size < 6_000
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
    history.add([[0.5, 0.5]] * 16, [1e300, -1e31] * 4 + [1e30, -1e29] * 4, [False] * 16)  # as good as infinite, or not
    assert [bucket.threshold for bucket in history.buckets()][3:] == [None, 4.5e29]
    history.require_possible()
    history = StreamHistory(2)
    history.add([[0.5, 0.5]] * 3, None, [False] * 3)
    history.add([[0.5, 0.5]], None, [False])
    assert history.buckets()[0].threshold is None
    assert history.buckets()[0].log_evidence is None
    assert all(np.isfinite(one).all() for one in (history.memory.open_sums, history.memory.open_threshold))


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
    memory, _ = in_record(start.memory)
    restored = StreamHistory.on(memory)
    restored.require_possible()
    for i in range(cut, 2_000):
        restored.add(
            rows["prevalence"][i : i + 1], rows["thresholds"][i : i + 1], rows["alerts"][i : i + 1],
            log_evidence=rows["log_evidence"][i : i + 1],
        )  # fmt: skip
    assert bits_of(memory) == bits_of(whole.memory)
    assert bits_of(start.memory) != bits_of(memory)  # which it was restored from, and is independent of


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


N_BEFORE = 2_001  # 125 full buckets of 16 rows, and one row
DAMAGES: list[tuple[str, str, Any, Any]] = [
    ("odd length", "counts", LENGTH, 12),
    ("a shorter length", "counts", LENGTH, 4),
    ("no length", "counts", LENGTH, 0),
    ("a length below 0", "counts", LENGTH, -16),
    ("a length too long for so few buckets", "counts", LENGTH, 2**60),
    ("more buckets than there are", "counts", N_FULL, 128),
    ("buckets below 0", "counts", N_FULL, -1),
    ("too few full", "counts", N_FULL, 63),
    ("open too long", "counts", IN_OPEN, 16),
    ("open below 0", "counts", IN_OPEN, -1),
    ("more thresholds than rows", "counts", N_THRESHOLDS, 2),
    ("thresholds below 0", "counts", N_THRESHOLDS, -1),
    ("more open alerts than rows", "counts", ALERTS, 2),
    ("too many alerts", "alerts", 124, 17),
    ("alerts below 0", "alerts", 0, -1),
    ("negative prevalence", "prevalence", 124, [1.5, -0.5]),
    ("prevalence that is no distribution", "prevalence", 0, [0.5, 0.6]),
    ("prevalence that is no number", "prevalence", 3, [0.5, math.nan]),
    ("infinite evidence", "log_evidence", 124, math.inf),
    ("infinite thresholds", "thresholds", 7, -math.inf),
    ("infinite evidence of the open bucket", "open_evidence", 0, math.inf),
    ("open sums wrong", "open_sums", 0, 2.0),
    ("open thresholds beyond what a threshold can be", "open_threshold", 0, 1e300),
    ("open thresholds where there was none", "counts", N_THRESHOLDS, 0),
    ("open sums below 0", "open_sums", slice(None), [1.5, -0.5]),
]


@pytest.mark.parametrize(("field", "place", "value"), [one[1:] for one in DAMAGES], ids=[one[0] for one in DAMAGES])
def test_a_damaged_memory_is_refused(field: str, place: Any, value: Any) -> None:
    history = one_by_one(rows_of(N_BEFORE, 2))
    history.require_possible()
    getattr(history.memory, field)[place] = value
    with pytest.raises(InvalidStateError, match="history is damaged"):
        history.require_possible()


def test_a_long_bucket_beside_few_others_is_refused() -> None:
    history = one_by_one(rows_of(500, 2))
    history.memory.counts[LENGTH] = 16
    with pytest.raises(InvalidStateError, match="history is damaged"):
        history.require_possible()


def test_rows_of_another_shape_change_nothing() -> None:
    history = StreamHistory(2)
    history.add([[0.5, 0.5]], [0.0], [True])
    before = bits_of(history.memory)
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
    assert bits_of(history.memory) == before
