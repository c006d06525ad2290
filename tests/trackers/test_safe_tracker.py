"""The safe tracker's guarantee on adversarial labels, exact resumption, and refusal of bad input."""

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError, InvalidStateError, NotStartedError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import as_ratio_model
from obil.trackers import BayesBank, SafeTracker
from obil.trackers.restore import restore_tracker
from tests.thorough import repeats
from tests.trackers.cases import assert_in_simplex, start_prior, stream, through_json, with_views
from tests.trackers.test_label_experts import EQUAL, START_WEIGHTS, Advice, ReferenceExperts
from tests.trackers.test_view_guard import some_view_reference

N_EXPERTS = 9
LabelChooser = Callable[[int, FloatArray, FloatArray], int]  # (t, the mixture's log posterior, the experts') -> label


def bound(n_labels: int, weights: FloatArray = START_WEIGHTS) -> FloatArray:
    """Return what the docstring allows on so many labelled rows after the first, against each expert, (M,)."""
    return np.asarray(np.log(1.0 / weights) + np.log(n_labels + 1) + n_labels / 999)


def bound_of_sequences(losses: FloatArray, n_switches: int, weights: FloatArray = START_WEIGHTS) -> FloatArray:
    """Return what the docstring allows against the best sequence of experts with at most 0 ... n_switches switches.

    Losses are (T, M); each switch costs log(1000) more, and log 1/w of the expert it leads to.
    """
    best = (losses[0] - np.log(weights))[None].repeat(n_switches + 1, axis=0)  # (S+1, M)
    for loss in losses[1:]:
        switched = best[:-1].min(axis=1, keepdims=True) + np.log(1000) - np.log(weights)
        best[1:] = np.minimum(best[1:], switched)
        best += loss
    return np.asarray(best.min(axis=1) + np.log(len(losses) + 1) + len(losses) / 999)


def weights_of(tracker: SafeTracker) -> FloatArray:
    return np.array(list(tracker.expert_weights.values()))


class Oracle:
    """The experts beside a tracker: banks of their own, and the rest from the reference."""

    def __init__(self, start: FloatArray) -> None:
        self.slow = BayesBank.slow(start)
        self.fast = BayesBank(start)
        self.experts = ReferenceExperts(start)

    def advice(self) -> Advice:
        return self.experts.advise(self.slow.prior, self.fast.prior)

    def update(self, rows: FloatArray) -> None:
        self.slow.update_many(rows)
        self.fast.update_many(rows)


