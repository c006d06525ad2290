"""A record lets rows and labels wait, and nobody who reads it can tell."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.bayes.posterior import posteriors_at
from obil.online.decision import Decisions
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.history import StreamHistory
from obil.online.state.outcome_tally import OutcomeTally
from obil.online.state.stream_record import BLOCK, StreamRecord
from obil.trackers import BayesBank, SafeTracker
from tests.online.bits import bits_of
from tests.online.cases import pair_model, pair_scores, pair_stream, triangle_model, triangle_scores
from tests.online.row_by_row import RowByRow
from tests.online.state.damaged import pending_of, record_of

PAIR, TRIANGLE = pair_model(), triangle_model()
N = 3 * BLOCK

STEPS = st.lists(
    st.tuples(st.sampled_from(["rows", "batch", "label", "read"]), st.integers(1, BLOCK + 40)), min_size=1, max_size=25
)


def bits_in(record: Any) -> bytes:
    return bits_of(record.tally.memory, record.history.memory)


def new_record(n_classes: int, positive: int | None) -> StreamRecord:
    return StreamRecord(OutcomeTally(), StreamHistory(n_classes), positive=positive)


def rows_of(n: int, n_classes: int, seed: int, *, by_matrix: bool, monitored: bool) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    ratios = np.c_[np.zeros(n), rng.normal(scale=6.0, size=(n, n_classes - 1))]
    priors = rng.dirichlet(np.full(n_classes, 0.7), n) * 0.99 + 0.01 / n_classes
    thresholds = np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n)).tolist()
    evidence = np.cumsum(rng.normal(size=n)).tolist()
    return [
        (ratios[i], priors[i], None if by_matrix else thresholds[i], bool(rng.random() < 0.3),
         evidence[i] if monitored else None)
        for i in range(n)
    ]  # fmt: skip


def add_batch(record: StreamRecord, rows: list[tuple[Any, ...]]) -> None:
    ratios, priors, thresholds, alerts, evidence = zip(*rows, strict=True)
    ends, n_classes = record.history.ends(len(rows)), record.history.n_classes
    at, positive = np.array(priors), n_classes - 1
    decisions = Decisions(
        ids=range(len(rows)),
        classes=np.arange(n_classes),
        numbers=np.where(alerts, positive, 0),
        positive=positive,
        log_ratios=np.array(ratios),
        evidence=np.array(ratios)[:, None],
        effective_priors=at,
        posteriors=posteriors_at(np.array(ratios), at),
        thresholds=None if thresholds[0] is None else np.array(thresholds),
        reachable=np.ones(len(rows), dtype=bool),
        trusted=np.ones(len(rows), dtype=bool),
    )
    record.add(decisions, log_evidence=None if evidence[0] is None else [evidence[end - 1] for end in ends])


@settings(max_examples=60, deadline=None)
@given(
    steps=STEPS,
    n_classes=st.sampled_from([2, 3]),
    by_matrix=st.booleans(),
    monitored=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_mix_of_rows_batches_labels_and_reading_leaves_the_bits_of_rows_one_by_one(
    steps: list[tuple[str, int]], n_classes: int, by_matrix: bool, monitored: bool, seed: int
) -> None:
    positive = None if by_matrix else n_classes - 1
    record, oracle = new_record(n_classes, positive), RowByRow(n_classes, positive=positive)
    n_rows = 0
    for step, size in steps:
        if step == "label":
            for age in range(size):
                known: dict[str, Any] = {"propensity": 1.0 / size, "age": age, "sign": -1 if age % 5 == 4 else 1}
                for one in (record, oracle.tally):
                    one.add_label(age % 2 == 0, age % 3 == 0, **known)
        elif step == "read":
            assert bits_in(record) == bits_in(oracle)
        else:
            rows = rows_of(size, n_classes, seed + n_rows, by_matrix=by_matrix, monitored=monitored)
            n_rows += size
            for row in rows:
                oracle.add_one(*row)
                if step == "rows":
                    record.add_one(*row)
            if step == "batch":
                add_batch(record, rows)
    assert record.history.n_rows == n_rows
    assert bits_in(record) == bits_in(oracle)


def test_what_waits_is_bounded_whoever_reads() -> None:
    record = new_record(2, 1)
    row = rows_of(1, 2, 0, by_matrix=False, monitored=True)[0]
    for _ in range(10 * BLOCK + 5):
        record.add_one(*row)
        record.add_label(True, True)
        assert max(len(record._rows), len(record._labels)) < BLOCK
    for _ in range(10 * BLOCK):
        record.add_label(True, True)
        assert len(record._labels) < BLOCK


@pytest.mark.parametrize("name", ["fine", "fraud"])
@pytest.mark.parametrize("seed", range(3))
def test_a_stream_of_rows_batches_and_labels_is_recorded_as_if_row_by_row(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stream = pair_stream(N, 0.2, seed)
    scores = 2.0 * stream.log_ratios[:, 1] + 1.0
    online = OnlineClassifier(PAIR, positive=name, monitor=seed > 0)
    unread = OnlineClassifier(PAIR, positive=name, monitor=seed > 0)
    positive = PAIR.classes_.tolist().index(name)
    oracle = RowByRow(2, positive=positive)
    row = 0
    while row < N:
        n = int(rng.choice([1, 1, 1, 1, 40]))
        for one in (online, unread):
            alone = n == 1
            decided = [one.decide(scores[row])] if alone else one.decide_many(scores[row : row + n])
        evidence = None if unread.monitor is None else unread.monitor.log_evidence
        for decision in decided:
            oracle.add_one(
                decision.log_ratios, decision.effective_prior, decision.threshold, decision.label == name, evidence
            )
        row += len(decided)
        if rng.random() < 0.3:
            late = int(rng.integers(row))
            known = online.label_counts
            label = PAIR.classes_[stream.labels[late]]
            for one in (online, unread):
                assert one.feedback(late, label, propensity=0.25)
            if online.label_counts.repeated == known.repeated:
                alert = bool(pending_of(PAIR, unread.state()).alerts[late])
                oracle.tally.add_label(alert, label == name, propensity=0.25, age=row - 1 - late)
        if rng.random() < 0.05:
            online = OnlineClassifier.from_state(PAIR, online.state())
            online.performance()
            online.explain()
    assert online.state() == unread.state()
    assert bits_of(online._record.tally.memory) == bits_of(oracle.tally.memory)
    if seed == 0:  # else the evidence within a batch is known to the batch alone
        assert bits_of(online.history.memory) == bits_of(oracle.history.memory)
    assert [b.prevalence for b in online.history.buckets()] == [b.prevalence for b in oracle.history.buckets()]


def test_three_classes_that_a_matrix_decides_are_recorded_as_if_row_by_row() -> None:
    online, oracle = OnlineClassifier(TRIANGLE), RowByRow(3, positive=None)
    for score in triangle_scores(2 * BLOCK + 7, [0.5, 0.3, 0.2], seed=1):
        decision = online.decide(score)
        assert online.monitor is not None
        oracle.add_one(decision.log_ratios, decision.effective_prior, None, False, online.monitor.log_evidence)
    assert bits_in(online._record) == bits_in(oracle)


@pytest.mark.parametrize("tracker", [SafeTracker, BayesBank])
def test_a_decision_that_its_holder_changes_changes_no_record(tracker: Any) -> None:
    kept, spoiled = (OnlineClassifier(PAIR, tracker=tracker()) for _ in range(2))
    for score in pair_scores(BLOCK - 1, 0.2, seed=3):
        kept.decide(score)
        decision = spoiled.decide(score)
        decision.effective_prior[:] = np.nan
        decision.log_ratios[:] = np.nan
    assert spoiled.state() == kept.state()


def test_a_reader_sees_every_row_whenever_it_asks() -> None:
    online = OnlineClassifier(PAIR)
    for n_rows, score in enumerate(pair_scores(20, 0.2, seed=4), start=1):
        online.decide(score)
        assert online.history.n_rows == n_rows
        assert record_of(PAIR, online.state())["tally.seen"].tolist() == [n_rows]
