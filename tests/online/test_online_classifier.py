"""Deciding row by row: one at a time or many, at the prior from before the row, and nothing on an error."""

import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from experiments.paper_formulas import bayes_decision
from obil.bayes.costs import Costs
from obil.errors import ConcurrentUseError, InvalidInputError, InvalidStateError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.decision import Decision
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.resume import settings_in
from obil.policies import AlertBudget, CostPolicy, FBetaPolicy, GMeanPolicy, Policy, PrecisionFloor, RecallFloor
from obil.serving.columns import ColumnEncoder
from obil.serving.ratio_model import RatioModel
from obil.trackers import BBSE, Algorithm2, BayesBank, FixedPrior, OnlineEM, PriorTracker, SafeTracker
from tests.online.cases import pair_model, pair_scores, pair_stream, triangle_model, triangle_scores
from tests.online.state.damaged import with_settings, with_settings_text

PAIR, TRIANGLE = pair_model(), triangle_model()
POLICIES: list[Policy] = [
    CostPolicy(),
    CostPolicy(Costs(false_positive=1.0, false_negative=30.0, true_positive=0.5)),
    FBetaPolicy(),
    GMeanPolicy(),
    RecallFloor(0.9),
    PrecisionFloor(0.9),
    AlertBudget(0.01),
]
MATRIX = Costs.from_matrix([[0, 5, 9], [1, 0, 9], [1, 1, 0]])


def assert_same_decision(one: Decision, other: Decision) -> None:
    assert one.id == other.id
    assert one.label == other.label
    assert one.log_ratios.tobytes() == other.log_ratios.tobytes()
    assert one.effective_prior.tobytes() == other.effective_prior.tobytes()
    assert one.threshold == other.threshold
    assert (one.trusted, one.reachable) == (other.trusted, other.reachable)


