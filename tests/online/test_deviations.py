"""Which segments deviate: the chi-square of a log-likelihood's drop, and the false discovery rate."""

import numpy as np
import pytest
from scipy.stats import chi2, false_discovery_control

from obil.arrays import FloatArray
from obil.online.deviations import deviation_q_values, false_discovery_rates


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_one_segment_has_the_chi_square_probability_of_its_drop(n_classes: int) -> None:
    best, others = np.full(n_classes, 1.0 / n_classes), np.eye(n_classes)[0]

    def log_likelihood(prior: FloatArray) -> float:
        return 2.5 if prior is best else 0.0

    found = deviation_q_values([log_likelihood], [best], others, lambda kept: others)
    np.testing.assert_allclose(found, chi2.sf(5.0, n_classes - 1), rtol=1e-12)


def test_the_others_are_those_that_do_not_deviate_and_a_segment_without_rows_never_does() -> None:
    own = [np.array([1.0 - p, p]) for p in (0.1, 0.1, 0.1, 0.9)]
    functions = [lambda prior, p=p: -20.0 * (prior[1] - p) ** 2 for p in (0.1, 0.1, 0.1, 0.9)]
    asked: list[list[int]] = []

    def pooled(kept: list[int]) -> FloatArray:
        asked.append(kept)
        return np.array([0.9, 0.1])

    start = np.array([0.7, 0.3])  # the mean of all segments, which none of them has
    found = deviation_q_values([*functions, functions[0]], [*own, None], start, pooled)
    np.testing.assert_allclose(found[3], 5.0 * chi2.sf(2.0 * 20.0 * 0.64, 1))  # against the pooled prior
    assert asked[0] == [0, 1, 2]
    assert found[4] == 1.0


def test_the_false_discovery_rates_are_scipys() -> None:
    p_values = np.random.default_rng(7).random(50) ** 2
    np.testing.assert_allclose(false_discovery_rates(p_values), false_discovery_control(p_values), rtol=1e-12)
