"""Looking thresholds up."""

import numpy as np
import pytest
from scipy.special import expit

from obil.errors import InvalidInputError
from obil.policies.threshold_table import ThresholdTable, grid_priors


def test_is_exact_for_a_threshold_linear_in_the_logit() -> None:
    grid = np.linspace(-14.0, 14.0, 561)
    table, logits = ThresholdTable.of(3.0 - 2.0 * grid), np.linspace(-13.9, 13.9, 777)
    np.testing.assert_allclose(table.log_thresholds(expit(logits)), 3.0 - 2.0 * logits, rtol=0, atol=1e-8)


def test_holds_its_ends_beyond_the_grid() -> None:
    table = ThresholdTable.of(np.linspace(5.0, -5.0, 561))
    assert table.log_thresholds([0.0, 1e-12, 1.0 - 1e-12, 1.0]).tolist() == pytest.approx([5.0, 5.0, -5.0, -5.0])


def test_is_unreachable_where_either_neighbour_is() -> None:
    thresholds = np.zeros(561)
    thresholds[280] = np.inf  # prior 1/2
    table, priors = ThresholdTable.of(thresholds), expit(np.array([-0.07, -0.03, 0.0, 0.03, 0.07]))
    assert table.reachable(priors).tolist() == [True, False, False, False, True]
    assert table.log_thresholds(priors).tolist() == [0.0, np.inf, np.inf, np.inf, 0.0]


def test_alerts_everything_only_where_both_neighbours_do() -> None:
    thresholds = np.full(561, -np.inf)
    thresholds[280] = 1.0
    found = ThresholdTable.of(thresholds).log_thresholds(expit(np.array([-0.07, -0.03, 0.03, 0.07])))
    assert found.tolist() == [-np.inf, 1.0, 1.0, -np.inf]


def test_one_prior_and_many_agree_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    table, priors = ThresholdTable.of(rng.normal(size=561)), np.concatenate([[0.0, 1.0], rng.uniform(size=999) ** 5])
    many = table.log_thresholds(priors)
    np.testing.assert_array_equal(many, [table.log_threshold(prior) for prior in priors])
    np.testing.assert_array_equal(many, [table.log_thresholds([prior])[0] for prior in priors])
    strided = np.stack([1.0 - priors, priors], axis=1)[:, 1]
    np.testing.assert_array_equal(many, table.log_thresholds(strided))


@pytest.mark.parametrize("bad", [[0.1, np.nan], [-0.1], [1.1], 0.5, [[0.5]], ["x"]])
def test_refuses_what_is_no_list_of_priors(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="positive_priors"):
        ThresholdTable.of(np.zeros(561)).log_thresholds(bad)


def test_refuses_one_prior_outside_its_range_and_a_damaged_table() -> None:
    for bad in (np.nan, -0.1, 1.1):
        with pytest.raises(InvalidInputError, match="positive prior"):
            ThresholdTable.of(np.zeros(561)).log_threshold(bad)
    for thresholds in (np.zeros(3), np.full(561, np.nan)):
        with pytest.raises(InvalidInputError, match="561"):
            ThresholdTable.of(thresholds)
    assert len(grid_priors()) == 561
