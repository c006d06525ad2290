"""A stream with everything on: views, late labels, unlabeled_as, the monitor, performance; and all of it restored."""

import threading

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.bayes.costs import Costs
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.errors import InvalidInputError, InvalidStateError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.resume import settings_in
from obil.online.state.stream_state import read_state
from obil.policies import FBetaPolicy
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank, SafeTracker
from tests.online.state.damaged import pending_of, record_of, with_field, with_part, with_pending

CLASSES = GaussianClasses.spread(2.5, n_features=6)
NAMES = np.array(["fine", "fraud"])


def drawn(n: int, prior: float, seed: int) -> Stream:
    return CLASSES.draw(np.full(n, prior), random_state=seed)


@pytest.fixture(scope="module")
def model() -> RatioModel:
    training = drawn(3_000, 0.1, 0)
    classifier = RatioClassifier(LogisticRegression(), views=True, random_state=0)
    return classifier.fit(training.features, NAMES[training.labels]).model_


def test_rows_and_labels_in_any_cut_leave_the_same_state(model: RatioModel) -> None:
    stream = drawn(700, 0.2, 1)
    scores = model.score(stream.features)
    ratios, evidence = scores.log_ratios, scores.evidence_from(0)
    whole, single = OnlineClassifier(model), OnlineClassifier(model)
    cut = OnlineClassifier(model)
    for first in range(0, 700, 50):
        part = slice(first, first + 50)
        whole.decide_log_ratios(ratios[part], evidence=evidence[part])
        for row in range(first, first + 50):
            single.decide_log_ratios(ratios[row : row + 1], evidence=evidence[row : row + 1])
        cut = OnlineClassifier.from_state(model, cut.state())
        for some in (slice(first, first + 1), slice(first + 1, first + 33), slice(first + 33, first + 50)):
            cut.decide_log_ratios(ratios[some], evidence=evidence[some])
        for late in range(max(0, first - 100), first, 9):
            for online in (whole, single, cut):
                assert online.feedback(late, NAMES[stream.labels[late]], propensity=0.2)
    assert whole.state() == single.state() == cut.state()
    assert whole.label_counts.labelled > 100
    tracker = whole.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.label_weight > 0.01


def test_decide_scores_views_as_decide_many_does(model: RatioModel) -> None:
    stream = drawn(600, 0.1, 2)
    one, many = OnlineClassifier(model), OnlineClassifier(model)
    decisions = [one.decide(row, id=f"order {i}") for i, row in enumerate(stream.features)]
    ids = [f"order {i}" for i in range(600)]
    together = many.decide_many(stream.features, ids=ids)
    assert [d.id for d in decisions] == list(together.ids)
    np.testing.assert_allclose([d.effective_prior for d in decisions], together.effective_priors, atol=1e-6)
    assert one.feedback("order 7", "fine")
    assert not one.feedback(7, "fine")  # a name is a name


def test_labels_that_come_twice_count_once_and_contradictions_replace(model: RatioModel) -> None:
    online = OnlineClassifier(model)
    online.decide_many(drawn(50, 0.1, 3).features)
    assert online.feedback(5, "fraud")
    before = online.state()
    assert online.feedback(5, "fraud")
    after = online.state()
    assert read_state(model, after).record == read_state(model, before).record
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
    before = online.state()
    with pytest.raises(InvalidInputError):
        online.feedback(3, bad)
    with pytest.raises(InvalidInputError):
        online.feedback(3, "fraud", propensity=0.0)
    assert online.state() == before


def test_a_missing_label_counts_as_negative_after_the_horizon_alike_in_any_cut(model: RatioModel) -> None:
    stream = drawn(400, 0.3, 4)
    settings = {"horizon": 100, "unlabeled_as": "negative"}
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
    assert many.state() == single.state()
    assert decisions.effective_priors.shape == (250, 2)
    counts = many.label_counts
    assert (counts.unlabeled, counts.labelled, counts.pending) == (299, 1, 100)
    tracker = many.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.labelled_prior is not None
    assert tracker.labelled_prior[1] == pytest.approx(1 / 300)


