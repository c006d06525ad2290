"""The error of a ratio is bounded by that of its posterior; the paper's bound is not one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.paper_formulas import printed_ratio_error_bound, ratio_error_bound, relative_ratio_error
from obil.errors import InvalidInputError


def ratio(posterior: float) -> float:
    return posterior / (1.0 - posterior)  # at equal priors; any other prior cancels in the relative error


@given(st.floats(0.001, 0.999), st.floats(-0.999, 0.999))
def test_the_exact_error_is_that_of_the_ratios_and_never_exceeds_the_bound(true: float, fraction: float) -> None:
    size = min(true, 1.0 - true) * 0.999
    error = fraction * size
    exact = ratio(true + error) / ratio(true) - 1.0
    assert float(relative_ratio_error(true, error)) == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert abs(exact) <= float(ratio_error_bound(true, error)) * (1.0 + 1e-9) + 1e-12
    assert float(ratio_error_bound(true, error)) == float(ratio_error_bound(true, -error))


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.9))
def test_the_bound_is_reached_by_an_overestimate(true: float, fraction: float) -> None:
    size = fraction * min(true, 1.0 - true)
    exact = ratio(true + size) / ratio(true) - 1.0
    assert float(ratio_error_bound(true, size)) == pytest.approx(exact, rel=1e-6)


def test_the_printed_bound_is_violated_at_nine_tenths() -> None:
    assert float(printed_ratio_error_bound(0.9, 0.05)) == pytest.approx(0.385, abs=5e-4)
    assert ratio(0.95) / ratio(0.9) - 1.0 == pytest.approx(1.11, abs=5e-3)
    assert float(ratio_error_bound(0.9, 0.05)) == pytest.approx(1.11, abs=5e-3)


@given(st.floats(0.001, 0.999), st.floats(0.01, 0.99))
def test_the_printed_bound_is_violated_exactly_above_one_third(true: float, fraction: float) -> None:
    size = fraction * min(true, 1.0 - true)
    worst = max(abs(ratio(true + sign * size) / ratio(true) - 1.0) for sign in (1.0, -1.0))
    printed = float(printed_ratio_error_bound(true, size))
    if true > 1.0 / 3.0 + 1e-6:
        assert worst > printed
    elif true < 1.0 / 3.0 - 1e-6:
        assert worst < printed


@pytest.mark.parametrize(
    ("true", "at_five_hundredths", "at_two_hundredths"), [(0.5, 0.22, 0.08), (0.1, 0.59, 0.23), (0.9, 1.11, 0.28)]
)
def test_a_calibration_error_below_five_hundredths_does_not_keep_the_ratio_within_fifteen_percent(
    true: float, at_five_hundredths: float, at_two_hundredths: float
) -> None:
    assert float(ratio_error_bound(true, 0.05)) == pytest.approx(at_five_hundredths, abs=5e-3)
    assert float(ratio_error_bound(true, 0.02)) == pytest.approx(at_two_hundredths, abs=5e-3)
    assert at_five_hundredths > 0.15
    assert at_two_hundredths > 0.05


def test_bounds_take_arrays() -> None:
    found = ratio_error_bound([0.5, 0.9], [0.05, 0.02])
    np.testing.assert_allclose(found, [0.05 / (0.5 * 0.45), 0.02 / (0.9 * 0.08)])


@pytest.mark.parametrize(
    ("true", "error"), [(0.0, 0.0), (1.0, 0.0), (0.9, 0.1), (0.9, -0.1), (0.1, 0.1), (np.nan, 0.1), (0.5, np.nan)]
)
def test_where_there_is_no_bound_none_is_given(true: float, error: float) -> None:
    for bound in (ratio_error_bound, printed_ratio_error_bound):
        with pytest.raises(InvalidInputError):
            bound(true, error)