@pytest.mark.parametrize("positive", ["fine", "fraud"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy}"[:30])
def test_one_row_at_a_time_and_many_agree_bit_for_bit(policy: Policy, positive: str) -> None:
    rows = pair_scores(300, 0.05, seed=1)
    alone, together = (OnlineClassifier(PAIR, policy=policy, positive=positive) for _ in range(2))
    many = together.decide_many(rows)
    for row, expected in zip(rows, many, strict=True):
        assert_same_decision(alone.decide(row), expected)
    assert alone.state() == together.state()


@pytest.mark.parametrize(
    ("policy", "positive"),
    [(CostPolicy(MATRIX), None), (CostPolicy(), "c"), (FBetaPolicy(), "b"), (PrecisionFloor(0.9), "a")],
)
def test_three_classes_agree_bit_for_bit_too(policy: Policy, positive: str | None) -> None:
    rows = triangle_scores(200, [0.2, 0.3, 0.5], seed=1)
    alone, together = (OnlineClassifier(TRIANGLE, policy=policy, positive=positive) for _ in range(2))
    many = together.decide_many(rows)
    for row, expected in zip(rows, many, strict=True):
        assert_same_decision(alone.decide(row), expected)
    assert alone.state() == together.state()


@pytest.mark.parametrize(
    "tracker", [BayesBank(), Algorithm2(), OnlineEM(), FixedPrior()], ids=lambda t: type(t).__name__
)
def test_batches_of_any_size_agree_bit_for_bit(tracker: PriorTracker) -> None:
    rows = pair_scores(300, 0.05, seed=2)
    whole = OnlineClassifier(PAIR, tracker=tracker).decide_many(rows)
    in_parts = OnlineClassifier(PAIR, tracker=tracker)
    parts = [in_parts.decide_many(part) for part in np.split(rows, [1, 10, 200])]
    assert np.concatenate([part.effective_priors for part in parts]).tobytes() == whole.effective_priors.tobytes()
    assert np.concatenate([part.labels for part in parts]).tolist() == whole.labels.tolist()


@pytest.mark.parametrize(
    "tracker", [FixedPrior(0.02), BayesBank(0.02), SafeTracker(0.02)], ids=lambda t: type(t).__name__
)
def test_a_stream_starts_at_the_prior_given_else_at_that_of_its_tracker(tracker: PriorTracker) -> None:
    assert OnlineClassifier(PAIR, tracker=tracker).prior[1] == pytest.approx(0.02)
    assert OnlineClassifier(PAIR, tracker=tracker, prior={"fine": 0.7, "fraud": 0.3}).prior[1] == pytest.approx(0.3)
    with pytest.raises(InvalidInputError, match="3 classes"):
        OnlineClassifier(TRIANGLE, tracker=tracker)


@pytest.mark.parametrize("wrong", ["bank", BayesBank, 3])
def test_what_is_no_tracker_is_named(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"tracker must be one of obil\.trackers, such as BayesBank\(\), got "):
        OnlineClassifier(PAIR, tracker=wrong)


def test_a_row_is_decided_at_the_prior_from_before_it() -> None:
    online = OnlineClassifier(PAIR, prior=0.3, tracker=BayesBank())
    before = online.prior
    decision = online.decide(9.0)
    assert decision.effective_prior.tobytes() == before.tobytes()
    assert online.prior[1] > before[1]


def test_decisions_are_those_of_least_expected_cost() -> None:
    costs = Costs(false_positive=1.0, false_negative=7.0)
    online = OnlineClassifier(PAIR, costs=costs)
    decisions = online.decide_many(pair_scores(200, 0.1, seed=3))
    for decision in decisions:
        expected = bayes_decision(decision.log_ratios[None], decision.effective_prior, costs)[0]
        assert decision.label == PAIR.classes_[expected]


def test_a_cost_matrix_decides_as_bayes_does() -> None:
    decisions = OnlineClassifier(TRIANGLE, costs=MATRIX).decide_many(triangle_scores(200, [0.5, 0.3, 0.2], seed=3))
    assert decisions.thresholds is None
    for decision in decisions:
        expected = bayes_decision(decision.log_ratios[None], decision.effective_prior, MATRIX)[0]
        assert decision.label == TRIANGLE.classes_[expected]


def test_a_cost_matrix_is_matched_to_the_classes_by_name() -> None:
    order = [2, 0, 1]
    shuffled = Costs.from_matrix(MATRIX.matrix[np.ix_(order, order)], classes=["c", "a", "b"])
    rows = triangle_scores(200, [0.5, 0.3, 0.2], seed=3)
    plain, named = (OnlineClassifier(TRIANGLE, costs=costs).decide_many(rows) for costs in (MATRIX, shuffled))
    assert plain.labels.tolist() == named.labels.tolist()
    with pytest.raises(InvalidInputError, match="costs name the classes"):
        OnlineClassifier(TRIANGLE, costs=Costs.from_matrix(MATRIX.matrix, classes=["a", "b", "d"]))


def test_named_costs_of_two_classes_mean_the_same_whichever_is_positive() -> None:
    costs = Costs.from_matrix([[0, 9], [1, 0]], classes=["fine", "fraud"])
    rows = pair_scores(300, 0.1, seed=4)
    labels = [
        OnlineClassifier(PAIR, costs=costs, positive=name).decide_many(rows).labels.tolist()
        for name in ("fine", "fraud")
    ]
    assert labels[0] == labels[1]


def test_the_positive_class_is_the_one_that_misses_are_counted_of() -> None:
    costs = Costs(false_positive=1.0, false_negative=50.0)
    rows = pair_scores(400, 0.2, seed=5)
    fraud, fine = (
        OnlineClassifier(PAIR, costs=costs, positive=name, tracker=FixedPrior()) for name in ("fraud", "fine")
    )
    assert fraud.positive == "fraud"
    caught, kept = (online.decide_many(rows).labels.tolist() for online in (fraud, fine))
    assert caught.count("fraud") > 2 * kept.count("fraud") > 0


def test_predicting_changes_nothing_and_says_what_would_be_decided() -> None:
    online = OnlineClassifier(PAIR, policy=FBetaPolicy())
    rows = pair_scores(100, 0.1, seed=6)
    online.decide_many(rows)
    before = online.state()
    predicted, posteriors = online.predict(rows), online.predict_proba(rows)
    assert online.state() == before
    assert predicted[0] == online.decide(rows[0]).label
    np.testing.assert_allclose(posteriors.sum(axis=1), 1.0, rtol=1e-12)


def test_a_new_cost_or_policy_counts_from_the_next_row_on() -> None:
    rows = pair_scores(200, 0.1, seed=7)
    changing, steady = OnlineClassifier(PAIR), OnlineClassifier(PAIR)
    first = changing.decide_many(rows[:100])
    costs = Costs(false_positive=1.0, false_negative=20.0)
    changing.costs = costs
    assert changing.costs == costs
    second = changing.decide_many(rows[100:])
    unchanged = steady.decide_many(rows)
    assert first.labels.tolist() == unchanged.labels[:100].tolist()
    assert (
        np.concatenate([first.effective_priors, second.effective_priors]).tobytes()
        == unchanged.effective_priors.tobytes()
    )
    assert unchanged.thresholds is not None
    np.testing.assert_allclose(second.thresholds, unchanged.thresholds[100:] - np.log(20.0), rtol=1e-12, atol=1e-12)
    changing.policy = RecallFloor(0.9)
    assert changing.costs is None
    assert changing.log_threshold == changing.decide(rows[0]).threshold


def test_a_policy_that_does_not_fit_leaves_the_old_one() -> None:
    online = OnlineClassifier(TRIANGLE, costs=MATRIX)
    before = online.state()
    with pytest.raises(InvalidInputError, match="positive="):
        online.policy = FBetaPolicy()
    with pytest.raises(InvalidInputError, match="cover the 3 classes"):
        online.costs = Costs.from_matrix(1.0 - np.eye(4))
    assert online.state() == before
    online.decide([0.0, 1.0, 2.0])


def test_an_unreachable_floor_alerts_nothing_and_says_so() -> None:
    online = OnlineClassifier(PAIR, policy=PrecisionFloor(0.999), prior=1e-4, tracker=FixedPrior())
    decisions = online.decide_many(pair_scores(100, 0.5, seed=8))
    assert not decisions.reachable.any()
    assert set(decisions.labels.tolist()) == {"fine"}
    assert not online.decide(99.0).reachable


def test_costs_and_a_policy_together_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="not both"):
        OnlineClassifier(PAIR, costs=Costs(false_positive=1, false_negative=2), policy=FBetaPolicy())