@pytest.mark.parametrize(("unlabeled_as", "message"), [("never", "unlabeled_as"), (3, "unlabeled_as")])
def test_unlabeled_as_must_be_a_class(model: RatioModel, unlabeled_as: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        OnlineClassifier(model, unlabeled_as=unlabeled_as)


def test_the_monitor_marks_decisions_from_its_alarm_on(model: RatioModel) -> None:
    online = OnlineClassifier(model, monitor=LabelShiftMonitor.for_model(model, tolerance=0.0))
    calm = online.decide_many(drawn(2_000, 0.3, 5).features)
    assert calm.trusted.all()
    assert online.trusted
    moved = online.decide_many(drawn(4_000, 0.1, 6).features - 1.0)
    monitor = online.monitor
    assert monitor is not None
    assert monitor.alarm_row is not None
    assert not online.trusted
    assert moved.trusted.sum() == monitor.alarm_row - 2_000
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


def test_performance_needs_a_positive_class() -> None:
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


def test_missing_labels_do_not_let_positives_count_before_negatives() -> None:
    """Fraud is reported 50 rows late, and nothing else ever: a steady stream must be decided as without labels."""
    training = drawn(4_000, 0.05, 10)
    model = RatioClassifier(LogisticRegression(), random_state=0).fit(training.features, NAMES[training.labels])
    stream = drawn(3_000, 0.05, 11)
    quiet, unlabeled = OnlineClassifier(model), OnlineClassifier(model, horizon=1_000, unlabeled_as="negative")
    expected = quiet.decide_many(stream.features)
    losses = []
    for row, features in enumerate(stream.features):
        decision = unlabeled.decide(features)
        losses.append(-np.log(decision.posterior[stream.labels[row]]))
        if row >= 50 and stream.labels[row - 50]:
            assert unlabeled.feedback(row - 50, "fraud")
    without = -np.log(expected.posteriors[np.arange(3_000), stream.labels])
    assert np.mean(losses) <= 1.03 * without.mean()
    assert unlabeled.prior[1] == pytest.approx(0.05, abs=0.02)
    tracker = unlabeled.tracker
    assert isinstance(tracker, SafeTracker)
    assert tracker.labelled_prior is not None
    assert tracker.labelled_prior[1] == pytest.approx(stream.labels[:2_000].mean())


def test_a_right_model_is_not_recalibrated_by_what_labels_said_of_a_wrong_one() -> None:
    training = drawn(3_000, 0.1, 12)
    scores = training.log_ratios[:, 1]
    steep = RatioClassifier.from_scores(scores, NAMES[training.labels], kind="margin").model_
    stream = drawn(6_000, 0.1, 13)
    online = OnlineClassifier(steep, monitor=False)
    for row, score in enumerate(2.2 * stream.log_ratios[:3_000, 1]):  # the scores have become too bold
        online.decide(score)
        online.feedback(row, NAMES[stream.labels[row]])
    other = drawn(3_000, 0.1, 14)  # a model from the same rows would be the same model
    online.model = RatioClassifier.from_scores(other.log_ratios[:, 1], NAMES[other.labels], kind="margin")
    fresh = OnlineClassifier(steep, monitor=False)
    later = slice(3_000, 6_000)
    losses = []
    for one in (online, fresh):
        decisions = one.decide_many(stream.log_ratios[later, 1])
        losses.append(-np.log(decisions.posteriors[np.arange(3_000), stream.labels[later]]).mean())
    assert losses[0] < 1.02 * losses[1]
    before = record_of(online.model, online.state())["tracker.labels.maps"]
    assert online.feedback(2_990, "fraud") or online.feedback(2_990, "fine")  # of a row that the old model scored
    after = record_of(online.model, online.state())["tracker.labels.maps"]
    assert after.tobytes() == before.tobytes()


def test_readers_make_a_writer_wait_and_not_fail(model: RatioModel) -> None:
    online = OnlineClassifier(model)
    online.decide_many(drawn(500, 0.1, 14).features)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            online.performance()
            online.explain()
            online.state()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for row in drawn(30, 0.1, 15).features:
            online.decide(row)
    finally:
        stop.set()
        reader.join(30.0)
    assert online.n_rows == 530


@pytest.mark.parametrize("unlabeled_as", [None, "negative"])
def test_evidence_that_does_not_fit_is_refused_before_a_row_is_decided(
    model: RatioModel, unlabeled_as: str | None
) -> None:
    online = OnlineClassifier(model, unlabeled_as=unlabeled_as)
    stream = drawn(10, 0.1, 16)
    scores = model.score(stream.features)
    ratios, evidence = scores.log_ratios, scores.evidence_from(0)
    broken, moved, half = evidence.copy(), evidence.copy(), evidence.copy()
    broken[5, 0, 1], moved[5, 0, 0], half[5, 1, 1] = np.inf, 0.1, np.nan  # only the first source marks an empty row
    before = online.state()
    for wrong in (evidence[:5], evidence[:, :3], broken, moved, half, np.concatenate([evidence, evidence]), ratios):
        with pytest.raises(InvalidInputError, match="evidence"):
            online.decide_log_ratios(ratios, evidence=wrong)
    with pytest.raises(InvalidInputError):
        online.decide_log_ratios(ratios, evidence=evidence, ids=(i for i in range(3)))
    assert online.state() == before


def test_monitors_of_other_classes_are_refused_and_settings_survive_a_new_model(model: RatioModel) -> None:
    triangle = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]]), np.eye(2))
    stream = triangle.draw(np.tile([0.6, 0.3, 0.1], (900, 1)), random_state=0)
    many = RatioClassifier.from_scores(stream.log_ratios, stream.labels, kind="margin").model_
    for wrong in (LabelShiftMonitor.for_model(many), "yes"):
        with pytest.raises(InvalidInputError, match="monitor"):
            OnlineClassifier(model, monitor=wrong)
    online = OnlineClassifier(model, monitor=LabelShiftMonitor.for_model(model, alpha=0.05, tolerance=0.1))
    online.model = model
    settings = settings_in(online.model, online.state())
    assert settings["monitor"] == {"alpha": 0.05, "delta": 0.005, "tolerance": 0.1, "block": 1}


