"""Regret is the cost beyond the oracle's; realised and expected regret agree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.gaussian_pair import GaussianPair, binary_log_thresholds, realised_costs, realised_regret
from experiments.paper_formulas import bayes_decision
from obil.bayes.costs import Costs, log_threshold
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError

DEAR_MISS = Costs(false_positive=1.0, false_negative=9.0, true_positive=0.5, true_negative=0.1)


def test_each_decision_costs_its_entry_of_the_matrix() -> None:
    found = realised_costs([0, 0, 1, 1], [0, 1, 0, 1], DEAR_MISS)
    assert found.tolist() == [0.1, 9.0, 1.0, 0.5]


@pytest.mark.parametrize("costs", [Costs(false_positive=1.0, false_negative=1.0), DEAR_MISS])
def test_realised_and_closed_form_regret_agree_on_a_long_stream(costs: Costs) -> None:
    # seed 7, 400,000 rows; tolerance 4 standard errors of the realised mean, false-failure rate 6e-5
    n_rows, truth, assumed = 400_000, 0.1, 0.35
    stream = GaussianClasses.pair(1.5).draw(np.full(n_rows, truth), random_state=7)
    decisions = bayes_decision(stream.log_ratios, assumed, costs)
    realised = realised_regret(decisions, stream.labels, stream.log_ratios, stream.priors, costs)
    expected = GaussianPair(1.5).regret(np.full(n_rows, assumed), np.full(n_rows, truth), costs)
    steps = np.diff(realised, prepend=0.0)
    tolerance = 4.0 * steps.std() * np.sqrt(n_rows)
    assert expected[-1] > 3.0 * tolerance  # there is something to agree about
    assert realised[-1] == pytest.approx(expected[-1], abs=tolerance)


def test_the_oracle_has_no_regret_realised_or_expected() -> None:
    rng = np.random.default_rng(0)
    path = rng.uniform(0.02, 0.6, 5_000)
    stream = GaussianClasses.pair(2.0).draw(path, random_state=1)
    decisions = (stream.log_ratios[:, 1] > binary_log_thresholds(path, DEAR_MISS)).astype(int)
    realised = realised_regret(decisions, stream.labels, stream.log_ratios, stream.priors, DEAR_MISS)
    assert not realised.any()
    assert not GaussianPair(2.0).regret(path, path, DEAR_MISS).any()
    assert GaussianPair(2.0).excess(path, path) == 0.0


def test_the_oracle_of_three_classes_has_no_regret_and_another_prior_has() -> None:
    classes = GaussianClasses(np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]]), np.eye(2))
    truth = np.array([0.7, 0.2, 0.1])
    costs = Costs.from_matrix([[0.0, 4.0, 9.0], [1.0, 0.0, 2.0], [1.0, 3.0, 0.0]])
    stream = classes.draw(np.tile(truth, (20_000, 1)), random_state=2)
    right = bayes_decision(stream.log_ratios, truth, costs)
    wrong = bayes_decision(stream.log_ratios, [0.1, 0.2, 0.7], costs)
    assert not realised_regret(right, stream.labels, stream.log_ratios, stream.priors, costs).any()
    # seed 2; the mean regret is .3 a row, many standard errors (.02) above 0
    assert realised_regret(wrong, stream.labels, stream.log_ratios, stream.priors, costs)[-1] > 1_000.0


@settings(deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.5, 4.0), st.floats(0.05, 20.0))
def test_expected_regret_is_never_negative(truth: float, assumed: float, separation: float, cost: float) -> None:
    costs = Costs(false_positive=cost, false_negative=1.0)
    assert GaussianPair(separation).regret([assumed], [truth], costs)[0] >= -1e-12


@pytest.mark.parametrize("cost_ratio", [0.1, 5.0])
@pytest.mark.parametrize("prior", [0.05, 0.3])
def test_the_threshold_minimises_the_loss_that_weighs_the_false_alarm_and_not_the_printed_one(
    cost_ratio: float, prior: float
) -> None:
    pair = GaussianPair(2.0)
    thresholds = np.linspace(-8.0, 8.0, 160_001)  # steps of 1e-4
    true_rate, false_rate = pair.rates(thresholds)
    corrected = cost_ratio * (1.0 - prior) * false_rate + prior * (1.0 - true_rate)
    printed = (1.0 - prior) * false_rate + cost_ratio * prior * (1.0 - true_rate)  # Qc on the miss
    used = np.log(cost_ratio * (1.0 - prior) / prior)
    assert log_threshold(prior, Costs(false_positive=cost_ratio, false_negative=1.0)) == pytest.approx(used)
    assert thresholds[corrected.argmin()] == pytest.approx(used, abs=2e-4)
    # the printed loss is least where Qc divides: twice log Qc away
    assert thresholds[printed.argmin()] == pytest.approx(used - 2.0 * np.log(cost_ratio), abs=2e-4)


def test_rates_are_those_of_drawn_rows() -> None:
    # seed 3; 200,000 rows of each class, tolerance 4 standard errors (.0045), false-failure rate 3e-4 for 4 rates
    pair, classes = GaussianPair(1.7), GaussianClasses.pair(1.7)
    stream = classes.draw(np.full(400_000, 0.5), random_state=3)
    for cut in (-1.0, 1.3):
        true_rate, false_rate = pair.rates(cut)
        above = stream.log_ratios[:, 1] > cut
        assert above[stream.labels == 1].mean() == pytest.approx(float(true_rate), abs=0.0045)
        assert above[stream.labels == 0].mean() == pytest.approx(float(false_rate), abs=0.0045)


def test_excess_is_regret_as_a_fraction_of_the_oracle_cost() -> None:
    pair = GaussianPair(2.0)
    used, truth = np.array([0.2, 0.4]), np.array([0.1, 0.3])
    cost_used = pair.expected_cost(binary_log_thresholds(used), truth).sum()
    cost_oracle = pair.oracle_cost(truth).sum()
    assert pair.excess(used, truth) == pytest.approx(cost_used / cost_oracle - 1.0)
    assert pair.excess(used, truth) > 0.0


def test_many_thresholds_are_the_single_one_each() -> None:
    priors = np.array([0.01, 0.3, 0.77])
    found = binary_log_thresholds(priors, DEAR_MISS)
    np.testing.assert_allclose(found, [log_threshold(p, DEAR_MISS) for p in priors], rtol=1e-14)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="equally long"):
        realised_costs([0, 1], [0])
    with pytest.raises(InvalidInputError, match="priors must have the shape"):
        realised_regret([0], [0], [[0.0, 1.0]], [0.5])
    with pytest.raises(InvalidInputError, match="labels must"):
        realised_costs([0, 2], [0, 1])


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_separation_that_is_not_positive_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInputError, match="separation must be positive"):
        GaussianPair(bad)