@pytest.mark.parametrize("prior", [0.01, [0.99, 0.01], {"fraud": 0.01, "fine": 0.99}])
def test_case_control_training_starts_where_it_is_told(prior: Any) -> None:
    online = OnlineClassifier(PAIR, prior=prior)
    np.testing.assert_allclose(online.prior, [0.99, 0.01], rtol=1e-12)
    assert OnlineClassifier(PAIR).prior.tobytes() == PAIR.prior_.tobytes()


@pytest.mark.parametrize("prior", [0.0, 1.5, [0.5, 0.4], {"fraud": 1.0}, "often", [0.2, 0.3, 0.5]])
def test_a_start_that_is_no_prior_is_refused(prior: Any) -> None:
    with pytest.raises(InvalidInputError):
        OnlineClassifier(PAIR, prior=prior)


def test_the_given_tracker_stays_as_it_was_and_each_stream_follows_a_copy() -> None:
    tracker, rows = OnlineEM(rate=0.05), pair_scores(50, 0.1, seed=9)
    alone = OnlineEM(0.4, rate=0.05)
    scores = PAIR.score(rows)
    alone.update_many(scores.log_ratios, evidence=scores.evidence_from(0))
    online, other = (OnlineClassifier(PAIR, tracker=tracker, prior=0.4) for _ in range(2))
    assert online.prior.tolist() == [0.6, 0.4]
    online.decide_many(rows)
    assert isinstance(online.tracker, OnlineEM)
    assert online.prior.tobytes() == online.tracker.prior.tobytes() == alone.prior.tobytes()
    assert other.prior.tolist() == [0.6, 0.4]
    assert OnlineClassifier(PAIR, tracker=tracker).prior.tolist() == PAIR.prior_.tolist()
    assert online.interval() is None


def test_a_tracker_of_somebody_else_is_followed_itself_and_has_no_state() -> None:
    class Constant:
        prior = np.array([0.25, 0.75])

        def start(self, prior: Any) -> "Constant":
            return self

        def update(self, row: Any, *, evidence: Any = None) -> np.ndarray:
            return self.prior

        def update_many(self, rows: Any, *, evidence: Any = None) -> np.ndarray:
            return np.tile(self.prior, (len(rows), 1))

        def priors_for(self, rows: Any) -> np.ndarray:
            return np.tile(self.prior, (len(rows), 1))

        def interval(self, level: float = 0.9) -> None:
            return None

    tracker: Any = Constant()
    online = OnlineClassifier(PAIR, tracker=tracker)
    assert online.tracker is tracker
    assert online.decide(1.0).effective_prior.tolist() == [0.25, 0.75]
    assert online.decide_many([1.0, 2.0]).effective_priors.tolist() == [[0.25, 0.75]] * 2
    with pytest.raises(InvalidInputError, match="only obil's own trackers have one"):
        online.state()


