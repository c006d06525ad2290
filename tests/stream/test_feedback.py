"""A stream with everything on: views, late labels, silence, the monitor, performance; and all of it restored."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.bayes.costs import Costs
from obil.data.gaussian_stream import GaussianClasses, Stream
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.model.ratio_model import RatioModel
from obil.monitor import LabelShiftMonitor
from obil.policy import FBetaPolicy
from obil.prior import BayesBank, SafeTracker
from obil.stream.online_classifier import OnlineClassifier, monitored_rows

CLASSES = GaussianClasses.spread(2.5, n_features=6)
NAMES = np.array(["fine", "fraud"])


def drawn(n: int, prior: float, seed: int) -> Stream:
    return CLASSES.draw(np.full(n, prior), random_state=seed)


@pytest.fixture(scope="module")
def model() -> RatioModel:
    training = drawn(3_000, 0.1, 0)
    classifier = RatioClassifier(LogisticRegression(), views=True, random_state=0)
    return classifier.fit(training.features, NAMES[training.labels]).model_


def state_of(online: OnlineClassifier) -> str:
    return json.dumps(online.state(), allow_nan=False)


def test_rows_and_labels_in_any_cut_leave_the_same_state(model: RatioModel) -> None:
    stream = drawn(700, 0.2, 1)
    ratios, views = model.log_ratios(stream.features), model.views(stream.features)
    whole, single = OnlineClassifier(model), OnlineClassifier(model)
    cut = OnlineClassifier(model)
    for first in range(0, 700, 50):
        part = slice(first, first + 50)
        whole.decide_log_ratios(ratios[part], views=views[part])
        for row in range(first, first + 50):
            single.decide_log_ratios(ratios[row : row + 1], views=views[row : row + 1])
        cut = OnlineClassifier.from_state(model, json.loads(state_of(cut)))
        for some in (slice(first, first + 1), slice(first + 1, first + 33), slice(first + 33, first + 50)):
            cut.decide_log_ratios(ratios[some], views=views[some])
        for late in range(max(0, first - 100), first, 9):
            for online in (whole, single, cut):
                assert online.feedback(late, NAMES[stream.labels[late]], propensity=0.2)
    assert state_of(whole) == state_of(single) == state_of(cut)
    assert whole.label_counts.labelled > 100
    tracker = whole.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.status == "labels decide"


def test_decide_scores_views_as_decide_many_does(model: RatioModel) -> None:
    stream = drawn(600, 0.1, 2)
    one, many = OnlineClassifier(model), OnlineClassifier(model)
    decisions = [one.decide(row, id=f"order {i}") for i, row in enumerate(stream.features)]
    ids = [f"order {i}" for i in range(600)]
    together = many.decide_many(stream.features, ids=ids)
    assert [d.id for d in decisions] == list(together.ids)
    np.testing.assert_allclose([d.prior for d in decisions], together.priors, atol=1e-6)
    assert one.feedback("order 7", "fine")
    assert not one.feedback(7, "fine")  # a name is a name


def test_labels_that_come_twice_count_once_and_contradictions_replace(model: RatioModel) -> None:
    online = OnlineClassifier(model)
    online.decide_many(drawn(50, 0.1, 3).features)
    assert online.feedback(5, "fraud")
    before = state_of(online)
    assert online.feedback(5, "fraud")
    after = json.loads(state_of(online))
    assert after["tracker"] == json.loads(before)["tracker"]
    assert online.feedback(5, "fine")
    assert not online.feedback(5_000, "fine")
    counts = online.label_counts
    assert (counts.labelled, counts.repeated, counts.replaced, counts.unknown) == (1, 1, 1, 1)
    tracker = online.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.labelled_prior is not None
    assert tracker.labelled_prior.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("bad", ["maybe", None, 1.5, True])
def test_a_label_of_no_class_is_refused_and_nothing_changes(model: RatioModel, bad: object) -> None:
    online = OnlineClassifier(model)
    online.decide_many(drawn(20, 0.1, 3).features)
    before = state_of(online)
    with pytest.raises(InvalidInputError):
        online.feedback(3, bad)
    with pytest.raises(InvalidInputError):
        online.feedback(3, "fraud", propensity=0.0)
    assert state_of(online) == before


def test_silence_counts_as_negative_after_the_horizon_alike_in_any_cut(model: RatioModel) -> None:
    stream = drawn(400, 0.3, 4)
    settings = {"horizon": 100, "silence": "negative"}
    many, single = OnlineClassifier(model, **settings), OnlineClassifier(model, **settings)
    ratios = model.log_ratios(stream.features)
    many.decide_log_ratios(ratios[:150])
    for row in ratios[:150]:
        single.decide_log_ratios(row[None])
    for online in (many, single):
        assert online.feedback(140, "fraud")
    decisions = many.decide_log_ratios(ratios[150:])
    for row in ratios[150:]:
        single.decide_log_ratios(row[None])
    assert state_of(many) == state_of(single)
    assert decisions.priors.shape == (250, 2)
    counts = many.label_counts
    assert (counts.silent, counts.labelled, counts.pending) == (299, 1, 100)
    tracker = many.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.labelled_prior is not None
    assert tracker.labelled_prior[1] == pytest.approx(1 / 300)


@pytest.mark.parametrize(("silence", "message"), [("never", "silence"), (3, "silence")])
def test_silence_must_mean_a_class(model: RatioModel, silence: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        OnlineClassifier(model, silence=silence)


def test_the_monitor_marks_decisions_from_its_alarm_on(model: RatioModel) -> None:
    online = OnlineClassifier(model, monitor=LabelShiftMonitor(monitored_rows(model)))
    calm = online.decide_many(drawn(2_000, 0.3, 5).features)
    assert calm.trusted.all()
    assert online.trusted
    moved = online.decide_many(drawn(4_000, 0.1, 6).features - 1.0)
    watch = online.monitor
    assert watch is not None
    assert watch.alarm_row is not None
    assert not online.trusted
    assert moved.trusted.sum() == watch.alarm_row - 2_000
    assert not online.performance().now.trusted
    assert not online.decide(np.zeros(6)).trusted


def test_performance_is_near_the_truth_where_confidence_is_not(model: RatioModel) -> None:
    costs = Costs(false_positive=1.0, false_negative=5.0)
    online = OnlineClassifier(model, costs=costs, tracker=BayesBank())
    stream = drawn(20_000, 0.01, 7)
    decisions = online.decide_many(stream.features)
    report = online.performance()
    alerts, positive = decisions.labels == "fraud", stream.labels == 1
    precision, recall = positive[alerts].mean(), alerts[positive].mean()
    assert report.window.precision.low <= precision <= report.window.precision.high
    assert report.now.recall.value == pytest.approx(recall, abs=0.12)
    confident = model.predict_proba(stream.features[alerts])[:, 1].mean()
    assert confident - precision > abs(report.window.precision.value - precision)
    assert report.window.precision.source == "expected"
    for row in np.flatnonzero(alerts)[-60:].tolist():
        online.feedback(row, NAMES[stream.labels[row]])
    labelled = online.performance().window.precision
    assert labelled.source == "labels"


def test_performance_needs_a_class_to_speak_of() -> None:
    triangle = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]]), np.eye(2))
    stream = triangle.draw(np.tile([0.6, 0.3, 0.1], (900, 1)), random_state=0)
    many = RatioClassifier.from_scores(stream.log_ratios, stream.labels, kind="margin")
    with pytest.raises(InvalidInputError, match="positive="):
        OnlineClassifier(many).performance()
    online = OnlineClassifier(many, policy=FBetaPolicy(), positive=2)
    online.decide_many(stream.log_ratios[:300])
    assert 0.0 <= online.performance().now.recall.value <= 1.0


def test_a_new_model_keeps_what_labels_taught_and_gets_a_new_monitor(model: RatioModel) -> None:
    online = OnlineClassifier(model)
    stream = drawn(1_000, 0.3, 8)
    online.decide_many(stream.features)
    for row in range(0, 1_000, 5):
        online.feedback(row, NAMES[stream.labels[row]])
    before, old = online.prior, online.monitor
    training = drawn(2_000, 0.1, 9)
    other = RatioClassifier(LogisticRegression(), views=True, random_state=1)
    online.model = other.fit(training.features, NAMES[training.labels])
    np.testing.assert_allclose(online.prior, before, rtol=0.3)
    assert online.monitor is not old
    tracker = online.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.n_labels == 200
    online.decide_many(stream.features[:10])
