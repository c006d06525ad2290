"""Bins compare promise and outcome; their mean gap is the calibration error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.calibration.reliability import ReliabilityBin, calibration_error, reliability
from obil.errors import InvalidInputError


def brute_force(posteriors: list[float], happened: list[float], weights: list[float], n_bins: int) -> float:
    total = 0.0
    for b in range(n_bins):
        rows = [i for i, p in enumerate(posteriors) if min(int(p * n_bins), n_bins - 1) == b]
        total += abs(sum(weights[i] * (posteriors[i] - happened[i]) for i in rows))
    return total / sum(weights)


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.floats(0.1, 10.0)), min_size=1, max_size=50),
    st.integers(1, 20),
)
def test_the_error_of_equally_wide_bins_is_the_brute_force_one(
    rows: list[tuple[float, bool, float]], n_bins: int
) -> None:
    posteriors, happened, weights = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    table = reliability(posteriors, happened, weights, n_bins=n_bins)
    expected = brute_force(posteriors.tolist(), happened.tolist(), weights.tolist(), n_bins)
    assert calibration_error(table) == pytest.approx(expected, abs=1e-12)
    assert sum(row.n_rows for row in table) == len(rows)
    assert sum(row.weight for row in table) == pytest.approx(1.0)


def test_bins_of_equal_mass_hold_equal_mass_and_keep_ties_together() -> None:
    posteriors = np.random.default_rng(0).random(1000) ** 3
    table = reliability(posteriors, np.zeros(1000), np.ones(1000), binning="mass")
    assert [row.n_rows for row in table] == [100] * 10
    tied = reliability(np.full(1000, 0.25), np.zeros(1000), np.ones(1000), binning="mass")
    assert [row.n_rows for row in tied] == [1000]
    assert calibration_error(tied) == 0.25


def test_a_gap_as_large_as_the_posterior_leaves_the_ratio_unbounded() -> None:
    unbounded = ReliabilityBin(1, 0.2, 0.0, 1.0, 10)
    assert unbounded.ratio_error == float("inf")
    assert unbounded.to_json()["ratio_error"] is None


def test_an_unknown_binning_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="binning must be 'width' or 'mass', got 'depth'"):
        reliability(np.zeros(1), np.zeros(1), np.ones(1), binning="depth")
    with pytest.raises(InvalidInputError, match="n_bins must be at least 1"):
        reliability(np.zeros(1), np.zeros(1), np.ones(1), n_bins=0)