def test_rows_have_the_callers_ids_or_their_number() -> None:
    online = OnlineClassifier(PAIR)
    assert online.decide(0.0).id == 0
    assert online.decide(0.0, id="invoice 7").id == "invoice 7"
    assert [decision.id for decision in online.decide_many([0.0, 1.0])] == [2, 3]
    assert [decision.id for decision in online.decide_many([0.0, 1.0], ids=["x", "y"])] == ["x", "y"]
    assert online.n_rows == 6
    before = online.state()
    with pytest.raises(InvalidInputError, match="name every row"):
        online.decide_many([0.0, 1.0], ids=["x"])
    assert online.state() == before


def test_decisions_are_a_sequence_of_decisions() -> None:
    decisions = OnlineClassifier(PAIR).decide_many(pair_scores(10, 0.2, seed=1))
    assert len(decisions) == 10
    assert_same_decision(decisions[-1], decisions[9])
    assert [decision.id for decision in decisions[2:5]] == [2, 3, 4]
    with pytest.raises(IndexError):
        decisions[10]
    np.testing.assert_allclose(decisions.posteriors[3], decisions[3].posterior, rtol=1e-12)


def test_known_log_ratios_decide_like_the_rows_they_came_from() -> None:
    rows = pair_scores(100, 0.2, seed=2)
    scored = OnlineClassifier(PAIR).decide_many(rows)
    replayed = OnlineClassifier(PAIR).decide_log_ratios(PAIR.log_ratios(rows))
    assert scored.labels.tolist() == replayed.labels.tolist()
    assert scored.effective_priors.tobytes() == replayed.effective_priors.tobytes()


def test_no_rows_are_no_decisions() -> None:
    online = OnlineClassifier(PAIR)
    before = online.state()
    assert len(online.decide_many(np.empty(0))) == 0
    assert online.state() == before


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy}"[:30])
def test_a_stream_goes_on_bit_for_bit_from_a_state_taken_at_any_row(policy: Policy) -> None:
    rows = pair_scores(40, 0.1, seed=10)
    online = OnlineClassifier(PAIR, policy=policy, positive="fine")
    whole = OnlineClassifier(PAIR, policy=policy, positive="fine").decide_many(rows)
    for number, row in enumerate(rows):
        restored = OnlineClassifier.from_state(PAIR, online.state())
        assert restored.state() == online.state()
        assert_same_decision(restored.decide(row), whole[number])
        online.decide(row)


def test_three_classes_go_on_from_their_state() -> None:
    rows = triangle_scores(60, [0.2, 0.3, 0.5], seed=1)
    for online in (
        OnlineClassifier(TRIANGLE, costs=MATRIX),
        OnlineClassifier(TRIANGLE, policy=FBetaPolicy(), positive="b"),
    ):
        online.decide_many(rows[:30])
        restored = OnlineClassifier.from_state(TRIANGLE, online.state())
        assert_same_decision(restored.decide(rows[30]), online.decide(rows[30]))
        assert restored.state() == online.state()


