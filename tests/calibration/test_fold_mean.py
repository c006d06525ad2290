"""Out-of-fold scores are moved to where the mean of the folds would have put them: normal scores are the oracle."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from obil.arrays import FloatArray, IntArray
from obil.calibration.fold_mean import FEWEST_PAIRS, LARGEST_MOVE, scores_of_mean
from obil.calibration.linear import fit_linear

SEPARATION = 2.5
N_ROWS = 20_000


class Drawn(NamedTuple):
    """Scores of single folds: a signal common to all folds, plus noise of each fold's own."""

    scores: FloatArray  # (n, 2)
    labels: IntArray  # (n,)
    pairs: FloatArray  # (m, 2)
    signal: FloatArray  # (n,)


def drawn(noise: float, seed: int = 0, n: int = N_ROWS, n_pairs: int | None = None) -> Drawn:
    """Return scores with a signal of variance 1 in each class and noise of variance `noise`; a tenth has two draws."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) % 10 < 3).astype(np.int64)
    signal = rng.standard_normal(n) + SEPARATION * labels
    two = signal[:, None] + np.sqrt(noise) * rng.standard_normal((n, 2))
    chosen = rng.permutation(n)[: n // 10 if n_pairs is None else n_pairs]
    return Drawn(np.stack([np.zeros(n), two[:, 0]], axis=1), labels, two[chosen], signal)


def moved(given: Drawn, n_folds: int, **change: Any) -> FloatArray:
    """Return the moved scores of class 1, (n,)."""
    values = {
        "scores": given.scores,
        "labels": given.labels,
        "weights": np.ones(len(given.labels)),
        "pairs": given.pairs,
    }
    result = scores_of_mean(**values | change, n_folds=n_folds)
    assert not result[:, 0].any()
    return result[:, 1]


@pytest.mark.parametrize("n_folds", [2, 5, 10])
@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
def test_moved_scores_have_the_variance_of_the_mean_of_as_many_draws(noise: float, n_folds: int) -> None:
    """In each class 1 + v / F. Of the variance that averaging takes, 80 to 115 % are taken: first order, seed 0."""
    given = drawn(noise)
    found = moved(given, n_folds)
    for k in (0, 1):
        own = given.labels == k
        before, after = given.scores[own, 1].var(), found[own].var()
        taken = (before - after) / (noise * (1.0 - 1.0 / n_folds))
        assert 0.8 < taken < 1.15


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
def test_the_mean_of_each_class_stays_where_it_is(noise: float) -> None:
    """To 2 % of a class's standard deviation: half of the noise in the mean of 6,000 rows is 0.9 % of it."""
    given = drawn(noise)
    found = moved(given, 5)
    for k in (0, 1):
        own = given.labels == k
        assert found[own].mean() == pytest.approx(given.signal[own].mean(), abs=0.02)


@pytest.mark.parametrize("n_folds", [5, 10])
@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_a_line_fitted_to_moved_scores_is_calibrated_for_the_mean_of_the_folds(noise: float, n_folds: int) -> None:
    """Normal classes of variance 1 + v / F, a distance d apart: the slope is d / (1 + v / F), to 7 %. Seed 1.

    That of single folds is d / (1 + v), which is too flat for their mean.
    """
    given = drawn(noise, seed=1)
    weights = np.ones(len(given.labels))
    exact = SEPARATION / (1.0 + noise / n_folds)
    raw = fit_linear(given.scores, given.labels, weights, slope_sd=None).slopes[1]
    assert raw == pytest.approx(SEPARATION / (1.0 + noise), rel=0.05)
    scores = np.stack([np.zeros(len(weights)), moved(given, n_folds)], axis=1)
    slope = fit_linear(scores, given.labels, weights, slope_sd=None).slopes[1]
    assert slope == pytest.approx(exact, rel=0.07)
    assert abs(slope - exact) < abs(raw - exact) / 2.0


