"""The curve of true and false positive rates."""

import numpy as np
import pytest

from experiments.gaussian_pair import GaussianPair
from obil.errors import InvalidInputError
from obil.policies import FBetaPolicy
from obil.policies.operating_curve import MOST_THRESHOLDS, OperatingCurve
from obil.serving.holdout import Holdout
from tests.policies.cases import SEPARATION, binary_rows, gaussian_holdout


def test_counts_labels_as_a_loop_over_thresholds_does() -> None:
    rng = np.random.default_rng(0)
    scores, labels, weights = rng.integers(-3, 4, 60) / 2.0, rng.integers(0, 2, 60), rng.uniform(0.1, 3.0, 60)
    curve = OperatingCurve.of(Holdout.of(binary_rows(scores), labels, weights), soft=False)
    for place, threshold in enumerate(curve.log_thresholds):
        alerted = scores > threshold
        hit = weights[alerted & (labels == 1)].sum() / weights[labels == 1].sum()
        false_alarm = weights[alerted & (labels == 0)].sum() / weights[labels == 0].sum()
        assert curve.true_positive_rates[place] == pytest.approx(hit, abs=1e-12)
        assert curve.false_positive_rates[place] == pytest.approx(false_alarm, abs=1e-12)


def test_equal_scores_move_together() -> None:
    rows = Holdout.of(binary_rows([1.0, 1.0, 1.0, -1.0, -1.0]), [1, 0, 1, 0, 1])
    curve = OperatingCurve.of(rows, soft=False)
    assert curve.log_thresholds.tolist() == [np.inf, 0.0, -np.inf]
    assert curve.effective_rows.tolist() == pytest.approx([0.0, 3.0, 5.0])


def test_a_single_score_can_only_be_alerted_or_not() -> None:
    curve = OperatingCurve.of(Holdout.of(binary_rows([0.5, 0.5]), [0, 1]))
    assert curve.log_thresholds.tolist() == [np.inf, -np.inf]
    assert curve.true_positive_rates.tolist() == curve.false_positive_rates.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("low", [1.0, -1.0, 5e-324, -1.7e308])
def test_a_threshold_separates_even_neighbouring_floats(low: float) -> None:
    high = np.nextafter(low, np.inf)
    threshold = OperatingCurve.of(Holdout.of(binary_rows([low, high]), [0, 1]), soft=False).log_thresholds[1]
    assert low <= threshold < high


def test_rows_without_weight_leave_no_trace() -> None:
    scores, labels = [2.0, 1.0, 0.0, -1.0], [1, 0, 1, 0]
    weighed = OperatingCurve.of(Holdout.of(binary_rows([*scores, 1.5]), [*labels, 1], [1.0, 1.0, 1.0, 1.0, 0.0]))
    plain = OperatingCurve.of(Holdout.of(binary_rows(scores), labels))
    np.testing.assert_array_equal(weighed.log_thresholds, plain.log_thresholds)
    np.testing.assert_array_equal(weighed.true_positive_rates, plain.true_positive_rates)


def test_many_rows_keep_at_most_two_thousand_thresholds_and_every_one_of_the_first_hundred() -> None:
    rows = gaussian_holdout(50_000)
    curve = OperatingCurve.of(rows)
    assert len(curve.log_thresholds) <= MOST_THRESHOLDS + 2
    top = np.sort(rows.log_ratios[:, 1])[::-1]
    np.testing.assert_allclose(curve.log_thresholds[1:100], (top[:99] + top[1:100]) / 2.0, rtol=1e-12)
    assert (np.diff(curve.log_thresholds[1:-1]) < 0.0).all()


@pytest.mark.parametrize("soft", [True, False])
def test_finds_the_true_rates_of_normal_classes(soft: bool) -> None:
    # 1,000 positives: a rate's standard error is at most .016; the largest of a curve's gaps (Kolmogorov)
    # exceeds .06 in 1 of 700 samples, and the seed is fixed
    curve = OperatingCurve.of(gaussian_holdout(), soft=soft)
    true_rates, false_rates = GaussianPair(SEPARATION).rates(curve.log_thresholds)
    assert abs(curve.true_positive_rates - true_rates).max() < 0.06
    assert abs(curve.false_positive_rates - false_rates).max() < 0.015


def test_soft_labels_beat_hard_ones_with_thirty_positives() -> None:
    # the gain in true F1 is .0136 with a standard deviation of .018 a seed, so over 60 seeds its mean is
    # below .004 once in 50,000 draws of the seeds
    prior, pair, gains = np.array([0.03]), GaussianPair(SEPARATION), []
    labels = np.repeat([1, 0], [30, 970])
    for seed in range(60):
        features = np.random.default_rng(seed).normal(size=1_000) + SEPARATION * labels
        rows = Holdout.of(binary_rows(SEPARATION * features - SEPARATION**2 / 2.0), labels)
        reached = []
        for soft in (True, False):
            hit, false_alarm = pair.rates(FBetaPolicy().choose(OperatingCurve.of(rows, soft=soft), prior))
            reached.append(2 * prior * hit / (prior + prior * hit + (1 - prior) * false_alarm))
        gains.append(float(reached[0][0] - reached[1][0]))
    assert np.mean(gains) > 0.004


def test_labels_prevail_where_the_ratio_denies_a_class() -> None:
    curve = OperatingCurve.of(Holdout.of(binary_rows([-1e4, -2e4]), [1, 0]))
    assert curve.true_positive_rates.tolist() == [0.0, 1.0, 1.0]
    assert curve.false_positive_rates.tolist() == [0.0, 0.0, 1.0]


def test_says_that_it_needs_rows_and_a_positive_class() -> None:
    with pytest.raises(InvalidInputError, match="held-out rows"):
        OperatingCurve.of(None)
    three = Holdout.of([[0.0, 1.0, 2.0]] * 3, [0, 1, 2])
    with pytest.raises(InvalidInputError, match="positive="):
        OperatingCurve.of(three)