THREE = [0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    "change",
    [
        {"positive": 2},
        {"positive": -1},
        {"positive": "fraud"},
        {"positive": [1]},
        {"positive": True},
        {"positive": 1.0},
        {"policy": {"name": "magic"}},
        {"policy": {}},
        {"policy": None},
        {"policy": "f1"},
        {"policy": {"name": "cost", "matrix": [[0, 1, 1], [1, 0, 1], [1, 1, 0]], "classes": None}},
        {"tracker": {}},
        {"tracker": None},
        {"tracker": []},
        {"tracker": ["BayesBank"]},
        {"tracker": ["BayesBank", None]},
        {"tracker": ["BayesBank", {}]},
        {"tracker": ["BayesBank", {"prior": THREE}]},
        {"tracker": ["BayesBank", {"prior": [0.5, 0.5], "memories": "long"}]},
        {"tracker": ["BayesBank", {"prior": [0.5, 0.5]}]},  # of another layout
        {"tracker": ["FixedPrior", {"prior": [0.5, 0.5]}]},
        {"tracker": ["SafeTracker", {"prior": [0.5, 0.5], "x": 1}]},
        {"tracker": ["SafeTracker", {"prior": [0.5, 0.5], "view_reference": {}}]},
        {"tracker": ["CompiledTracker", {"prior": [0.5, 0.5]}]},
        {"tracker": [["SafeTracker"], {"prior": [0.5, 0.5]}]},
        {"monitor": None},  # of another layout
        {"monitor": {"x": 1}},
        {"monitor": {"alpha": "small"}},
        {"monitor": {"alpha": 0.0}},
        {"monitor": {"model": 1}},
        {"monitor": [1]},
        {"monitor": 7},
        {"horizon": -1},
        {"horizon": 1.5},
        {"horizon": True},
        {"horizon": None},
        {"horizon": 10**9},
        {"unlabeled_as": 2},
        {"unlabeled_as": -1},
        {"unlabeled_as": "negative"},
        {"unlabeled_as": True},
        {"unlabeled_as": 1, "horizon": 0},
    ],
    ids=str,
)
def test_a_state_of_damaged_settings_is_refused(change: dict[str, Any]) -> None:
    online = OnlineClassifier(PAIR)
    online.decide_many(pair_scores(20, 0.2, seed=1))
    state = with_settings(PAIR, online.state(), lambda settings: settings.update(change))
    with pytest.raises(InvalidStateError):
        OnlineClassifier.from_state(PAIR, state)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"7", b"\xff\xfe", b"[" * 100_000, b'{"positive": 1}', b"NaN", b"9" * 5_000]
)
def test_settings_that_are_none_are_refused(text: bytes) -> None:
    state = OnlineClassifier(PAIR).state()
    with pytest.raises(InvalidStateError, match="its settings are"):
        OnlineClassifier.from_state(PAIR, with_settings_text(PAIR, state, text))
    for name in settings_in(PAIR, state):
        with pytest.raises(InvalidStateError, match="its settings are"):
            OnlineClassifier.from_state(PAIR, with_settings(PAIR, state, lambda given, name=name: given.pop(name)))
    with pytest.raises(InvalidStateError, match="its settings are"):
        OnlineClassifier.from_state(PAIR, with_settings(PAIR, state, lambda given: given.update(code="import os")))


def test_a_state_of_other_classes_is_refused() -> None:
    for state in (None, [], "state", {}, b"", OnlineClassifier(TRIANGLE).state()):
        with pytest.raises(InvalidStateError):
            OnlineClassifier.from_state(PAIR, state)


def test_a_second_writer_is_refused_and_readers_are_not() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(FixedPrior):
        def update_many(self, log_ratios: Any, *, evidence: Any = None) -> Any:
            entered.set()
            assert leave.wait(10.0)
            return super().update_many(log_ratios, evidence=evidence)

    online = OnlineClassifier(PAIR, tracker=Slow())
    first = threading.Thread(target=online.decide_many, args=([0.0, 1.0],))
    first.start()
    assert entered.wait(10.0)
    try:
        for second in (lambda: online.decide(1.0), lambda: online.decide_many([1.0])):
            with pytest.raises(ConcurrentUseError, match="one writer"):
                second()
        online.predict([1.0])
    finally:
        leave.set()
        first.join(10.0)
    online.decide(1.0)
    assert online.n_rows == 3