def test_noise_that_grows_with_the_score_is_taken_where_it_is() -> None:
    """Seed 2: noise of variance .02 below 1.25 and .6 above, five folds: 1 + v / 5 in both classes, to .1.

    Noise that was taken to be the same everywhere would cost class 0 a quarter of its variance.
    """
    rng = np.random.default_rng(2)
    labels = (np.arange(N_ROWS) % 10 < 5).astype(np.int64)
    signal = rng.standard_normal(N_ROWS) + 6.0 * labels - 1.75  # hardly a row of one class among the other
    deviation = np.sqrt(np.where(signal > 1.25, 0.6, 0.02))
    two = signal[:, None] + deviation[:, None] * rng.standard_normal((N_ROWS, 2))
    given = Drawn(np.stack([np.zeros(N_ROWS), two[:, 0]], axis=1), labels, two[rng.permutation(N_ROWS)[:2_000]], signal)
    found = moved(given, 5)
    for k, noise in ((0, 0.02), (1, 0.6)):
        own = labels == k
        assert found[own].var() == pytest.approx(signal[own].var() + noise / 5.0, abs=0.1)


def test_folds_that_agree_leave_scores_as_they_are() -> None:
    given = drawn(0.0)
    np.testing.assert_array_equal(moved(given, 5), given.scores[:, 1])


@pytest.mark.parametrize("change", [{"n_folds": 1}, {"pairs": np.zeros((FEWEST_PAIRS - 1, 2))}])
def test_one_fold_and_few_pairs_leave_scores_as_they_are(change: dict[str, Any]) -> None:
    given = drawn(0.5, n=400)
    values = {"pairs": given.pairs, "n_folds": 5} | change
    assert scores_of_mean(given.scores, given.labels, np.ones(400), **values) is given.scores
    assert scores_of_mean(given.scores, given.labels, np.ones(400), given.pairs, 5) is not given.scores


def test_three_classes_are_left_as_they_are() -> None:
    scores = np.random.default_rng(3).standard_normal((300, 3))
    scores[:, 0] = 0.0
    pairs = np.random.default_rng(4).standard_normal((100, 2))
    assert scores_of_mean(scores, np.arange(300) % 3, np.ones(300), pairs, 5) is scores


def test_the_scores_that_were_given_are_not_changed() -> None:
    given = drawn(0.5, n=400)
    before = given.scores.copy()
    moved(given, 5)
    np.testing.assert_array_equal(given.scores, before)


@pytest.mark.parametrize(("factor", "shift"), [(10.0, 0.0), (0.01, 0.0), (1.0, 7.0), (-1.0, 0.0), (-3.0, 5.0)])
def test_scores_in_another_unit_are_moved_in_that_unit(factor: float, shift: float) -> None:
    given = drawn(0.3, n=2_000)
    other = given._replace(scores=given.scores * factor + [0.0, shift], pairs=given.pairs * factor + shift)
    if factor < 0.0:  # levels come in another order, and with them the remainder of a division by 25
        given, other = (each._replace(pairs=each.pairs[:25]) for each in (given, other))
    np.testing.assert_allclose(moved(other, 5), moved(given, 5) * factor + shift, rtol=1e-9, atol=1e-9 * abs(factor))


def test_no_score_is_moved_further_than_half_a_standard_deviation_of_its_class() -> None:
    given = drawn(0.5, n=1_000)
    wild = given._replace(pairs=given.pairs * [[1.0, -50.0]])
    steps = moved(wild, 5) - given.scores[:, 1]
    for k in (0, 1):
        own = given.labels == k
        bound = LARGEST_MOVE * given.scores[own, 1].std()
        assert abs(steps[own]).max() == pytest.approx(bound)


def test_rows_without_weight_and_classes_of_one_score_stay_where_they_are() -> None:
    given = drawn(0.5, n=1_000)
    weights = np.where(np.arange(1_000) % 7 == 0, 0.0, 1.0)
    found = moved(given, 5, weights=weights)
    np.testing.assert_array_equal(found[weights == 0.0], given.scores[weights == 0.0, 1])
    assert (found[weights > 0.0] != given.scores[weights > 0.0, 1]).mean() > 0.99
    flat = np.where((given.labels == 1)[:, None], [0.0, 3.0], given.scores)
    np.testing.assert_array_equal(moved(given, 5, scores=flat)[given.labels == 1], 3.0)


def test_repeated_scores_move_together() -> None:
    """Trees give few scores: rows of one class with the same score still have the same score."""
    given = drawn(0.3, n=3_000)
    rounded = given._replace(scores=given.scores.round(), pairs=given.pairs.round())
    found = moved(rounded, 5)
    assert np.isfinite(found).all()
    for k in (0, 1):
        for value in np.unique(rounded.scores[given.labels == k, 1]):
            same = (given.labels == k) & (rounded.scores[:, 1] == value)
            assert np.ptp(found[same]) < 1e-12
