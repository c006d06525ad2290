"""Prediction sets hold the true class as often as they promise, at any prior, and again after labels under drift."""

import math
import pickle
from collections import deque

import numpy as np
import pytest

from obil import InvalidInputError, OnlineClassifier, PredictionSets, RatioClassifier, RatioModel
from obil.arrays import FloatArray, IntArray
from obil.datasets import GaussianClasses
from obil.serving.calibrators import LinearCalibrator
from obil.serving.holdout import Holdout
from obil.serving.scorers import ColumnScorer
from obil.trackers import BayesBank

THREE = GaussianClasses(np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]]), np.eye(2))
PAIR = GaussianClasses.pair(1.5)


def model_of(log_ratios: FloatArray, labels: IntArray, weights: FloatArray | None = None) -> RatioModel:
    """A model whose scores are the log ratios themselves, with these held-out rows."""
    k = log_ratios.shape[1]
    prior, names = np.full(k, 1.0 / k), np.array([*"abcdef"][:k])
    held_out = Holdout.of(log_ratios, labels, weights)
    return RatioModel(ColumnScorer("margin", prior), LinearCalibrator.identity(k), names, prior, held_out)


def drawn(classes: GaussianClasses, counts: list[int], seed: int) -> tuple[FloatArray, IntArray]:
    rows = classes.draw(np.repeat(np.eye(len(counts)), counts, axis=0), random_state=seed)
    return rows.log_ratios, rows.labels


def brute_force(held_out: Holdout, row: FloatArray, prior: FloatArray, allowed: float, kind: str) -> list[bool]:
    """The definition: a class is in the set where its weighted conformal p-value exceeds the error rate."""

    def odds(log_ratios: FloatArray, k: int) -> float:
        posterior = np.exp(log_ratios) * prior
        return float(posterior[k] / np.delete(posterior, k).sum())

    found = []
    for k in range(prior.size):
        weight = np.eye(prior.size)[k] if kind == "class" else prior
        weight = weight / held_out.counts
        candidate = odds(row, k)
        rows = zip(held_out.log_ratios, held_out.labels, strict=True)
        at_most = sum(weight[y] for own, y in rows if odds(own, y) <= candidate * (1.0 + 1e-12))
        total = weight[held_out.labels].sum() + weight[k]
        found.append(bool((at_most + weight[k]) / total > allowed + 1e-12))
    return found


@pytest.mark.filterwarnings("ignore:class .* is in every set")
@pytest.mark.parametrize("kind", ["marginal", "class"])
@pytest.mark.parametrize("allowed", [0.02, 0.1, 0.25, 0.5])
def test_sets_are_those_of_weighted_conformal_p_values(kind: str, allowed: float) -> None:
    log_ratios, labels = drawn(THREE, [25, 9, 14], seed=1)
    log_ratios = np.round(log_ratios)  # with ties
    rows = np.round(drawn(THREE, [20, 20, 20], seed=2)[0])
    model, prior = model_of(log_ratios, labels), np.array([0.7, 0.1, 0.2])
    sets = PredictionSets(model, coverage=1.0 - allowed, kind=kind)
    expected = [brute_force(model.holdout_, row, prior, allowed, kind) for row in rows]
    assert sets.predict_log_ratios(rows, prior=prior).tolist() == expected


def test_each_class_is_covered_at_the_exact_rate_of_few_held_out_rows_whatever_the_prior_does() -> None:
    """2,000 calibrations, each with rows at a prior of its own that depends on the rows: within 4.5 standard errors.

    The probability of the class being in the set is 1 - floor(.1 (n + 1)) / (n + 1) for n held-out rows. A false
    failure has a probability below 1e-4.
    """
    rng, counts = np.random.default_rng(0), [9, 14, 25]
    hits = np.zeros((2_000, 3))
    for i in range(len(hits)):
        sets = PredictionSets(model_of(*drawn(THREE, counts, seed=2 * i)), coverage=0.9, kind="class")
        rows, labels = drawn(THREE, [1, 1, 1], seed=2 * i + 1)
        hits[i] = sets.predict_log_ratios(rows, prior=rng.dirichlet([0.5, 0.5, 0.5], size=3) * 0.97 + 0.01)[
            np.arange(3), labels
        ]
    for k, n in enumerate(counts):
        exact = 1.0 - math.floor(0.1 * (n + 1) + 1e-9) / (n + 1)
        assert abs(hits[:, k].mean() - exact) < 4.5 * math.sqrt(exact * (1.0 - exact) / len(hits))


