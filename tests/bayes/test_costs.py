"""Decisions minimise expected cost."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from experiments.paper_formulas import bayes_decision
from obil.bayes.costs import EQUAL_COSTS, Costs, log_threshold
from obil.errors import InvalidInputError

cost = st.floats(0.01, 100.0)


def brute_force(rows: np.ndarray, prior: np.ndarray, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected cost of every decision by an explicit sum over the true class, and the cheapest."""
    posterior = prior * np.exp(rows - rows.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    expected = np.array(
        [[sum(p[j] * matrix[i, j] for j in range(len(prior))) for i in range(len(prior))] for p in posterior]
    )
    return expected, expected.argmin(axis=1)


@settings(deadline=None)
@given(cost, cost, st.floats(0.0, 10.0), st.floats(0.0, 10.0), st.floats(0.001, 0.999), st.integers(0, 2**32 - 1))
def test_the_binary_threshold_is_the_special_case_of_a_cost_matrix(
    false_alarm: float, miss: float, right_negative: float, right_positive: float, prior: float, seed: int
) -> None:
    matrix = np.array(
        [[right_negative, right_positive + miss], [right_negative + false_alarm, right_positive]]
    )  # a wrong decision costs more than the right one
    costs = Costs.from_matrix(matrix)
    ratios = np.random.default_rng(seed).normal(scale=4.0, size=30)
    rows = np.stack([np.zeros(30), ratios], axis=1)
    expected, cheapest = brute_force(rows, np.array([1.0 - prior, prior]), matrix)
    clear = abs(expected[:, 0] - expected[:, 1]) > 1e-9 * expected.max()  # rounding decides a tie
    assume(clear.any())
    np.testing.assert_array_equal(bayes_decision(rows, prior, costs)[clear], cheapest[clear])
    by_threshold = (ratios > log_threshold(prior, costs)).astype(int)
    np.testing.assert_array_equal(by_threshold[clear], cheapest[clear])
    assert costs.ratio == pytest.approx((matrix[1, 0] - matrix[0, 0]) / (matrix[0, 1] - matrix[1, 1]))


def test_named_costs_fill_the_matrix_with_decided_rows_and_true_columns() -> None:
    costs = Costs(false_positive=2.0, false_negative=30.0, true_positive=1.0, true_negative=0.5)
    assert costs.matrix.tolist() == [[0.5, 30.0], [2.0, 1.0]]
    assert costs.ratio == pytest.approx(1.5 / 29.0)
    assert costs == Costs.from_matrix([[0.5, 30.0], [2.0, 1.0]])


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_decision_among_many_classes_is_the_brute_force_minimum(n_classes: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        right = rng.uniform(0.0, 1.0, n_classes)
        matrix = right + rng.uniform(0.1, 10.0, (n_classes, n_classes))
        np.fill_diagonal(matrix, right)
        prior = rng.dirichlet(np.ones(n_classes))
        rows = rng.normal(scale=2.0, size=(50, n_classes))
        rows[:, 0] = 0.0
        _expected, cheapest = brute_force(rows, prior, matrix)
        np.testing.assert_array_equal(bayes_decision(rows, prior, Costs.from_matrix(matrix)), cheapest)
        assert len(set(cheapest.tolist())) > 1  # the case decides something


def test_the_threshold_is_log_cost_ratio_plus_log_prior_odds() -> None:
    costs = Costs(false_positive=1.0, false_negative=9.0)
    assert log_threshold(0.1, costs) == pytest.approx(np.log(1.0 / 9.0) + np.log(9.0), abs=1e-15)
    assert log_threshold(0.01) == pytest.approx(np.log(99.0))


def test_a_row_on_the_threshold_goes_to_the_lower_class() -> None:
    assert bayes_decision([[0.0, 0.0]], 0.5).tolist() == [0]
    assert bayes_decision([[0.0, np.nextafter(0.0, 1.0)]], 0.5).tolist() == [1]
    thirds = Costs.from_matrix(1.0 - np.eye(3))
    assert bayes_decision([[0.0, 0.0, 0.0]], [1 / 3, 1 / 3, 1 / 3], thirds).tolist() == [0]


def test_rows_too_sure_for_a_posterior_are_still_compared() -> None:
    # posteriors would all round to 1; in logs 800 is above a threshold of 750 and 700 is not
    costs = Costs(false_positive=np.exp(700.0), false_negative=1.0)
    prior = 1.0 / (1.0 + np.exp(34.0))
    assert bayes_decision([[0.0, 730.0], [0.0, 740.0]], prior, costs).tolist() == [0, 1]


def test_costs_cannot_be_changed_and_compare_by_value() -> None:
    costs = Costs.from_matrix([[0, 1], [2, 0]], classes=["no", "yes"])
    assert costs.classes == ("no", "yes")
    with pytest.raises(ValueError, match="read-only"):
        costs.matrix[0, 0] = 5.0
    with pytest.raises(AttributeError):
        costs.matrix = np.eye(2)
    same = Costs.from_matrix([[0, 1], [2, 0]], classes=("no", "yes"))
    assert costs == same
    assert hash(costs) == hash(same)
    assert costs != Costs.from_matrix([[0, 1], [2, 0]])
    assert costs != Costs.from_matrix([[0, 1], [3, 0]], classes=("no", "yes"))
    assert costs != "costs"


def test_equal_costs_have_equal_hashes_even_at_minus_zero() -> None:
    costs = Costs(false_positive=1.0, false_negative=1.0, true_positive=-0.0)
    assert costs == EQUAL_COSTS
    assert hash(costs) == hash(EQUAL_COSTS)


def test_changing_the_matrix_a_cost_came_from_changes_nothing() -> None:
    matrix = np.array([[0.0, 1.0], [1.0, 0.0]])
    costs = Costs.from_matrix(matrix)
    matrix[0, 1] = 50.0
    assert costs.ratio == 1.0


@pytest.mark.parametrize(
    "bad",
    [
        [[0.0, 1.0]],
        [[0.0]],
        [0.0, 1.0],
        [[0.0, np.nan], [1.0, 0.0]],
        [[0.0, np.inf], [1.0, 0.0]],
        [[0.0, 0.0], [1.0, 0.0]],
        [[0.0, -1.0], [1.0, 0.0]],
        [[2.0, 1.0], [1.0, 0.0]],
        [["a", "b"], ["c", "d"]],
        [[0, 10**400], [1, 0]],
        [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    ],
)
def test_a_matrix_that_is_no_cost_matrix_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        Costs.from_matrix(bad)


def test_the_message_names_the_wrong_decision_that_costs_too_little() -> None:
    with pytest.raises(InvalidInputError, match="deciding 0 when 1 is true"):
        Costs(false_positive=1.0, false_negative=0.0)


def test_names_for_another_number_of_classes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="name all 2 rows"):
        Costs.from_matrix([[0, 1], [1, 0]], classes=["a"])


def test_what_is_binary_only_says_so_for_three_classes() -> None:
    costs = Costs.from_matrix(1.0 - np.eye(3))
    assert costs.n_classes == 3
    with pytest.raises(InvalidInputError, match="binary"):
        _ = costs.ratio
    with pytest.raises(InvalidInputError):
        log_threshold([0.2, 0.3, 0.5], costs)
    with pytest.raises(InvalidInputError, match="3 columns"):
        bayes_decision([[0.0, 1.0]], 0.5, costs)


@pytest.mark.parametrize(("false_positive", "false_negative"), [(1e93, 5e-291), (5e-291, 1e93), (1e306, 1e306)])
def test_refuses_costs_whose_ratio_is_no_number(false_positive: float, false_negative: float) -> None:
    with pytest.raises(InvalidInputError, match="costs must be"):
        Costs(false_positive=false_positive, false_negative=false_negative)