def frame(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.3
    return pd.DataFrame({"age": rng.standard_normal(n) + labels, "dose": rng.standard_normal(n) - 2.0 * labels}), labels


@pytest.fixture(scope="module")
def named() -> RatioModel:
    return RatioClassifier(LogisticRegression(), cv=2, random_state=0).fit(*frame(200, 0)).model_


@pytest.fixture(scope="module")
def unnamed() -> RatioModel:
    rows, labels = frame(200, 0)
    return RatioClassifier(LogisticRegression(), cv=2, random_state=0).fit(rows.to_numpy(), labels).model_


def test_columns_are_matched_by_name_in_any_order(named: RatioModel) -> None:
    rows, _ = frame(30, 1)
    in_order = OnlineClassifier(named).decide_many(rows)
    swapped = OnlineClassifier(named).decide_many(rows[["dose", "age"]])
    assert in_order.log_ratios.tobytes() == swapped.log_ratios.tobytes()


def test_one_row_can_be_a_mapping_a_series_an_array_or_a_table_of_one(named: RatioModel) -> None:
    row = frame(1, 1)[0]
    age, dose = (float(value) for value in row.iloc[0])
    forms: list[Any] = [row, {"dose": dose, "age": age}, row.iloc[0], [age, dose], np.array([[age, dose]])]
    ratios = {OnlineClassifier(named).decide(form).log_ratios.tobytes() for form in forms}
    assert len(ratios) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"age": 1.0}, "dose"),
        ({"age": 1.0, "dose": 1.0, "height": 1.0}, "height"),
        (pd.DataFrame({"age": [1.0]}), "columns are missing: dose"),
        (pd.DataFrame({"age": [1.0], "dose": [1.0], "height": [1.0]}), "unknown to the model: height"),
        ([1.0], "2 features"),
        ([1.0, 2.0, 3.0], "2 features"),
        ([[1.0, 2.0], [3.0, 4.0]], "one row"),
        ([1.0, np.nan], "NaN"),
        ([1.0, np.inf], "infinity"),
        ({"age": None, "dose": 1.0}, None),
        (["old", "much"], None),
        (3.0, "2 features"),
    ],
)
def test_a_row_the_model_cannot_take_is_refused_and_changes_nothing(
    row: Any, message: str | None, named: RatioModel
) -> None:
    online = OnlineClassifier(named)
    online.decide([0.5, 0.5])
    before = online.state()
    with pytest.raises(ValueError, match=message):
        online.decide(row)
    assert online.state() == before
    online.decide([0.5, 0.5])


def test_a_model_without_names_takes_no_mapping(unnamed: RatioModel) -> None:
    online = OnlineClassifier(unnamed)
    with pytest.raises(InvalidInputError, match="no column names"):
        online.decide({"age": 1.0, "dose": 2.0})
    with pytest.raises(InvalidInputError, match="2 features"):
        online.decide_many([[1.0, 2.0, 3.0]])
    with pytest.raises(InvalidInputError, match="2 features"):
        online.decide_many([1.0, 2.0])
    assert online.n_rows == 0


def test_one_bad_row_among_many_refuses_them_all(named: RatioModel) -> None:
    online = OnlineClassifier(named)
    before = online.state()
    rows = frame(10, 1)[0]
    rows.iloc[7, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        online.decide_many(rows)
    assert online.state() == before


def test_nan_passes_where_the_model_takes_it() -> None:
    rows, labels = frame(200, 0)
    booster = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    online = OnlineClassifier(RatioClassifier(booster, cv=2, random_state=0).fit(rows, labels))
    assert online.decide({"age": np.nan, "dose": 1.0}).label in (False, True)


def test_a_table_with_strings_is_encoded_alike_in_one_row_and_in_many() -> None:
    rows, labels = frame(200, 0)
    rows["ward"] = np.where(rows["age"] > 0.5, "north", "south")
    encoder = ColumnEncoder.fit(rows)
    booster = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = RatioClassifier(booster, cv=2, random_state=0).fit(encoder.encode(rows), labels).with_encoder(encoder)
    many = OnlineClassifier(model).decide_many(rows.head(20))
    online = OnlineClassifier(model)
    for number, row in enumerate(rows.head(20).to_dict("records")):
        assert_same_decision(online.decide(row), many[number])
    before = online.state()
    with pytest.raises(InvalidInputError, match="columns are missing: ward"):
        online.decide({"age": 1.0, "dose": 1.0})
    with pytest.raises(InvalidInputError, match="'dose' holds numbers"):
        online.decide({"age": 1.0, "dose": "much", "ward": "north"})
    assert online.state() == before
    online.decide({"age": 1.0, "dose": 1.0, "ward": "never seen", "id": "ignored"})


def test_a_model_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="this RatioClassifier is not fitted"):
        OnlineClassifier(RatioClassifier(LogisticRegression()))
    with pytest.raises(InvalidInputError, match=r"wrap it as RatioClassifier\(FrozenEstimator\(model\)\)"):
        OnlineClassifier(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))


@pytest.mark.parametrize("positive", ["theft", 1, True])
def test_a_positive_class_that_does_not_exist_is_refused(positive: Any) -> None:
    with pytest.raises(InvalidInputError, match="positive must be one of"):
        OnlineClassifier(PAIR, positive=positive)


def test_three_classes_and_a_policy_need_a_positive_class() -> None:
    with pytest.raises(InvalidInputError, match="positive="):
        OnlineClassifier(TRIANGLE, policy=FBetaPolicy())