@pytest.mark.parametrize("prior", [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6], [0.9, 0.05, 0.05]])
def test_marginal_sets_of_few_held_out_rows_cover_at_a_known_prior(prior: list[float]) -> None:
    """600 calibrations on 9, 14 and 25 rows, 20 new rows each: not 4 standard errors below, nor .05 above."""
    hits = np.empty(600)
    for i in range(len(hits)):
        sets = PredictionSets(model_of(*drawn(THREE, [9, 14, 25], seed=2 * i)), coverage=0.9)
        rows = THREE.draw(np.tile(prior, (20, 1)), random_state=2 * i + 1)
        hits[i] = sets.predict_log_ratios(rows.log_ratios, prior=prior)[np.arange(20), rows.labels].mean()
    assert 0.9 - 4.0 * hits.std() / math.sqrt(len(hits)) < hits.mean() < 0.95


@pytest.mark.parametrize("prevalence", [0.02, 0.2, 0.7])
def test_marginal_sets_cover_at_another_prior_and_are_smaller_than_those_by_class(prevalence: float) -> None:
    """4,000 held-out rows of each class and 40,000 new ones: .015 is over five standard errors."""
    model = model_of(*drawn(PAIR, [4_000, 4_000], seed=3))
    rows = PAIR.draw(np.full(40_000, prevalence), random_state=4)
    own = np.arange(len(rows.labels)), rows.labels
    marginal, by_class = (PredictionSets(model, coverage=0.9, kind=kind) for kind in ("marginal", "class"))
    found, found_by_class = (
        sets.predict_log_ratios(rows.log_ratios, prior=prevalence) for sets in (marginal, by_class)
    )
    assert abs(found[own].mean() - 0.9) < 0.015
    assert found.sum() < 0.95 * found_by_class.sum()


def test_marginal_sets_at_a_prior_that_is_wrong_do_not_cover() -> None:
    sets = PredictionSets(model_of(*drawn(PAIR, [4_000, 4_000], seed=3)), coverage=0.9)
    rows = PAIR.draw(np.full(10_000, 0.7), random_state=4)
    found = sets.predict_log_ratios(rows.log_ratios, prior=0.02)
    assert found[np.arange(10_000), rows.labels].mean() < 0.5


def test_a_stream_keeps_its_coverage_when_the_prevalence_jumps() -> None:
    """At the priors of the Bayes bank, over 20,000 rows: .02 is over five standard errors, with the tracker's lag."""
    model = model_of(*drawn(PAIR, [4_000, 4_000], seed=5))
    rows = PAIR.draw(np.repeat([0.05, 0.4], 10_000), random_state=6)
    own = np.arange(20_000), rows.labels
    decisions = OnlineClassifier(model, tracker=BayesBank(), prior=0.05).decide_log_ratios(rows.log_ratios)
    sets = PredictionSets(model, coverage=0.9)
    found = sets.predict_decisions(decisions)
    assert (abs(found[own].reshape(2, -1).mean(axis=1) - 0.9) < 0.02).all()
    still = sets.predict_log_ratios(rows.log_ratios, prior=0.05)  # a prior that does not follow
    assert still[own][10_000:].mean() < 0.8


def test_the_monitor_says_when_no_prior_explains_the_stream_and_coverage_is_lost() -> None:
    model = model_of(*drawn(GaussianClasses.pair(2.5), [4_000, 4_000], seed=24))
    moved = GaussianClasses.pair(1.0).draw(np.full(5_000, 0.5), random_state=25)
    online = OnlineClassifier(model, tracker=BayesBank())
    decisions = online.decide_log_ratios(moved.log_ratios * 2.5)
    found = PredictionSets(model, coverage=0.95, kind="class").predict_decisions(decisions)
    assert decisions.trusted[0]
    assert not decisions.trusted[-1]
    assert found[np.arange(5_000), moved.labels].mean() < 0.9


def test_rows_of_a_stream_get_the_sets_of_their_own_prior() -> None:
    """But for priors within 5 %, which have one threshold."""
    model = model_of(*drawn(THREE, [300, 300, 300], seed=7))
    path = np.linspace([0.8, 0.1, 0.1], [0.1, 0.1, 0.8], 2_000)
    rows = THREE.draw(path, random_state=8).log_ratios
    sets = PredictionSets(model, coverage=0.8)
    together = sets.predict_log_ratios(rows, prior=path)
    alone = np.concatenate([sets.predict_log_ratios(rows[i : i + 1], prior=path[i]) for i in range(2_000)])
    assert (together != alone).any(axis=1).mean() < 0.02
    assert (sets.predict_log_ratios(rows, prior=path[0]) != alone).any(axis=1).mean() > 0.1


