"""One class against a mixture of the others."""

import numpy as np
import pytest

from obil.bayes.one_vs_rest import one_vs_rest
from obil.errors import InvalidInputError


def joint_rows(n_rows: int, n_classes: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(scale=3.0, size=(n_rows, n_classes))
    rows[:, 0] = 0.0
    return rows


def test_with_two_classes_it_is_the_column_or_its_negative_exactly() -> None:
    rows = joint_rows(50, 2)
    np.testing.assert_array_equal(one_vs_rest(rows, [0.3, 0.7], 1), rows[:, 1])
    np.testing.assert_array_equal(one_vs_rest(rows, [0.3, 0.7], 0), -rows[:, 1])


@pytest.mark.parametrize("positive", [0, 1, 2, 3])
def test_gives_the_posterior_odds_of_the_positive_class(positive: int) -> None:
    rows, prior = joint_rows(50, 4), np.array([0.5, 0.2, 0.2, 0.1])
    joint = prior * np.exp(rows)
    rest = joint.sum(axis=1) - joint[:, positive]
    expected = np.log(joint[:, positive] / rest) - np.log(prior[positive] / (1.0 - prior[positive]))
    np.testing.assert_allclose(one_vs_rest(rows, prior, positive), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 12, 40])
def test_one_row_and_many_agree_bit_for_bit(n_classes: int) -> None:
    rows = joint_rows(33, n_classes)
    priors = np.random.default_rng(1).dirichlet(np.ones(n_classes), size=33)
    many = one_vs_rest(rows, priors, 2)
    single = [one_vs_rest(rows[i : i + 1], priors[i], 2)[0] for i in range(33)]
    np.testing.assert_array_equal(many, single)


def test_a_class_without_prior_adds_nothing_to_the_rest() -> None:
    rows = joint_rows(20, 3)
    np.testing.assert_allclose(one_vs_rest(rows, [0.8, 0.0, 0.2], 2), rows[:, 2], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("priors", "positive", "rule"),
    [
        ([0.5, 0.5], 1, "shape"),
        ([0.5, np.nan, 0.5], 1, "probabilities"),
        ([0.0, 0.0, 1.0], 2, "some prior"),
        ([0.5, 0.3, 0.2], 3, "class number"),
        ([0.5, 0.3, 0.2], -1, "class number"),
        ([0.5, 0.3, 0.2], True, "class number"),
    ],
)
def test_refuses_what_has_no_answer(priors: list[float], positive: int, rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        one_vs_rest(joint_rows(4, 3), priors, positive)
