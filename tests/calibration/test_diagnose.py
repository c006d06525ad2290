"""The diagnosis measures calibration where it shows: at equal priors."""

import json

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from obil.bayes.posterior import posterior
from obil.calibration.chance import simulate_chance
from obil.calibration.diagnose import calibration_figures, diagnose
from obil.calibration.recalibration import recalibration
from obil.calibration.separation import worst_separation
from obil.errors import InvalidInputError
from obil.serving.holdout import Holdout
from tests.calibration.rows import held_out, three_classes


def test_exact_ratios_are_ideal_by_every_figure() -> None:
    diagnosis = diagnose(held_out(100_000, 0.2, 0))
    fit = diagnosis.recalibration
    assert abs(fit.shifts[0].value) < 4 * fit.shifts[0].standard_error < 0.1
    assert abs(fit.offsets[0].value) < 4 * fit.offsets[0].standard_error < 0.2
    assert abs(fit.slope.value - 1.0) < 4 * fit.slope.standard_error < 0.1
    assert diagnosis.balanced_ece < 0.01
    assert diagnosis.balanced.ece_equal_mass < 0.01
    assert diagnosis.own.ece_equal_width < 0.01
    assert diagnosis.separation.auc == pytest.approx(norm.cdf(2.5 / np.sqrt(2)), abs=0.003)
    assert all(near.rows is not None and near.rows.ratio_error < 0.2 for near in diagnosis.thresholds)


def test_the_mean_score_over_equal_priors_is_one_half() -> None:
    # 40 sets, within 4 standard errors each: fails by chance once in 400 runs of new seeds
    for seed in range(40):
        diagnosis = diagnose(held_out(2000, 0.1, seed))
        assert abs(diagnosis.mean_posterior[1] - 0.5) < 4 * diagnosis.mean_posterior_error[1] < 0.2
    biased = diagnose(held_out(20_000, 0.1, 0, bias=0.7))
    assert biased.mean_posterior[1] - 0.5 > 10 * biased.mean_posterior_error[1]
    scores = posterior(biased.holdout.log_ratios, 0.5)[:, 1]
    by_class = [scores[biased.holdout.labels == k].mean() for k in (0, 1)]
    assert biased.mean_posterior[1] == pytest.approx(np.mean(by_class))


def test_calibration_error_at_a_rare_prior_is_vacuous_and_at_one_half_it_is_not() -> None:
    even, own = np.array([0.5, 0.5]), np.array([0.99, 0.01])
    exact, biased, hopeless = (held_out(400_000, 0.01, 1, bias=bias) for bias in (0.0, 0.7, np.log(20.0)))
    assert calibration_figures(biased, own).ece_equal_width == pytest.approx(0.006, abs=0.001)
    assert calibration_figures(hopeless, own).ece_equal_width == pytest.approx(0.059, abs=0.003)
    balanced = [calibration_figures(rows, even).ece_equal_width for rows in (exact, biased, hopeless)]
    assert balanced[0] < 0.02
    assert balanced[1] > 0.04
    assert balanced[2] > 0.2
    few = recalibration(held_out(20_000, 0.01, 1, bias=0.7)).shifts[0]  # 200 positives
    assert few.value == pytest.approx(-0.7, abs=4 * 0.05)
    assert few.interval[1] < -0.5


def test_brier_log_loss_and_auc_are_scikit_learns() -> None:
    rows = held_out(3000, 0.1, 3, bias=0.4)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 3000)
    weighted = Holdout.of(rows.log_ratios, rows.labels, weights)
    diagnosis = diagnose(weighted)
    score = posterior(rows.log_ratios, weighted.prior)[:, 1]
    assert diagnosis.own.brier == pytest.approx(brier_score_loss(rows.labels, score, sample_weight=weights))
    assert diagnosis.own.log_loss == pytest.approx(log_loss(rows.labels, score, sample_weight=weights))
    assert diagnosis.separation.auc == pytest.approx(roc_auc_score(rows.labels, score, sample_weight=weights))