def test_equal_rows_have_equal_sets_in_any_batch_and_a_tie_is_inside() -> None:
    six = GaussianClasses(np.random.default_rng(9).normal(size=(6, 3)), np.eye(3))  # sums of six have an order
    log_ratios, labels = drawn(six, [200] * 6, seed=9)
    sets = PredictionSets(model_of(log_ratios, labels), coverage=0.9, kind="class")
    prior = [0.3, 0.3, 0.2, 0.1, 0.07, 0.03]
    found = sets.predict_log_ratios(log_ratios, prior=prior)  # the held-out rows tie with themselves
    again = [sets.predict_log_ratios(row[None], prior=prior)[0].tolist() for row in log_ratios]
    assert found.tolist() == again
    missed = 200 - found[np.arange(1_200), labels].reshape(6, 200).sum(axis=1)
    assert missed.tolist() == [19] * 6  # (19 + 1) / 201 is the largest p-value that is .1 at most


@pytest.mark.parametrize("kind", ["marginal", "class"])
@pytest.mark.parametrize("delay", [0, 40])
def test_late_labels_keep_the_long_run_error_whatever_the_rows_are(kind: str, delay: int) -> None:
    """The stated bound, on labels chosen against the sets: no probability is involved."""
    sets = PredictionSets(model_of(*drawn(PAIR, [50, 50], seed=10)), coverage=0.9, kind=kind, step=0.05)
    rows = np.random.default_rng(11).normal(0.0, 3.0, size=2_000)
    waiting: deque[tuple[FloatArray, str, bool]] = deque()
    errors = []
    for i, row in enumerate(rows):
        found = sets.predict_log_ratios([[0.0, row]])[0]
        label = 0 if kind == "marginal" and i % 7 and not found[0] else 1
        waiting.append((found, "ab"[label], bool(found[label])))
        if len(waiting) > delay:
            given, name, hit = waiting.popleft()
            sets.feedback(given, name)
            errors.append(not hit)
    bound = (1.0 + (delay + 1) * 0.05) / (len(errors) * 0.05)
    assert abs(np.mean(errors) - 0.1) <= bound < 0.04


def test_late_labels_restore_coverage_under_concept_drift() -> None:
    """Classes come closer, so that no prior helps; labels of 5,000 rows come 200 rows late, the rest is judged."""
    model = model_of(*drawn(GaussianClasses.pair(2.5), [1_000, 1_000], seed=12))
    closer = GaussianClasses.pair(1.0).draw(np.full(10_000, 0.5), random_state=13)
    rows, labels = closer.log_ratios * 2.5, closer.labels  # as a model of the past would score them
    for kind in ("marginal", "class"):
        fixed, corrected = (PredictionSets(model, coverage=0.9, kind=kind, step=0.01) for _ in range(2))
        found = np.empty(rows.shape, dtype=bool)
        for i in range(len(rows)):
            found[i] = corrected.predict_log_ratios(rows[i : i + 1], prior=0.5)[0]
            if i >= 200:
                corrected.feedback(found[i - 200], "ab"[labels[i - 200]])
        own = np.arange(len(rows)), labels
        assert fixed.predict_log_ratios(rows, prior=0.5)[own].mean() < 0.82
        for k in range(2):
            late = np.flatnonzero(labels[5_000:] == k) + 5_000
            assert abs(found[late, labels[late]].mean() - 0.9) < (0.02 if kind == "class" else 0.1)
        assert abs(found[own][5_000:].mean() - 0.9) < 0.02


def test_a_label_moves_only_its_own_class_by_class_and_all_otherwise() -> None:
    model = model_of(*drawn(THREE, [60, 60, 60], seed=14))
    by_class, marginal = PredictionSets(model, kind="class"), PredictionSets(model)
    for sets in (by_class, marginal):
        before = sets.error_rates
        sets.feedback([True, False, False], "b")
        assert before.tolist() == pytest.approx([0.1] * 3)  # what was read before stays what it was
    assert by_class.error_rates.tolist() == pytest.approx([0.1, 0.1 - 0.005 * 0.9, 0.1])
    assert marginal.error_rates.tolist() == pytest.approx([0.1 - 0.005 * 0.9] * 3)
    by_class.feedback([True, False, False], "a")
    assert by_class.error_rates[0] == pytest.approx(0.1 + 0.005 * 0.1)


def test_an_error_rate_beyond_0_or_1_makes_full_or_empty_sets() -> None:
    sets = PredictionSets(model_of(*drawn(PAIR, [50, 50], seed=15)), coverage=0.5, step=1.0)
    rows = [[0.0, 800.0], [0.0, -800.0], [0.0, 0.0]]
    for _ in range(2):
        sets.feedback([False, False], "a")
    assert sets.predict_log_ratios(rows).all()
    for _ in range(4):
        sets.feedback([True, True], "a")
    assert not sets.predict_log_ratios(rows).any()


