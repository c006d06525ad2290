"""Operating points agree with counting, and with the closed form for normal classes."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import confusion_matrix

from obil.bayes.costs import Costs
from obil.bayes.one_vs_rest import one_vs_rest
from obil.calibration.reliability import ReliabilityBin
from obil.evaluation.operating_points import operating_points, with_training_prior
from obil.evaluation.report_plots import operating_plot, plot_priors, rate_interval
from obil.policies import CostPolicy
from tests.calibration.rows import held_out, three_classes

ROWS = held_out(4_000, 0.2, 0)


def test_at_the_rows_own_prior_the_figures_are_scikit_learns() -> None:
    own = float(ROWS.prior[1])
    costs = Costs(false_positive=2, false_negative=5)
    bound = CostPolicy(costs).bind()
    point = operating_points(ROWS, bound, [own], costs=costs)[0]
    alert = ROWS.log_ratios[:, 1] > bound.log_threshold(own)
    (quiet, false_alarms), (misses, hits) = confusion_matrix(ROWS.labels, alert)
    assert point.sensitivity == pytest.approx(hits / (hits + misses))
    assert point.specificity == pytest.approx(quiet / (quiet + false_alarms))
    assert point.positive_predictive_value == pytest.approx(hits / (hits + false_alarms))
    assert point.negative_predictive_value == pytest.approx(quiet / (quiet + misses))
    assert point.alert_rate == pytest.approx(alert.mean())
    assert point.f1 == pytest.approx(2 * hits / (2 * hits + false_alarms + misses))
    assert point.expected_cost == pytest.approx((2 * false_alarms + 5 * misses) / len(alert))
    assert (point.n_found, point.n_false_alarms) == (hits, false_alarms)


def test_at_another_prior_they_are_those_of_the_normal_classes() -> None:
    # sd of a rate from 800 positives is at most .018: .06 is beyond 3 sd, a failure rate of .1 %
    rows, prior, separation = held_out(4_000, 0.2, 1), 0.4, 2.5
    point = operating_points(rows, CostPolicy().bind(), [prior])[0]
    cut = separation / 2 + np.log((1 - prior) / prior) / separation
    sensitivity, specificity = norm.sf(cut - separation), norm.cdf(cut)
    ppv = prior * sensitivity / (prior * sensitivity + (1 - prior) * (1 - specificity))
    assert point.sensitivity == pytest.approx(sensitivity, abs=0.06)
    assert point.specificity == pytest.approx(specificity, abs=0.06)
    assert point.positive_predictive_value == pytest.approx(ppv, abs=0.06)


def test_of_three_classes_the_rest_keeps_its_proportions() -> None:
    rows = three_classes(2_000, 0)
    point = operating_points(rows, CostPolicy().bind(), [0.5], positive=2, rest=rows.prior)[0]
    prior = np.array([*(rows.prior[:2] / rows.prior[:2].sum() / 2), 0.5])
    alert = one_vs_rest(rows.log_ratios, prior, 2) > 0.0
    assert point.specificity == pytest.approx(1.0 - alert[rows.labels != 2].mean())


def test_nothing_alerted_has_no_ppv_and_everything_alerted_no_npv() -> None:
    far = Costs(false_positive=1e9, false_negative=1)
    nothing = operating_points(ROWS, CostPolicy(far).bind(), [0.001])[0]
    assert np.isnan(nothing.positive_predictive_value)
    assert (nothing.alert_rate, nothing.f1, nothing.is_rough) == (0.0, 0.0, False)
    near = Costs(false_positive=1, false_negative=1e9)
    assert np.isnan(operating_points(ROWS, CostPolicy(near).bind(), [0.999])[0].negative_predictive_value)


def test_the_training_prior_replaces_one_that_equals_it() -> None:
    assert with_training_prior(0.1 + 1e-9).count(0.1) == 0
    assert len(with_training_prior(0.1)) == len(with_training_prior(0.0123)) - 1


@pytest.mark.parametrize("own", [1e-5, 0.1, 0.97])
def test_the_plot_holds_any_training_prior(own: float) -> None:
    priors = plot_priors(own)
    assert priors[0] < own < priors[-1] < 1.0
    points = operating_points(ROWS, CostPolicy().bind(), priors.tolist())
    assert "nan" not in operating_plot(points, own)


def test_a_bins_interval_moves_with_the_classes_weights() -> None:
    prior = np.array([0.5, 0.5])
    own = float(ROWS.prior[1])
    bin_of_half = ReliabilityBin(1, 0.5, 0.5, 1.0, 200)
    low, high = rate_interval(bin_of_half, ROWS, prior)
    assert 0.0 < low < 0.5 < high < 1.0
    counted = rate_interval(ReliabilityBin(1, own, own, 1.0, 200), ROWS, ROWS.prior)
    odds = np.array([low, high]) / (1 - np.array([low, high]))
    plain = np.array(counted) / (1 - np.array(counted))
    assert odds == pytest.approx(plain * (1 - own) / own)
    assert rate_interval(ReliabilityBin(1, 0.01, 0.0, 1.0, 50), ROWS, prior)[0] == 0.0