def test_a_restarted_monitor_forgets_the_alarm_and_labels_count_by_their_row(model: RatioModel) -> None:
    online = OnlineClassifier(model, monitor=LabelShiftMonitor.for_model(model, tolerance=0.0))
    online.decide_many(drawn(300, 0.1, 17).features)
    online.decide_many(drawn(2_000, 0.1, 18).features - 1.5)
    assert not online.trusted
    assert online.feedback(0, "fine")  # of a row before the alarm
    assert online.labels_since_alarm == (0, 0)
    assert online.feedback(2_299, "fraud")
    assert online.labels_since_alarm == (0, 1)
    assert online.feedback(2_299, "fine")
    assert online.labels_since_alarm == (1, 0)
    again = OnlineClassifier.from_state(model, online.state())
    assert again.labels_since_alarm == (1, 0)
    online.restart_monitor()
    assert online.trusted
    assert online.labels_since_alarm == (0, 0)
    with pytest.raises(InvalidInputError, match="no monitor"):
        OnlineClassifier(model, monitor=False).restart_monitor()


def test_a_state_whose_parts_saw_other_rows_is_refused(model: RatioModel) -> None:
    short, long = OnlineClassifier(model), OnlineClassifier(model)
    short.decide_many(drawn(50, 0.1, 19).features)
    long.decide_many(drawn(90, 0.1, 19).features)
    for part in ("tally.", "history."):
        with pytest.raises(InvalidStateError, match="saw 50 rows, the stream 90"):
            OnlineClassifier.from_state(model, with_part(model, long.state(), part, short.state()))
    waiting = pending_of(model, short.state())
    with pytest.raises(InvalidStateError, match="labels saw 50 rows, the stream 90"):
        OnlineClassifier.from_state(model, with_pending(model, long.state(), lambda _: waiting))
    with pytest.raises(InvalidStateError, match="monitor saw more rows"):
        OnlineClassifier.from_state(model, with_part(model, short.state(), "monitor.", long.state()))


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("seen", 0, -1),
        ("seen", 0, 2**60),
        ("seen", 1, -1),
        ("seen", 1, 51),
        ("since_alarm", 0, -1),
        ("since_alarm", 1, -(2**62)),
        ("since_alarm", 1, 51),
        ("since_alarm", 0, 2**63 - 1),
    ],
)
def test_counters_that_no_stream_can_have_are_refused(model: RatioModel, field: str, place: int, value: int) -> None:
    online = OnlineClassifier(model)
    online.decide_many(drawn(50, 0.1, 19).features)
    state = with_field(model, online.state(), f"counters.{field}", place, value)
    with pytest.raises(InvalidStateError, match="damaged"):
        OnlineClassifier.from_state(model, state)