def test_two_classes_are_alerted_cleared_or_left_to_a_person_with_a_bound_on_either_error() -> None:
    """20,000 held-out rows of each class, 20,000 new ones: .01 is over three standard errors of the rarer rate."""
    model = model_of(*drawn(PAIR, [20_000, 20_000], seed=16))
    sets = PredictionSets(model, coverage={"a": 0.95, "b": 0.98}, kind="class")
    rows, labels = drawn(PAIR, [10_000, 10_000], seed=17)
    actions = sets.actions(sets.predict_log_ratios(rows, prior=0.01))
    assert np.mean(actions[labels == 0] == "alert") == pytest.approx(0.05, abs=0.01)
    assert np.mean(actions[labels == 1] == "clear") == pytest.approx(0.02, abs=0.01)
    assert 0.3 < np.mean(actions == "abstain") < 0.8
    flipped = sets.actions([[True, False], [False, True], [False, False], [True, True]], positive="a")
    assert flipped.tolist() == ["alert", "clear", "abstain", "abstain"]


def test_rows_without_weight_do_not_count_and_a_heavy_row_makes_sets_larger() -> None:
    log_ratios, labels = drawn(PAIR, [100, 100], seed=18)
    rows = drawn(PAIR, [50, 50], seed=19)[0]
    twice = np.concatenate([log_ratios, log_ratios + np.array([0.0, 5.0])]), np.concatenate([labels, labels])
    weights = np.repeat([2.0, 0.0], 200)
    plain, weighted = (
        PredictionSets(model_of(*given), kind="class").predict_log_ratios(rows)
        for given in ((log_ratios, labels), (*twice, weights))
    )
    assert plain.tolist() == weighted.tolist()
    heavy = np.ones(200)
    heavy[np.argmax(log_ratios[:100, 1])] = 10.0
    larger = PredictionSets(model_of(log_ratios, labels, heavy), kind="class").predict_log_ratios(rows)
    assert (larger >= plain).all()
    assert larger.sum() > plain.sum()


def test_a_class_with_too_few_held_out_rows_is_in_every_set_and_a_warning_says_so() -> None:
    model = model_of(*drawn(PAIR, [100, 30], seed=20))
    with pytest.warns(UserWarning, match=r"class 'b' has 30 held-out rows and is in every set: .* of 0\.98 needs 49"):
        sets = PredictionSets(model, coverage=0.98, kind="class")
    found = sets.predict_log_ratios([[0.0, -50.0], [0.0, 50.0]])
    assert found.tolist() == [[True, True], [False, True]]


def test_sets_of_a_fitted_model_take_rows_and_pickle() -> None:
    scores, labels = np.random.default_rng(21).normal(size=400), np.repeat(["ok", "fraud"], 200)
    model = RatioClassifier.from_scores(scores + (labels == "fraud"), labels)
    sets = PredictionSets(model, coverage=0.8)
    sets.feedback([True, False], "fraud")
    rows = scores[:50, None]
    found = sets.predict(rows, prior={"fraud": 0.1, "ok": 0.9})
    assert found.shape == (50, 2)
    assert found.tolist() == sets.predict_log_ratios(model.log_ratios(rows), prior=[0.1, 0.9]).tolist()
    copy = pickle.loads(pickle.dumps(sets))
    assert copy.predict(rows, prior=0.9).tolist() == found.tolist()
    assert copy.error_rates.tolist() == sets.error_rates.tolist()
    assert sets.predict(np.empty((0, 1))).shape == (0, 2)


def test_wrong_input_is_refused_and_changes_nothing() -> None:
    model = model_of(*drawn(PAIR, [100, 100], seed=22))
    with pytest.raises(InvalidInputError, match="kind must be 'marginal' or 'class', got 'all'"):
        PredictionSets(model, kind="all")
    with pytest.raises(InvalidInputError, match="coverage must lie in"):
        PredictionSets(model, coverage=1.0)
    with pytest.raises(InvalidInputError, match="a coverage by class must name every one of"):
        PredictionSets(model, coverage={"a": 0.9, "b": 0.8})
    with pytest.raises(InvalidInputError, match="a coverage by class must name every one of"):
        PredictionSets(model, coverage={"a": 0.9}, kind="class")
    sets = PredictionSets(model)
    with pytest.raises(InvalidInputError, match=r"priors of rows must be \(1, 2\)"):
        sets.predict_log_ratios([[0.0, 1.0]], prior=[[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(InvalidInputError, match="the prior of row 1 must be positive and sum to 1"):
        sets.predict_log_ratios([[0.0, 1.0]] * 2, prior=[[0.5, 0.5], [0.5, math.nan]])
    with pytest.raises(InvalidInputError, match="prediction sets must be true or false"):
        sets.feedback([1.0, 0.0], "a")
    with pytest.raises(InvalidInputError, match="got the label 'z'"):
        sets.feedback([True, False], "z")
    assert sets.error_rates.tolist() == pytest.approx([0.1, 0.1])
    three = PredictionSets(model_of(*drawn(THREE, [60, 60, 60], seed=23)))
    with pytest.raises(InvalidInputError, match="actions are for two classes, this model has 3"):
        three.actions([[True, False, False]])
