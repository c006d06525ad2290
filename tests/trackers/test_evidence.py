"""Binary evidence adds up, and gives the maximum-likelihood prior with an interval that covers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit
from scipy.stats import chi2

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import constant
from obil.errors import InvalidInputError
from obil.trackers.evidence import BinaryEvidence, by_folds


def rows_at(prior: float, n_rows: int, separation: float, seed: int) -> FloatArray:
    return GaussianClasses.pair(separation).draw(constant(n_rows, prior), random_state=seed).log_ratios


def log_likelihood(rows: FloatArray, positive: float) -> float:
    return float(np.logaddexp(np.log1p(-positive), np.log(positive) + rows[:, 1]).sum())


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 400), max_size=8), st.integers(0, 1_000))
def test_evidence_added_in_any_split_equals_all_at_once(cuts: list[int], seed: int) -> None:
    rows = rows_at(0.1, 400, 2.0, seed)
    total = BinaryEvidence.empty()
    for part in np.split(rows, sorted(cuts)):
        total = total + BinaryEvidence.of(part)
    whole = BinaryEvidence.of(rows)
    assert total.n_rows == whole.n_rows == 400
    np.testing.assert_allclose(total.log_likelihoods, whole.log_likelihoods, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(total.estimate().prior, whole.estimate().prior, atol=1e-9)


@pytest.mark.parametrize("prior", [0.005, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("separation", [1.0, 2.5])
def test_the_estimate_is_the_maximum_that_scipy_finds(prior: float, separation: float) -> None:
    rows = rows_at(prior, 3_000, separation, seed=1)
    best = minimize_scalar(
        lambda z: -log_likelihood(rows, float(expit(z))), bounds=(-13.9, 13.9), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    found = BinaryEvidence.of(rows).estimate()
    assert found.prior[1] == pytest.approx(float(expit(best.x)), rel=1e-4, abs=1e-6)
    assert found.prior.sum() == pytest.approx(1.0)
    assert found.n_rows == 3_000
    assert found.level == 0.9


def test_between_its_nodes_the_log_likelihood_is_exact_up_to_a_constant() -> None:
    rows = rows_at(0.1, 1_000, 2.0, seed=2)
    rows[:3, 1] = [700.0, -700.0, 0.0]
    function = BinaryEvidence.of(rows).log_likelihood()
    points = np.random.default_rng(0).uniform(-14.0, 14.0, 200)
    exact = np.array([log_likelihood(rows, float(p)) for p in expit(points)])
    difference = function(points) - exact
    np.testing.assert_allclose(difference, difference[0], atol=1e-7)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_the_interval_is_where_the_profile_likelihood_crosses_the_chi_square_quantile(level: float) -> None:
    rows = rows_at(0.1, 1_000, 2.0, seed=3)
    found = BinaryEvidence.of(rows).estimate(level=level)
    peak = logit(found.prior[1])
    least = log_likelihood(rows, found.prior[1]) - chi2.ppf(level, 1) / 2.0

    def above(z: float) -> float:
        return log_likelihood(rows, float(expit(z))) - least

    expected = expit([brentq(above, -13.0, peak), brentq(above, peak, 13.0)])
    np.testing.assert_allclose(found.interval[1], expected, rtol=1e-5)
    np.testing.assert_allclose(found.interval[0], 1.0 - expected[::-1], rtol=1e-5)


def test_a_ninety_percent_interval_covers_about_ninety_percent() -> None:
    # seeds 0 to 199: 200 streams of 3,000 rows at prior .02. At a true coverage of .9 the count has sd 4.2:
    # 166 ... 193 fails in 8e-4 of all seed sets (binomial)
    covered = 0
    for seed in range(200):
        low, high = BinaryEvidence.of(rows_at(0.02, 3_000, 2.5, seed)).estimate(level=0.9).interval[1]
        covered += low < 0.02 < high
    assert 166 <= covered <= 193


def test_rows_that_are_all_sure_give_their_frequency() -> None:
    rows = [[0.0, 60.0]] * 30 + [[0.0, -60.0]] * 70
    assert BinaryEvidence.of(rows).estimate().prior[1] == pytest.approx(0.3, abs=1e-6)


def test_rows_that_are_all_negative_give_an_interval_that_starts_at_nothing() -> None:
    found = BinaryEvidence.of([[0.0, -60.0]] * 100).estimate(level=0.9)
    assert found.prior[1] < 1e-5
    low, high = found.interval[1]
    assert low < 1e-5
    assert high == pytest.approx(1.0 - np.exp(-chi2.ppf(0.9, 1) / 2.0 / 100.0), rel=1e-3)  # the rule of three


def test_rows_that_say_nothing_leave_every_prior_possible() -> None:
    low, high = BinaryEvidence.of([[0.0, 0.0]] * 50).estimate().interval[1]
    assert low < 1e-5
    assert high > 1.0 - 1e-5


def test_the_log_likelihoods_of_folds_are_averaged() -> None:
    folds = [rows_at(0.1, 300, 2.0, seed) for seed in (4, 5, 6)]
    together = BinaryEvidence.of(np.stack(folds, axis=1))
    assert together.n_rows == 300
    single = np.mean([BinaryEvidence.of(rows).log_likelihoods for rows in folds], axis=0)
    np.testing.assert_allclose(together.log_likelihoods, single, rtol=1e-12)


def test_folds_that_agree_are_as_good_as_one() -> None:
    """Rows by several models are still as many rows: neither the estimate nor its interval gets narrower."""
    rows = rows_at(0.1, 300, 2.0, seed=7)
    one, many = BinaryEvidence.of(rows).estimate(), BinaryEvidence.of(np.stack([rows] * 5, axis=1)).estimate()
    assert one.n_rows == many.n_rows == 300
    np.testing.assert_allclose(many.prior, one.prior, rtol=1e-9)
    np.testing.assert_allclose(many.interval, one.interval, rtol=1e-7)


def test_rows_by_folds_become_one_table() -> None:
    rows = np.stack([rows_at(0.1, 4, 2.0, seed) for seed in (0, 1)], axis=1)
    table, n_folds = by_folds(rows)
    assert n_folds == 2
    np.testing.assert_array_equal(table, rows.reshape(8, 2))
    table, n_folds = by_folds(rows[:, 0])
    assert n_folds == 1
    np.testing.assert_array_equal(table, rows[:, 0])
    for nothing in (np.empty((0, 2)), np.empty((0, 5, 2))):
        assert by_folds(nothing, n_classes=2)[0].shape == (0, 2)
        assert BinaryEvidence.of(nothing).n_rows == 0


def test_rows_by_folds_that_are_no_log_ratios_are_refused() -> None:
    good = np.stack([rows_at(0.1, 4, 2.0, seed) for seed in (0, 1)], axis=1)
    for place, value in (((0, 1, 0), 0.5), ((3, 0, 1), np.nan), ((3, 0, 1), np.inf)):
        bad = good.copy()
        bad[place] = value
        with pytest.raises(InvalidInputError):
            BinaryEvidence.of(bad)
    for shape in ((4, 2, 3), (4,), (2,), (2, 2, 2, 2)):
        with pytest.raises(InvalidInputError):
            BinaryEvidence.of(np.zeros(shape))


def test_empty_is_the_zero_of_addition() -> None:
    some = BinaryEvidence.of([[0.0, 1.0]])
    np.testing.assert_array_equal((some + BinaryEvidence.empty()).log_likelihoods, some.log_likelihoods)
    assert BinaryEvidence.of([]).n_rows == BinaryEvidence.of(np.empty((0, 2))).n_rows == 0


def test_no_rows_give_no_estimate() -> None:
    with pytest.raises(InvalidInputError, match="no rows"):
        BinaryEvidence.empty().estimate()


def test_what_is_no_evidence_is_refused() -> None:
    for bad in (np.zeros(3), np.full(161, np.nan)):
        with pytest.raises(InvalidInputError):
            BinaryEvidence(1, bad)
    with pytest.raises(InvalidInputError):
        BinaryEvidence(-1, np.zeros(161))
    with pytest.raises(InvalidInputError):
        BinaryEvidence.of([[0.0, np.nan]])
    with pytest.raises(InvalidInputError):
        BinaryEvidence.of([[0.0, 1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="level"):
        BinaryEvidence.of([[0.0, 1.0]]).estimate(level=1.0)
    with pytest.raises(TypeError):
        BinaryEvidence.empty() + 1