def rows_that_hurt(rng: np.random.Generator, kind: int, n_rows: int, n_classes: int) -> FloatArray:
    size = rng.choice([0.3, 2.0, 6.0])
    rows = rng.normal(scale=size, size=(n_rows, n_classes))
    if kind == 1:  # regimes that alternate
        rows[:, 1] += np.where((np.arange(n_rows) // rng.integers(2, 12)) % 2, size, -size)
    elif kind == 2:  # a few sizes, as large as the cut of a row's prior at 1e-15 lets pass
        rows = rng.choice([-10.0, -1.0, 0.0, 1.0, 10.0], size=rows.shape)
    elif kind == 3:  # all alike
        rows[:] = rows[0]
    rows = np.clip(rows, -10.0, 10.0)
    rows[:, 0] = 0.0
    return rows


def labels_that_hurt(rng: np.random.Generator, kind: int, n_classes: int) -> LabelChooser:
    period = int(rng.integers(1, 15))
    choosers: list[LabelChooser] = [
        lambda t, own, experts: int(np.argmin(own)),  # opposite to the mixture
        lambda t, own, experts: int(np.argmax(experts.max(axis=0) - own)),  # where an expert beats it most
        lambda t, own, experts: (t // period) % n_classes,
        lambda t, own, experts: int(np.argmax(experts[2] - own)),  # the fast bank is right, whatever it says
        lambda t, own, experts: int(rng.integers(n_classes)),
    ]
    return choosers[kind]


@pytest.mark.parametrize("part", range(4))
def test_the_mixture_keeps_its_bound_on_adversarial_labels(part: int) -> None:
    # 4 x 120 sequences (a thorough run: 4 x 250), seeds from 0 on, every kind of rows with every kind of labels in
    # each part; each label follows its row, and the first does not count
    size = repeats(120, 250)
    for seed in range(size * part, size * part + size):
        rng = np.random.default_rng(seed)
        n_classes, n_rows = 2 + seed % 2, 200 if seed % 125 == 0 else 22
        start = np.maximum(rng.dirichlet(np.full(n_classes, 0.5)), 1e-4)
        start /= start.sum()
        rows = rows_that_hurt(rng, seed // 2 % 4, n_rows, n_classes)
        choose = labels_that_hurt(rng, seed // 8 % 5, n_classes)
        propensities = 10.0 ** rng.uniform(-3.0, 0.0, size=n_rows) if seed % 3 else np.ones(n_rows)
        propensities[0] = propensities.min()  # the least is declared from the first label on
        tracker, oracle = SafeTracker(start), Oracle(start)
        own, losses = 0.0, []
        for t, row in enumerate(rows):
            advice, prior = oracle.advice(), tracker.update(row)
            if t == 0 or rng.random() < 0.8:
                posterior, posteriors = log_softmax(row + np.log(prior)), advice.log_posteriors(row)
                label, weight = choose(t, posterior, posteriors), propensities[0] / propensities[t]
                tracker.feedback(row, label, propensity=propensities[t], row=t if seed % 4 else None)
                oracle.experts.learn(row, label, advice, propensity=propensities[t])
                np.testing.assert_allclose(weights_of(tracker), oracle.experts.weights, rtol=0, atol=1e-9)
                if t > 0:
                    own -= weight * posterior[label]
                    losses.append(-weight * posteriors[:, label])
                    assert own <= (np.sum(losses, axis=0) + bound(len(losses))).min() + 1e-9
            oracle.update(row[None])
        assert (own <= bound_of_sequences(np.array(losses), 3) + 1e-9).all()


def test_the_bound_holds_by_the_least_propensity_so_far_wherever_it_comes() -> None:
    # seeds 0 ... 39: the least propensity falls every twenty labels or so; the losses before are weighed anew by it
    for seed in range(40):
        rng = np.random.default_rng(seed)
        tracker, oracle = SafeTracker(0.3), Oracle(np.array([0.7, 0.3]))
        rows = rows_that_hurt(rng, seed % 4, 80, 2)
        levels = np.sort(10.0 ** rng.uniform(-3.0, 0.0, size=4))[::-1]
        own, losses, choose = 0.0, np.zeros(N_EXPERTS), labels_that_hurt(rng, seed // 4 % 5, 2)
        for t, row in enumerate(rows):
            advice, prior = oracle.advice(), tracker.update(row)
            posterior, posteriors = log_softmax(row + np.log(prior)), advice.log_posteriors(row)
            label, propensity = choose(t, posterior, posteriors), float(rng.choice([levels[t // 20], 1.0]))
            tracker.feedback(row, label, propensity=propensity)
            oracle.experts.learn(row, label, advice, propensity=propensity)
            np.testing.assert_allclose(weights_of(tracker), oracle.experts.weights, rtol=0, atol=1e-9)
            oracle.update(row[None])
            if t > 0:
                own -= posterior[label] / propensity
                losses -= posteriors[:, label] / propensity
            least = oracle.experts.least
            assert least * own <= (least * losses + bound(t)).min() + 1e-9


def test_the_bound_is_not_idle_a_mixture_that_learns_nothing_breaks_it() -> None:
    rng = np.random.default_rng(1)
    tracker, oracle = SafeTracker(0.01), Oracle(np.array([0.99, 0.01]))
    own, losses = 0.0, np.zeros(N_EXPERTS)
    for row in np.column_stack([np.zeros(200), rng.normal(size=200)]):
        advice = oracle.advice()
        own -= log_softmax(row + np.log(tracker.prior))[1]  # never told
        losses -= advice.log_posteriors(row)[:, 1]
        oracle.experts.learn(row, 1, advice)
    assert own > (losses + bound(200)).min()


def test_the_bound_holds_where_the_labelled_row_moves_the_fast_bank() -> None:
    # the fast bank knows each regime from unlabelled rows; the labelled row moves it before its label comes
    rng = np.random.default_rng(0)
    start = np.array([0.95, 0.05])
    tracker, oracle = SafeTracker(start), Oracle(start)
    unlabeled, row = np.zeros(2), np.array([0.0, 6.0])
    oracle.experts.learn(unlabeled, 0, oracle.advice())
    tracker.feedback(unlabeled, 0)  # a first label on which all agree
    own, losses = 0.0, np.zeros(N_EXPERTS)
    for n in range(80):
        label = n % 2
        quiet = np.where(rng.random(300) < 0.4 * label, 8.0, -8.0)
        regime = np.column_stack([np.zeros(300), quiet])
        tracker.update_many(regime)
        oracle.update(regime)
        advice = oracle.advice()
        prior = tracker.update(row)
        own -= log_softmax(row + np.log(prior))[label]
        losses -= advice.log_posteriors(row)[:, label]
        tracker.feedback(row, label)
        oracle.update(row[None])
        oracle.experts.learn(row, label, advice)
        assert own <= (losses + bound(n + 1)).min()


def test_with_unequal_start_weights_the_bound_holds_by_the_weight_of_each_expert() -> None:
    # the training prior begins with almost all of it, and is wrong
    start, weights, row = np.array([0.999, 0.001]), np.full(N_EXPERTS, 1e-6), np.zeros(2)
    weights[0] = 1.0 - 8e-6
    tracker, oracle = SafeTracker(start, start_weights=weights.tolist()), Oracle(start)
    own, losses = 0.0, np.zeros(N_EXPERTS)
    for t in range(60):
        advice, prior = oracle.advice(), tracker.update(row)
        tracker.feedback(row, 1)
        oracle.experts.learn(row, 1, advice)
        oracle.update(row[None])
        if t > 0:
            own -= np.log(prior[1])
            losses -= advice.log_posteriors(row)[:, 1]
        assert own <= (losses + bound(t, weights)).min() + 1e-9
    assert own > (losses + bound(59, EQUAL)).min()  # that of equal weights would not do


def test_the_first_labelled_row_is_outside_the_guarantee_because_the_lead_decides_it_alone() -> None:
    start = np.array([0.999, 0.001])
    tracker, oracle = SafeTracker(start), Oracle(start)
    rows = np.column_stack([np.zeros(30), np.full(30, 15.0)])
    tracker.update_many(rows)
    oracle.update(rows)
    row = np.array([0.0, 6.0])
    losses = -oracle.advice().log_posteriors(row)[:, 0]
    own = -log_softmax(row + np.log(tracker.update(row)))[0]
    assert own == losses[1]
    assert own > (losses + bound(1)).min()


@pytest.mark.parametrize(
    "log_ratio",
    [
        30.0,
        300.0,
        750.0,
    ],
)
def test_the_bound_holds_for_sure_rows_that_are_wrong(log_ratio: float) -> None:
    start = np.array([0.5, 0.5])
    tracker, oracle = SafeTracker(start), Oracle(start)
    own, losses = 0.0, np.zeros(N_EXPERTS)
    for n in range(60):
        row, label = np.array([0.0, log_ratio if n % 2 else -log_ratio]), 1 - n % 2
        advice, prior = oracle.advice(), tracker.update(row)
        tracker.feedback(row, label)
        oracle.experts.learn(row, label, advice)
        oracle.update(row[None])
        if n > 0:
            own -= log_softmax(row + np.log(prior))[label]
            losses -= advice.log_posteriors(row)[:, label]
        assert own <= (losses + bound(n)).min() + 1e-9 * abs(own)


def test_the_number_of_the_row_just_decided_means_just_now() -> None:
    rng = np.random.default_rng(2)
    plain, numbered = SafeTracker(0.1), SafeTracker(0.1)
    for n, row in enumerate(np.column_stack([np.zeros(150), rng.normal(size=150)])):
        for tracker, number in ((plain, None), (numbered, n)):
            tracker.update(row)
            tracker.feedback(row, n % 3 % 2, row=number)
    assert plain.state() == numbered.state()


def test_a_label_just_now_is_weighed_alike_whether_its_row_came_singly_or_last_of_many() -> None:
    # before any label the experts' advice is only worked out for rows that need it
    rows = stream(130, 2, seed=3)
    for n_rows in (1, 2, 64, 65, 130):
        singly, at_once = SafeTracker(0.1), SafeTracker(0.1)
        for row in rows[:n_rows]:
            singly.update(row)
        at_once.update_many(rows[:n_rows])
        for tracker in (singly, at_once):
            tracker.feedback(rows[n_rows - 1], 1)
        assert singly.state() == at_once.state()


# --- labels -----------------------------------------------------------------------------------------------------


def alerts_and_some_at_random(seed: int) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the labelled rows of 3,000 at prior .1: every alert, and one in fifty of the others."""
    rng = np.random.default_rng(seed)
    drawn = GaussianClasses.pair(2.0).draw(np.full(3_000, 0.1), random_state=rng)
    propensities = np.where(drawn.log_ratios[:, 1] > 1.5, 1.0, 0.02)
    asked = rng.random(3_000) < propensities
    return drawn.log_ratios[asked], drawn.labels[asked], propensities[asked]


def test_the_labelled_prior_is_hajeks_estimator_and_unbiased() -> None:
    # seeds 0 ... 199; two standard errors: a false failure in 20, settled by the seeds
    found: list[float] = []
    naive: list[float] = []
    for seed in range(200):
        rows, labels, propensities = alerts_and_some_at_random(seed)
        tracker = SafeTracker(0.3)
        assert tracker.labelled_prior is None
        for row, label, propensity in zip(rows, labels.tolist(), propensities.tolist(), strict=True):
            tracker.feedback(row, label, propensity=propensity)
        by_labels = tracker.labelled_prior
        assert by_labels is not None
        hajek = np.bincount(labels, weights=1.0 / propensities) / (1.0 / propensities).sum()
        np.testing.assert_allclose(by_labels, hajek, rtol=1e-12)
        found.append(float(by_labels[1]))
        naive.append(float(labels.mean()))
        assert tracker.n_labels == len(labels)
    error = np.std(found, ddof=1) / np.sqrt(200)
    assert error < 0.005
    assert abs(np.mean(found) - 0.1) < 2.0 * error
    assert np.mean(naive) > 0.3


def test_labels_decide_once_they_come() -> None:
    # log ratios that are too low by 1.5: to the banks the prior is lower than it is
    classes = GaussianClasses.pair(2.0)
    drawn = classes.draw(np.full(1_500, 0.5), random_state=3)
    for lead in ("auto", "fast", "training"):
        tracker = SafeTracker(0.1, lead=lead)
        assert not tracker.status.startswith("labels")
        for row, label in zip(drawn.log_ratios - [0.0, 1.5], drawn.labels.tolist(), strict=True):
            tracker.update(row)
            tracker.feedback(row, label)
        assert tracker.status.startswith("labels decide: their weight")
        assert abs(tracker.prior[1] - 0.5) < 0.15
        low, high = tracker.interval()[1]
        assert 0.0 < low < 0.5 < high < 1.0
        assert high - low < 0.4
        np.testing.assert_allclose(weights_of(tracker).sum(), 1.0)


def test_a_label_that_replaces_itself_changes_nothing() -> None:
    tracker = SafeTracker(0.2)
    tracker.feedback([0.0, 1.0], 1)
    before = tracker.state()
    tracker.feedback([0.0, 1.0], 1, replaced=1)
    assert tracker.state() == before


def test_asking_for_priors_changes_nothing_and_says_what_update_will() -> None:
    rows = stream(200, 3, seed=4)
    tracker = SafeTracker(start_prior(3))
    for n, row in enumerate(rows):
        before = tracker.state()
        asked = tracker.priors_for(row[None])[0]
        assert tracker.state() == before
        np.testing.assert_array_equal(tracker.update(row), asked)
        if n % 3 == 0:
            tracker.feedback(row, n % 2)


def test_the_prior_is_the_prevalence_although_rows_are_decided_otherwise() -> None:
    """The ratio is off by 1.5: recalibration decides, and the prevalence is still that of the labels."""
    rng = np.random.default_rng(0)
    labels = (rng.random(20_000) < 0.1).astype(int)
    exact = 2.5 * (rng.standard_normal(20_000) + 2.5 * labels) - 3.125
    rows = np.column_stack([np.zeros(20_000), exact - 1.5])
    tracker = SafeTracker(0.1)
    for row, label in zip(rows, labels.tolist(), strict=True):
        tracker.update(row)
        if rng.random() < 0.1:
            tracker.feedback(row, label, propensity=0.1)
    assert abs(tracker.prior[1] - 0.1) < 0.03
    effective = tracker.priors_for(np.zeros((1, 2)))[0, 1]
    assert effective > 0.25  # what makes up for the offset


def test_the_lead_decides_until_labels_come() -> None:
    rows = stream(700, 2, seed=5)
    slow = BayesBank.slow(0.3)
    np.testing.assert_array_equal(SafeTracker(0.3).update_many(rows), slow.update_many(rows))
    np.testing.assert_array_equal(SafeTracker(0.3, lead="fast").update_many(rows), BayesBank(0.3).update_many(rows))
    kept = SafeTracker(0.3, lead="training").update_many(rows)
    np.testing.assert_allclose(kept, np.tile([0.7, 0.3], (700, 1)), rtol=1e-12)


def test_the_interval_of_an_almost_certain_class_is_finite() -> None:
    tracker = SafeTracker(1e-15)
    for _ in range(300):
        tracker.feedback([0.0, -1.0], 0)
    assert np.isfinite(tracker.interval()).all()


def test_the_status_of_a_fast_lead_without_views_does_not_mention_views() -> None:
    assert "views agree" not in SafeTracker(0.3, lead="fast").status


def test_start_weights_are_where_the_experts_begin() -> None:
    weights = [0.3, 0.3, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02]
    tracker = SafeTracker(0.3, start_weights=weights)
    assert weights_of(tracker).tolist() == weights
    tracker.feedback([0.0, 0.0], 0)  # all experts agree on this one
    np.testing.assert_allclose(weights_of(tracker), weights, rtol=1e-9)


# --- bit for bit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "n_views"), [(2, 0), (2, 2), (3, 2)])
def test_batches_single_rows_and_restored_trackers_agree_bit_for_bit(n_classes: int, n_views: int) -> None:
    # seed 6: 1,700 rows; labels late and out of order at random cuts, some of them replaced
    rng = np.random.default_rng(6)
    rows = stream(1_700, n_classes, seed=7)
    views = rows[:, None] + rng.normal(scale=0.5, size=(1_700, n_views, n_classes))
    own = rows + rng.normal(scale=0.5, size=rows.shape)  # what the prior is read from
    own[:, 0], views[:, :, 0] = 0.0, 0.0
    evidence = with_views(own, views)
    cuts = [0, *sorted(rng.choice(np.arange(1, 1_700), size=40, replace=False).tolist()), 1_700]
    known = some_view_reference(n_views, n_classes, seed=8)
    at_once, singly, restored = (SafeTracker(start_prior(n_classes), view_reference=known) for _ in range(3))
    given: dict[int, int] = {}
    for first, last in itertools.pairwise(cuts):
        part, shown = rows[first:last], evidence[first:last] if rng.random() < 0.8 else None
        priors = at_once.update_many(part, evidence=shown)
        one_by_one = [singly.update(row, evidence=None if shown is None else shown[i]) for i, row in enumerate(part)]
        np.testing.assert_array_equal(priors, one_by_one)
        restored = through_json(restored)
        np.testing.assert_array_equal(priors, restored.update_many(part, evidence=shown))
        for _ in range(rng.integers(0, 6)):
            number = int(rng.integers(last))
            label, propensity = int(rng.integers(n_classes)), float(rng.choice([1.0, 0.3, 0.05]))
            for tracker in (at_once, singly, restored):
                tracker.feedback(rows[number], label, propensity=propensity, row=number, replaced=given.get(number))
            given[number] = label
            restored = through_json(restored)
        assert at_once.state() == singly.state() == restored.state()
        np.testing.assert_array_equal(at_once.interval(), restored.interval())
    assert at_once.n_labels > 50
    assert at_once.status == restored.status
    assert "weight of labels is" in at_once.status or at_once.status.startswith("labels decide")
    assert restore_tracker(at_once.state()).state() == at_once.state()


# --- hostile ----------------------------------------------------------------------------------------------------


def refuse_feedback(
    tracker: SafeTracker, *args: Any, error: type[Exception] = InvalidInputError, **options: Any
) -> None:
    before = tracker.state()
    with pytest.raises(error):
        tracker.feedback(*args, **options)
    assert tracker.state() == before


def fed(n_classes: int = 2) -> SafeTracker:
    """Return a tracker that has seen rows, views and labels."""
    rows = stream(700, n_classes, seed=9)
    tracker = SafeTracker(start_prior(n_classes), view_reference=some_view_reference(2, n_classes, seed=10))
    tracker.update_many(rows, evidence=np.stack([rows] * 3, axis=1))
    for n in range(30):
        tracker.feedback(rows[n], n % n_classes, propensity=0.5, row=n)
    return tracker


@pytest.mark.parametrize("label", [-1, 2, 10**30, True, np.bool_(True), 1.0, "1", None, [1], np.nan])
def test_a_label_that_is_no_class_number_is_refused(label: Any) -> None:
    refuse_feedback(fed(), [0.0, 1.0], label)
    if label is not None:
        refuse_feedback(fed(), [0.0, 1.0], 0, replaced=label)


@pytest.mark.parametrize("propensity", [0.0, -0.1, 2.0, 1.0 + 1e-9, np.nan, np.inf, 1e-10, "x", None])
def test_a_propensity_outside_its_range_is_refused(propensity: Any) -> None:
    refuse_feedback(fed(), [0.0, 1.0], 1, propensity=propensity)


@pytest.mark.parametrize("row", [[0.0, np.nan], [0.0, np.inf], [0.5, 1.0], [0.0, 1.0, 2.0], [0.0], 0.0, None])
def test_log_ratios_that_are_no_row_are_refused(row: Any) -> None:
    refuse_feedback(fed(), row, 1)


@pytest.mark.parametrize("row", ["x", [0.0, "x"], [0.0, [1.0, 2.0]], {}])
def test_log_ratios_that_are_no_numbers_are_refused_as_invalid_input(row: Any) -> None:
    refuse_feedback(fed(), row, 1)


@pytest.mark.parametrize("number", [-1, 10**30, 1.5, "3", True, np.nan])
def test_a_row_number_that_is_none_is_refused(number: Any) -> None:
    refuse_feedback(fed(), [0.0, 1.0], 1, row=number)


@pytest.mark.parametrize("ahead", [0, 1, 10**6])
def test_the_number_of_a_row_that_was_not_decided_is_refused(ahead: int) -> None:
    refuse_feedback(fed(), [0.0, 1.0], 1, row=700 + ahead)


@pytest.mark.parametrize("propensity", [[0.5], [0.5, 0.5], np.array([0.5])])
def test_a_propensity_that_is_no_single_number_is_refused_as_invalid_input(propensity: Any) -> None:
    refuse_feedback(fed(), [0.0, 1.0], 1, propensity=propensity)


def test_a_label_cannot_replace_one_when_none_came() -> None:
    refuse_feedback(SafeTracker(0.2), [0.0, 1.0], 1, replaced=0)


def test_an_unstarted_tracker_says_so() -> None:
    tracker = SafeTracker()
    for use in (
        lambda: tracker.feedback([0.0, 1.0], 1),
        lambda: tracker.priors_for([[0.0, 1.0]]),
        tracker.interval,
        lambda: tracker.status,
        lambda: tracker.admitted,
        lambda: tracker.expert_weights,
        lambda: tracker.labelled_prior,
    ):
        with pytest.raises(NotStartedError):
            use()


@pytest.mark.parametrize("lead", ["", "Slow", "bank", None, 1])
def test_a_lead_that_is_none_is_refused(lead: Any) -> None:
    with pytest.raises(InvalidInputError):
        SafeTracker(0.2, lead=lead)


@pytest.mark.parametrize(
    "weights",
    [[], [1.0], [1 / 8] * 8, [1 / 9] * 10, [0.2] * 9, [0.0] + [1 / 8] * 8, [np.nan] * 9, [-1.0] + [2 / 8] * 8, "x"],
)
def test_start_weights_that_are_no_distribution_are_refused(weights: Any) -> None:
    with pytest.raises(InvalidInputError):
        SafeTracker(0.2, start_weights=weights)


@pytest.mark.parametrize(
    "options",
    [
        {"lead": []},
        {"start_weights": 5},
        {"start_weights": {}},
        {"view_reference": 5},
        {"view_reference": []},
        {"start_weights": [[1.0], [1.0, 2.0]]},
        {"lead": np.array(["auto", "fast"])},
    ],
)
def test_settings_of_a_wrong_kind_are_refused_as_invalid_input(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidInputError, InvalidStateError)):
        SafeTracker(0.2, **options)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_hostile_rows_with_hostile_labels_stay_inside_the_simplex(n_classes: int) -> None:
    # seed 11; 1e300 and not 1.7e308, whose products overflow: see the tests of the experts
    rng = np.random.default_rng(11)
    palette = np.array([0.0, 1e-300, 1.0, -1.0, 30.0, -30.0, 745.2, -745.2, 1e5, -1e5, 1e300, -1e300])
    for rarest in (1e-15, 1e-4, 0.3):
        start = np.full(n_classes, rarest / (n_classes - 1))
        start = np.maximum(start, 1e-15)
        start[0] = 1.0 - start[1:].sum()
        tracker = SafeTracker(start, view_reference=some_view_reference(1, n_classes, seed=12))
        rows = rng.choice(palette, size=(600, n_classes))
        rows[:, 0] = 0.0
        for first in range(0, 600, 20):
            part = rows[first : first + 20]
            assert_in_simplex(tracker.update_many(part, evidence=np.stack([part, -part], axis=1)))
            for n in range(10):
                tracker.feedback(part[n], int(rng.integers(n_classes)), propensity=10.0 ** rng.uniform(-9.0, 0.0))
            assert_in_simplex(tracker.prior)
            assert_in_simplex(tracker.priors_for(part))
            ends = tracker.interval()
            assert np.isfinite(ends).all()
            assert (ends[:, 0] <= ends[:, 1]).all()
        through_json(tracker)


# --- damaged states ---------------------------------------------------------------------------------------------


def changed(state: dict[str, Any], field: str, index: tuple[int, ...], value: Any) -> dict[str, Any]:
    damaged = copy.deepcopy(state)
    values = damaged["memory"][field]
    for i in index[:-1]:
        values = values[i]
    values[index[-1]] = value
    return damaged


DAMAGES: list[tuple[str, tuple[int, ...], Any]] = [
    ("guard.seen", (0,), -1),
    ("guard.seen", (0,), 500),
    ("guard.seen", (1,), -1),
    ("guard.seen", (0,), 1.5),
    ("guard.information", (0, 0, 0), -1.0),
    ("guard.squares", (0, 1, 0), -1.0),
    ("labels.weights", (0,), -0.1),
    ("labels.weights", (0,), 0.9),
    ("labels.counts", (1, 1), -1.0),
    ("labels.seen", (0,), -1),
    ("labels.seen", (1,), -1),
    ("labels.seen", (0,), 10),  # fewer rows than the past holds
    ("labels.least_propensity", (0,), 0.0),
    ("labels.least_propensity", (0,), 1.5),
    ("labels.past_rows", (0, 0), 10**6),
    ("labels.past_labels", (0, 0), 10**6),
    ("labels.precisions", (0, 0, 1), 9.0),
    ("labels.precisions", (0, 0, 0), -1.0),
    ("slow.counts", (0, 0), -1.0),
    ("fast.weights", (0, 0), -1.0),
    ("prior", (0,), 2.0),
    ("labels.counts", (0, 0), 1e308),
    ("slow.prior", (1,), 2.0),
    ("slow.prior", (1,), -1.0),
    ("fast.prior", (0,), -1.0),
    ("labels.maps", (0, 0), 1e308),  # the slope of a recalibration
    ("labels.maps", (0, 0), -1.0),
    ("guard.bounds", (0, 0), 0.5),  # below is above
    ("guard.bounds", (0, 1), -0.5),
    ("guard.block", (1, 0, 0, 0), -1e9),  # squared scores
    ("labels.latest", (0, 0), -1.0),
    ("labels.latest", (8, 0), 1e308),
    ("labels.arrivals", (0,), 10**6),
    ("labels.past", (0, 0, 0, 0), 1e308),
]
ESCAPES: list[tuple[str, tuple[int, ...], Any]] = [
    ("labels.latest", (0, 1), 1e308),
    ("labels.arrivals", (0,), -1),
    ("labels.past_labels", (0, 0), -1),
    ("labels.precisions", (0, 0, 0), 1e308),
    ("guard.shifts", (0, 0, 0), 9.0),
    ("guard.disagreement", (0,), -1.0),
    ("guard.reference", (0,), -1.0),
    ("guard.information", (0, 0, 0), 1e308),
]


@pytest.mark.parametrize(("field", "index", "value"), DAMAGES)
def test_values_that_could_not_have_been_written_are_refused(field: str, index: tuple[int, ...], value: Any) -> None:
    state = json.loads(json.dumps(fed().state()))
    SafeTracker.from_state(state)  # sound before
    with pytest.raises(InvalidStateError):
        SafeTracker.from_state(changed(state, field, index, value))


@pytest.mark.parametrize(("field", "index", "value"), ESCAPES)
def test_more_values_that_could_not_have_been_written_are_refused(
    field: str, index: tuple[int, ...], value: Any
) -> None:
    with pytest.raises(InvalidStateError):
        SafeTracker.from_state(changed(fed().state(), field, index, value))


def test_every_field_of_a_state_is_needed_in_its_shape_and_finite() -> None:
    state = json.loads(json.dumps(fed(3).state()))
    for field, values in state["memory"].items():
        flat = np.array(values, dtype=object)
        wrong: list[Any] = [None, "x", {}, [1.0] * (flat.size + 1)]
        if flat.size:
            for value in (float("nan"), float("inf"), "x", None):
                flat.flat[-1] = value
                wrong.append(flat.tolist())
        for damage in wrong:
            with pytest.raises(InvalidStateError):
                SafeTracker.from_state({**state, "memory": {**state["memory"], field: damage}})
        kept = {name: value for name, value in state["memory"].items() if name != field}
        with pytest.raises(InvalidStateError):
            SafeTracker.from_state({**state, "memory": kept})
    settings: list[dict[str, Any]] = [
        {"lead": "x"}, {"start_weights": [1.0]}, {"view_reference": {}}, {"view_reference": 5}, {"more": 1},
        {"prior": [0.5, 0.5]},
    ]  # fmt: skip
    for setting in settings:
        with pytest.raises(InvalidStateError):
            SafeTracker.from_state({**state, "settings": {**state["settings"], **setting}})


def test_a_state_with_any_one_number_changed_is_refused_or_still_tracks_and_learns() -> None:
    # seed 13: 400 changes
    rng = np.random.default_rng(13)
    state = json.loads(json.dumps(fed().state()))
    fields = list(state["memory"])
    rows = stream(600, 2, seed=14)
    taken = 0
    for _ in range(400):
        field = fields[rng.integers(len(fields))]
        values = np.array(state["memory"][field])
        if not values.size:
            continue
        whole = values.dtype.kind == "i"
        choices: list[Any] = [-1, 0, 1, 3, 2**62] if whole else [-1.0, 0.0, 0.5, 1e-320, 1e308, -1e308, 3.0]
        index = tuple(int(rng.integers(size)) for size in values.shape)
        try:
            tracker = SafeTracker.from_state(changed(state, field, index, choices[rng.integers(len(choices))]))
        except InvalidStateError:
            continue
        taken += 1
        assert_in_simplex(tracker.update_many(rows, evidence=np.stack([rows] * 3, axis=1))[1:])
        for n in range(0, 700, 50):
            tracker.feedback(rows[n % 600], n % 2, row=n)
        assert_in_simplex(tracker.prior)
        assert np.isfinite(tracker.interval()).all()
    assert taken > 50


def test_a_state_handed_out_is_a_copy() -> None:
    tracker = fed()
    before = copy.deepcopy(tracker.state())
    handed = tracker.state()
    for values in handed["memory"].values():
        if values:
            values[0] = 99.0
    assert tracker.state() == before


def test_summarises_what_labels_have_shown_and_nothing_before_the_first() -> None:
    tracker = SafeTracker([0.8, 0.2])
    tracker.update_many([[0.0, -2.0]] * 100)
    assert tracker.label_summary() is None
    for _ in range(30):
        tracker.feedback([0.0, -2.0], 0)
    summary, state = tracker.label_summary(), tracker.state()["memory"]
    assert summary is not None
    assert summary.n_labels == 30
    assert summary.label_weight == tracker.label_weight
    assert summary.recalibration_weight == pytest.approx(sum(state["labels.weights"][-3:]), rel=1e-12)
    assert (summary.slope, summary.counts.tolist()) == (state["labels.maps"][1][0], state["labels.counts"][1])
    assert len({one[0] for one in state["labels.maps"]}) == 3  # each memory has a slope of its own
    assert summary.slope_sd < 0.3  # the standard deviation it started with
    assert summary.unlabelled_prior.tolist() == state["slow.prior"]
    assert (tracker.lead, tracker.start_prior.tolist()) == ("auto", [0.8, 0.2])


@pytest.mark.parametrize(("lead", "moves"), [("auto", False), ("training", False), ("fast", True)])
def test_without_views_only_a_fast_lead_or_labels_move_the_prior_of_a_model(lead: str, moves: bool) -> None:
    drawn = GaussianClasses.pair(2.0).draw(np.full(1_000, 0.1), random_state=0)
    model = as_ratio_model(RatioClassifier.from_scores(drawn.log_ratios[:, 1], drawn.labels, kind="margin"))
    tracker = SafeTracker.for_model(model, lead=lead).start(model.prior_)
    assert tracker.can_move == moves
    tracker.update_many(np.tile([0.0, 9.0], (2_000, 1)))
    assert (tracker.prior[1] > 0.5) == moves
    tracker.feedback([0.0, 9.0], 1)
    assert tracker.can_move
