"""Repeated passes find the maximum-likelihood prior of any number of classes."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import constant
from obil.errors import EstimationError, InvalidInputError
from obil.trackers.evidence import BinaryEvidence
from obil.trackers.pass_search import PassSearch, estimate_by_passes, estimate_from_rows
from obil.trackers.passes import PassEvidence
from tests.trackers.five_classes import rows_of


def searched(rows: FloatArray, start: FloatArray) -> PassSearch:
    search = PassSearch(start)
    while not search.done:
        search.take(PassEvidence.of(rows, search.at))
    return search


def long_em(rows: FloatArray, n_iterations: int = 20_000) -> FloatArray:
    prior = np.full(rows.shape[1], 1.0 / rows.shape[1])
    ratios = np.exp(rows)
    for _ in range(n_iterations):
        last, prior = prior, prior * (ratios / (ratios @ prior)[:, None]).mean(axis=0)
        if abs(prior - last).max() < 1e-13:
            break
    return prior


@pytest.mark.parametrize("truth", [[0.2] * 5, [0.9, 0.04, 0.03, 0.02, 0.01], [0.05, 0.6, 0.05, 0.1, 0.2]])
def test_five_classes_come_out_as_long_em_finds_them(truth: list[float]) -> None:
    rows = rows_of(truth, 1_000, seed=0)
    np.testing.assert_allclose(estimate_from_rows(rows).prior, long_em(rows), atol=1e-6)


def test_a_class_that_never_came_ends_at_nothing() -> None:
    rows = rows_of([0.5, 0.3, 0.2, 0.0, 0.0], 1_000, seed=1)
    found = estimate_from_rows(rows)
    expected = long_em(rows)
    np.testing.assert_allclose(found.prior, expected, atol=1e-5)
    # the conditions of a maximum on the simplex: no class would gain from growing
    gradient = (np.exp(rows) / (np.exp(rows) @ found.prior)[:, None]).mean(axis=0)
    assert (gradient <= 1.0 + 1e-5).all()


def test_one_em_pass_is_far_from_enough() -> None:
    # seed 4, 20,000 rows: the sd of one step's result is below .001
    rows = GaussianClasses.pair(2.0).draw(constant(20_000, 0.2), random_state=4).log_ratios
    once = PassEvidence.of(rows, 0.05).em_prior()[1]
    assert 0.08 < once < 0.12
    assert estimate_by_passes(lambda at: PassEvidence.of(rows, at), 0.05).prior[1] == pytest.approx(0.2, abs=0.02)


def test_random_rows_of_any_kind_end_at_a_maximum() -> None:
    rng = np.random.default_rng(6)
    for n_classes in (3, 4, 8):
        for scale in (0.1, 1.0, 30.0):
            rows = rng.normal(scale=scale, size=(40, n_classes))
            rows[:, 0] = 0.0
            found = estimate_from_rows(rows)
            scaled = np.exp(rows - rows.max(axis=1, keepdims=True))
            gradient = (scaled / (scaled @ found.prior)[:, None]).mean(axis=0)
            # Frank-Wolfe gap: the mean log-likelihood is within 1e-5 of its maximum over the simplex
            assert gradient.max() - gradient @ found.prior < 1e-5
            assert found.prior.sum() == pytest.approx(1.0)
            assert (found.prior > 0.0).all()
            assert (found.interval[:, 0] <= found.prior).all()
            assert (found.prior <= found.interval[:, 1]).all()


def test_two_classes_agree_with_binary_evidence() -> None:
    rows = GaussianClasses.pair(2.0).draw(constant(2_000, 0.1), random_state=7).log_ratios
    by_passes = estimate_by_passes(lambda at: PassEvidence.of(rows, at), 0.5)
    binary = BinaryEvidence.of(rows).estimate()
    np.testing.assert_allclose(by_passes.prior, binary.prior, atol=1e-6)
    np.testing.assert_allclose(by_passes.interval, binary.interval, atol=0.004)  # Wald in the logit against profile
    np.testing.assert_allclose(estimate_from_rows(rows).prior, binary.prior, atol=1e-12)


def test_the_interval_of_five_classes_covers_about_ninety_percent() -> None:
    # seeds 0 to 99: 100 streams of 1,000 rows, 5 classes each. 400 other seeds cover .883 in all, the hundreds of
    # them .878 to .886; the sd of a hundred is below .015 (500 intervals): false-failure rate of .83 ... .95 < 1e-3
    truth = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    covered = []
    for seed in range(100):
        ends = estimate_from_rows(rows_of(truth.tolist(), 1_000, seed)).interval
        covered.append((ends[:, 0] < truth) & (truth < ends[:, 1]))
    assert 0.83 < np.mean(covered) < 0.95


def test_the_log_likelihoods_of_folds_are_averaged() -> None:
    """The best prior of rows by three folds is that of all of them in one table, as often as there are rows."""
    folds = np.stack([rows_of([0.6, 0.1, 0.1, 0.1, 0.1], 400, seed) for seed in (0, 1, 2)], axis=1)
    found, table = estimate_from_rows(folds), estimate_from_rows(folds.reshape(-1, 5))
    assert found.n_rows == 400
    np.testing.assert_allclose(found.prior, long_em(folds.reshape(-1, 5)), atol=1e-6)
    # a third of the rows: wider by the root of three, in the logit and away from the edges
    logits = np.log(np.array([found.interval, table.interval])) - np.log1p(-np.array([found.interval, table.interval]))
    widths = logits[:, :, 1] - logits[:, :, 0]
    np.testing.assert_allclose(widths[0] / widths[1], np.sqrt(3.0), rtol=0.02)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_folds_that_agree_are_as_good_as_one(n_classes: int) -> None:
    binary = GaussianClasses.pair(2.0).draw(constant(400, 0.2), random_state=3).log_ratios
    rows = binary if n_classes == 2 else rows_of([0.6, 0.1, 0.1, 0.1, 0.1], 400, seed=3)
    one, many = estimate_from_rows(rows), estimate_from_rows(np.stack([rows] * 4, axis=1))
    assert one.n_rows == many.n_rows == 400
    np.testing.assert_allclose(many.prior, one.prior, atol=1e-7)
    np.testing.assert_allclose(many.interval, one.interval, atol=1e-6)


def test_no_rows_give_no_estimate() -> None:
    for nothing in (np.empty((0, 2)), np.empty((0, 3))):
        with pytest.raises(InvalidInputError, match="no rows"):
            estimate_from_rows(nothing)
    with pytest.raises(InvalidInputError):
        estimate_from_rows([])


def test_bad_rows_and_levels_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        estimate_from_rows([[0.0, np.nan, 1.0]])
    with pytest.raises(InvalidInputError, match="level"):
        estimate_from_rows([[0.0, 1.0, 2.0]], level=0.0)
    with pytest.raises(InvalidInputError, match="columns"):
        PassEvidence.of([[0.0, 1.0, 2.0]], 0.5)


@pytest.mark.parametrize(("n_classes", "present"), [(20, 5), (50, 5), (50, 25)])
def test_many_classes_of_which_most_are_absent_come_out_as_long_em_finds_them(n_classes: int, present: int) -> None:
    rng = np.random.default_rng(n_classes + present)
    means = rng.normal(size=(n_classes, 8)) * 2.0
    priors = np.zeros(n_classes)
    priors[:present] = 1.0 / present
    rows = GaussianClasses(means, np.eye(8)).draw(np.tile(priors, (3_000, 1)), random_state=rng).log_ratios
    passes = 0

    def one_pass(prior: FloatArray) -> PassEvidence:
        nonlocal passes
        passes += 1
        return PassEvidence.of(rows, prior)

    found = estimate_by_passes(one_pass, np.full(n_classes, 1.0 / n_classes))
    ratios = np.exp(rows - rows.max(axis=1, keepdims=True))
    slow = np.full(n_classes, 1.0 / n_classes)
    for _ in range(3_000):
        weighted = ratios * slow
        slow = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    assert np.abs(found.prior - slow).max() < 1e-6
    assert passes <= 20
    assert (found.interval[present:, 1] < 0.02).all()  # absent classes are known to be nearly absent


def test_classes_that_are_hardly_told_apart_end_at_a_maximum_too() -> None:
    # holding all classes at once that leave the simplex goes in circles on some of these
    for seed in range(250):
        rng = np.random.default_rng(seed)
        n_classes = int(rng.integers(8, 14))
        means = rng.normal(size=(n_classes, 3)) * rng.choice([0.05, 0.1, 0.2])
        priors = rng.dirichlet(np.full(n_classes, 0.3))
        rows = GaussianClasses(means, np.eye(3)).draw(np.tile(priors, (1_000, 1)), random_state=rng).log_ratios
        search = searched(rows, np.full(n_classes, 1.0 / n_classes))
        assert search.best is not None
        assert search.best.gap < 1e-6 * search.best.n_rows
        assert search.passes <= 10


def test_a_class_that_was_taken_for_absent_comes_back_in_a_few_passes() -> None:
    rows = np.zeros((100, 3))
    rows[:75, 1], rows[75:98, 2] = 60.0, 60.0
    rows[98:, 1:] = -60.0
    search = searched(rows, np.array([1e-9, 0.5, 0.5 - 1e-9]))
    np.testing.assert_allclose(search.estimate().prior, [0.02, 0.75, 0.23], atol=1e-8)
    assert search.passes <= 5  # doubled each time, it would take 25 to come from 1e-9 to .02


@pytest.mark.parametrize("difference", 10.0 ** np.arange(-9.0, -3.5, 0.25))
def test_rows_that_tell_classes_apart_by_next_to_nothing_are_no_endless_search(difference: float) -> None:
    for n_rows in (1, 5, 100):
        rows = np.random.default_rng(n_rows).normal(scale=difference, size=(n_rows, 5))
        search = searched(rows - rows[:, :1], np.full(5, 0.2))
        assert search.best is not None
        assert search.best.gap < 1e-6 * n_rows
        assert search.passes <= 30


def test_a_start_with_classes_below_the_edge_is_as_good_as_any() -> None:
    rows = np.array([[0.0, 1.6] + [-5.0] * 6] * 100)
    start = np.full(8, 1e-12)
    start[0] = 1.0 - start[1:].sum()
    assert searched(rows, start).estimate().prior[1] > 0.999


def test_weights_count_rows_as_often_as_they_say() -> None:
    rows, weights = rows_of([0.4, 0.3, 0.1, 0.1, 0.1], 300, seed=10), np.tile([0.5, 1.0, 3.0], 100)
    weighted = estimate_by_passes(lambda at: PassEvidence.of(rows, at, weights=weights), np.full(5, 0.2))
    repeated = estimate_from_rows(np.repeat(rows, np.tile([1, 2, 6], 100), axis=0))
    np.testing.assert_allclose(weighted.prior, repeated.prior, atol=1e-7)


def test_a_search_that_has_not_ended_gives_no_estimate() -> None:
    with pytest.raises(EstimationError, match="not finished"):
        PassSearch(np.full(3, 1.0 / 3.0)).estimate()


def test_rows_that_say_nothing_leave_every_prior_possible() -> None:
    for n_classes in (2, 3):
        interval = estimate_from_rows(np.zeros((50, n_classes))).interval
        assert (interval[:, 0] < 1e-9).all()
        assert (interval[:, 1] > 1 - 1e-9).all()


def test_ratios_near_the_largest_number_there_is_are_taken() -> None:
    found = estimate_from_rows([[0.0, 1e300, -1e300], [0.0, 5.0, 1.7e308], [0.0, -3.0, 2.0]])
    assert np.isfinite(found.prior).all()
