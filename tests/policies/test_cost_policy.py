"""The cost policy is the closed form."""

import numpy as np
import pytest

from obil.bayes.costs import Costs, log_threshold
from obil.errors import InvalidInputError
from obil.policies import CostPolicy
from tests.policies.cases import gaussian_holdout

COSTS = Costs(false_positive=1.0, false_negative=30.0, true_positive=0.5)


def test_is_the_closed_form_bit_for_bit() -> None:
    priors = np.random.default_rng(0).uniform(size=1_000) ** 4
    expected = [log_threshold(prior, COSTS) for prior in priors]
    bound = CostPolicy(COSTS).bind()
    np.testing.assert_array_equal(bound.log_thresholds(priors), expected)
    np.testing.assert_array_equal([bound.log_threshold(prior) for prior in priors], expected)
    assert bound.reachable(priors).all()


def test_needs_no_held_out_rows_and_does_not_depend_on_them() -> None:
    assert CostPolicy(COSTS).bind(gaussian_holdout(100)) == CostPolicy(COSTS).bind(None)


def test_thresholds_do_not_depend_on_which_class_is_positive() -> None:
    rows = gaussian_holdout(100)
    assert CostPolicy(COSTS).bind(rows, positive=0) == CostPolicy(COSTS).bind(rows, positive=1)


def test_a_class_that_never_comes_is_never_alerted() -> None:
    assert CostPolicy().bind().log_thresholds([0.0, 1.0]).tolist() == [np.inf, -np.inf]


def test_a_matrix_over_three_classes_keeps_its_costs_and_has_no_threshold() -> None:
    policy = CostPolicy(Costs.from_matrix(1.0 - np.eye(3)))
    assert policy.costs.n_classes == 3
    with pytest.raises(InvalidInputError, match="no single threshold: leave out positive="):
        policy.bind()


def test_refuses_costs_that_are_none() -> None:
    with pytest.raises(InvalidInputError, match="costs must be"):
        CostPolicy(3.0)
