"""Arrays are checked where they enter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.arrays import as_labels, as_log_ratios, as_prior, require_in, require_same_length
from obil.errors import InvalidInputError


@given(st.floats(1e-12, 1.0 - 1e-12))
def test_a_number_is_the_binary_positive_prior(positive: float) -> None:
    prior = as_prior(positive)
    assert prior.shape == (2,)
    assert prior[1] == pytest.approx(positive, rel=1e-15)
    assert prior.sum() == pytest.approx(1.0, abs=1e-15)


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=50))
def test_a_prior_that_sums_to_one_keeps_its_proportions(weights: list[float]) -> None:
    values = np.array(weights) / np.sum(weights)
    np.testing.assert_allclose(as_prior(values), values, rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(2, 50))
def test_a_prior_that_was_checked_once_is_not_changed_by_checking_it_again(seed: int, n_classes: int) -> None:
    # restored trackers resume bit for bit only if this holds
    once = as_prior(np.random.default_rng(seed).dirichlet(np.ones(n_classes)) * 0.999 + 0.001 / n_classes)
    np.testing.assert_array_equal(as_prior(once), once)


def test_rounding_within_the_tolerance_is_scaled_away() -> None:
    prior = as_prior([0.3, 0.7 + 9e-7])
    assert prior.sum() == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(prior, np.array([0.3, 0.7 + 9e-7]) / (1.0 + 9e-7), rtol=1e-14)


def test_a_prior_is_a_copy_that_the_caller_cannot_reach() -> None:
    values = np.array([0.5, 0.5])
    prior = as_prior(values)
    values[0] = 99.0
    assert prior.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "bad",
    [0.0, 1.0, -0.1, 1.1, np.nan, np.inf, "x", None, [], [1.0], [0.5, 0.6], [0.5, 0.5 + 2e-6], [1.0, 0.0],
     [-0.5, 1.5], [0.5, np.nan], [[0.5, 0.5]], {0: 0.5}, [0.5, [0.5]]],
)  # fmt: skip
def test_a_prior_outside_the_open_simplex_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="prior must"):
        as_prior(bad)


def test_a_prior_of_the_wrong_number_of_classes_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="3 classes, got 2"):
        as_prior(0.5, n_classes=3)


def test_log_ratios_come_back_contiguous_and_unchanged() -> None:
    rows = np.asfortranarray(np.column_stack([np.zeros(4), np.arange(4.0), -np.arange(4.0)]))
    checked = as_log_ratios(rows, n_classes=3)
    assert checked.flags.c_contiguous
    np.testing.assert_array_equal(checked, rows)


def test_no_rows_are_rows_too() -> None:
    assert as_log_ratios(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        ([0.0, 1.0], "shape"),
        ([[0.0]], "shape"),
        ([[[0.0, 1.0]]], "shape"),
        ([[0.0, 1.0, 2.0]], "2 columns"),
        ([[0.0, np.nan]], "finite"),
        ([[0.0, 1.0], [0.0, -np.inf]], "row 1"),
        ([[0.0, 1.0], [1e-300, 1.0]], "row 1"),
        ([[np.nan, 1.0]], "finite"),
        ([["a", "b"]], "numbers"),
        ([[0.0, 1.0], [0.0]], "numbers"),
    ],
)
def test_log_ratios_that_break_a_rule_are_refused_with_it(bad: object, rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        as_log_ratios(bad, n_classes=2)


def test_labels_are_class_numbers() -> None:
    assert as_labels([0, 2, 1], n_classes=3).dtype == np.int64
    assert as_labels([True, False], n_classes=2).tolist() == [1, 0]
    assert as_labels([], n_classes=2).size == 0


@pytest.mark.parametrize("bad", [[0.0, 1.0], [0, 3], [-1, 0], [[0, 1]], ["a"], 1, [np.nan]])
def test_labels_that_are_not_class_numbers_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="labels must"):
        as_labels(bad, n_classes=3)


def test_unequal_lengths_are_named() -> None:
    require_same_length(labels=np.zeros(3), decisions=np.ones(3))
    with pytest.raises(InvalidInputError, match=r"'labels': 3, 'decisions': 2"):
        require_same_length(labels=np.zeros(3), decisions=np.ones(2))


def test_a_number_in_a_closed_range_passes_and_any_other_is_refused() -> None:
    assert [require_in("x", v, 0.0, 1.0) for v in (0.0, 0.5, 1.0)] == [0.0, 0.5, 1.0]
    for bad in (-1e-9, 1.0 + 1e-9, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match=r"x must lie in \[0, 1\]"):
            require_in("x", bad, 0.0, 1.0)