def test_what_is_not_alerted_goes_to_the_most_probable_of_the_others() -> None:
    online = OnlineClassifier(TRIANGLE, policy=PrecisionFloor(0.9), positive="c")
    rows = triangle_scores(100, [0.4, 0.3, 0.3], seed=4)
    decisions = online.decide_many(rows)
    rest = decisions.labels != "c"
    joint = np.log(decisions.effective_priors) + decisions.log_ratios
    expected = np.array(["a", "b"])[np.argmax(joint[rest][:, :2], axis=1)]
    assert decisions.labels[rest].tolist() == expected.tolist()


def test_bbse_starts_from_the_models_own_rows() -> None:
    tracker = BBSE.from_holdout(PAIR.holdout_.log_ratios, PAIR.holdout_.labels, prior=PAIR.prior_)
    online = OnlineClassifier(PAIR, tracker=tracker)
    online.decide_many(pair_scores(2_000, 0.5, seed=3))
    assert abs(online.prior[1] - 0.5) < 0.15  # sd about .03


def test_finds_the_prior_of_a_stream_far_from_training() -> None:
    """Truth .02 after training at .2: three standard deviations of the estimate, calibrator included, are .012."""
    online = OnlineClassifier(PAIR, tracker=SafeTracker())
    online.decide_many(pair_scores(20_000, 0.02, seed=11))
    assert abs(online.prior[1] - 0.02) < 0.012


def test_the_interval_is_wider_than_the_banks_own() -> None:
    online = OnlineClassifier(pair_model(300))
    online.decide_many(pair_scores(5_000, 0.1, seed=12))
    own, whole = online.tracker.interval(0.9), online.interval(0.9)
    assert own is not None
    assert whole is not None
    assert (whole[:, 0] < own[:, 0]).all()
    assert (whole[:, 1] > own[:, 1]).all()
    np.testing.assert_allclose(whole[0], 1.0 - whole[1, ::-1], rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8))
def test_whatever_arrives_the_prior_stays_in_the_simplex_or_nothing_changes(scores: list[float]) -> None:
    online = OnlineClassifier(PAIR, policy=FBetaPolicy())
    for score in scores:
        before = online.state()
        try:
            decision = online.decide(score)
        except InvalidInputError:
            assert online.state() == before
            assert not (np.isfinite(score) and abs(score) < 1e300)
        else:
            assert decision.label in ("fine", "fraud")
        prior = online.prior
        assert (prior >= 0.0).all()
        assert abs(prior.sum() - 1.0) < 1e-9


def test_exact_ratios_are_what_the_model_gives() -> None:
    """2,000 labelled rows: the calibrated ratio of a row is within .6 of the exact one where rows are (3 sd)."""
    stream = pair_stream(200, 0.3, seed=5)
    ratios = PAIR.log_ratios(2.0 * stream.log_ratios[:, 1] + 1.0)
    assert np.abs(ratios - stream.log_ratios).max() < 0.9


def test_a_mapping_of_numbers_and_strings_is_scored_like_its_table() -> None:
    rng = np.random.default_rng(7)
    table = pd.DataFrame(
        {"size": rng.normal(size=300), "ward": rng.choice(["a", "b"], 300), "visits": rng.integers(5, size=300)}
    )
    labels = (table["size"] + (table["ward"] == "b") + rng.normal(size=300) > 1.2).to_numpy()
    strings = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["ward"]), remainder="passthrough")
    model = RatioClassifier(make_pipeline(strings, LogisticRegression()), random_state=0).fit(table, labels)
    for row in range(5):
        online = OnlineClassifier(model)
        expected = online.decide(table.iloc[[row]]).log_ratios
        for form in (table.iloc[row].to_dict(), table.iloc[row]):
            np.testing.assert_array_equal(OnlineClassifier(model).decide(form).log_ratios, expected)


def test_costs_of_two_classes_are_refused_for_three_without_a_positive_one() -> None:
    rng = np.random.default_rng(8)
    labels = rng.integers(3, size=300)
    model = RatioClassifier.from_scores(np.eye(3)[labels] + rng.normal(size=(300, 3)), labels, kind="margin")
    with pytest.raises(InvalidInputError, match="positive="):
        OnlineClassifier(model, costs=Costs(false_positive=1, false_negative=20))
    assert OnlineClassifier(model, costs=Costs(false_positive=1, false_negative=20), positive=2).positive == 2