def test_planted_slope_and_offset_are_recovered_and_covered() -> None:
    # 90 % intervals, 200 sets: fewer than 165 covered happens by chance with probability 4e-4
    covered = np.zeros(2)
    shift_covered = 0
    for seed in range(200):
        fit = recalibration(held_out(1000, 0.05, seed, bias=0.7, slope=1.25))
        truth = (1.0 / 1.25, -0.7 / 1.25)
        for i, (estimate, value) in enumerate(zip((fit.slope, fit.offsets[0]), truth, strict=True)):
            covered[i] += estimate.interval[0] <= value <= estimate.interval[1]
        shift = recalibration(held_out(1000, 0.05, seed, bias=0.7)).shifts[0]
        shift_covered += shift.interval[0] <= -0.7 <= shift.interval[1]
    assert (covered >= 165).all()
    assert (covered <= 195).all()  # and not by being too wide
    assert 165 <= shift_covered <= 195


def test_equal_weights_change_nothing_and_their_scale_does_not_matter() -> None:
    rows = held_out(1000, 0.1, 4)
    scaled = Holdout.of(rows.log_ratios, rows.labels, np.full(1000, 7.0))
    assert diagnose(scaled).balanced_ece == pytest.approx(diagnose(rows).balanced_ece)
    plain, heavy = recalibration(rows), recalibration(scaled)
    assert heavy.slope.value == pytest.approx(plain.slope.value)
    assert heavy.shifts[0].standard_error == pytest.approx(plain.shifts[0].standard_error)


def test_chance_varies_as_fresh_calibrated_sets_do() -> None:
    fresh = [recalibration(held_out(2000, 0.05, seed)) for seed in range(150)]
    chance = simulate_chance(held_out(2000, 0.05, 999), n_simulations=400)
    # the ratio of two standard deviations from 150 and 400 sets has a standard error of .07
    assert chance.slopes.std() == pytest.approx(np.std([fit.slope.value for fit in fresh]), rel=0.3)
    assert chance.shifts[:, 1].std() == pytest.approx(np.std([fit.shifts[0].value for fit in fresh]), rel=0.3)
    assert abs(chance.shifts[:, 1].mean()) < 0.03
    errors = [diagnose(held_out(2000, 0.05, seed)).balanced_ece for seed in range(50)]
    assert chance.balanced_ece.mean() == pytest.approx(np.mean(errors), rel=0.2)


def test_three_classes_have_one_slope_two_offsets_and_a_table_each() -> None:
    diagnosis = diagnose(three_classes(20_000, 0, bias=0.5))
    assert [shift.value for shift in diagnosis.recalibration.shifts] == pytest.approx([0.0, -0.5], abs=0.12)
    assert diagnosis.recalibration.slope.value == pytest.approx(1.0, abs=0.06)
    assert {row.class_number for row in diagnosis.balanced.table} == {0, 1, 2}
    assert diagnosis.balanced.classwise_ece.shape == (3,)
    assert diagnosis.thresholds == ()
    json.dumps(diagnosis.to_json(), allow_nan=False)


def test_the_worst_separated_pair_is_found() -> None:
    rows = three_classes(3000, 1)
    blurred = rows.log_ratios.copy()
    blurred[:, 1:] = blurred[:, 1:].mean(axis=1, keepdims=True)  # tells 1 and 2 from 0, not from each other
    worst = worst_separation(Holdout.of(blurred, rows.labels))
    assert (worst.lower_class, worst.upper_class, worst.auc) == (1, 2, 0.5)


def test_thresholds_are_the_ones_in_play() -> None:
    rows = held_out(5000, 0.01, 0)
    assert diagnose(rows).thresholds[1].log_threshold == pytest.approx(-np.log(rows.prior[1] / rows.prior[0]))
    assert diagnose(rows, thresholds=[50.0]).thresholds[0].rows is None
    with pytest.raises(InvalidInputError, match="thresholds must be finite numbers"):
        diagnose(rows, thresholds=[np.nan])
    with pytest.raises(InvalidInputError, match="thresholds are for two classes, got 3"):
        diagnose(three_classes(100, 0), thresholds=[0.0])
