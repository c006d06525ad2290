"""A histogram of few rows is within the bound as often as it has to be, whatever it was drawn from."""

import numpy as np
import pytest
from scipy.special import chdtri, rel_entr

from obil.monitor.multinomial_bound import divergence_bound

HISTOGRAMS = {
    "even": np.full(6, 1.0 / 6.0),
    "skewed": np.array([0.9, 0.05, 0.02, 0.01, 0.01, 0.01]),
    "one bin": np.array([0.999, 0.0002, 0.0002, 0.0002, 0.0002, 0.0002]),
    "geometric": 0.5 ** np.arange(1, 7) / (0.5 ** np.arange(1, 7)).sum(),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
@pytest.mark.parametrize("n_rows", [2, 7, 30, 200])
def test_it_holds_for_any_number_of_rows(name: str, n_rows: int) -> None:
    true, chance = HISTOGRAMS[name], 0.02
    seen = np.random.default_rng(n_rows).multinomial(n_rows, true, size=20_000) / n_rows
    outside = n_rows * rel_entr(seen, true).sum(axis=1) > divergence_bound(6, chance)
    assert outside.mean() <= chance


@pytest.mark.parametrize("n_bins", [2, 5, 10, 30])
@pytest.mark.parametrize("chance", [0.05, 0.0025, 1e-6])
def test_it_is_above_the_limit_for_many_rows_and_not_far_above(n_bins: int, chance: float) -> None:
    limit = float(chdtri(n_bins - 1, chance)) / 2.0
    assert 1.1 * limit < divergence_bound(n_bins, chance) < 1.3 * limit + 4.0


def test_it_grows_with_the_bins_and_with_certainty() -> None:
    bounds = np.array([[divergence_bound(n_bins, chance) for chance in (0.1, 0.01, 0.001)] for n_bins in (2, 4, 8)])
    assert (np.diff(bounds, axis=0) > 0.0).all()
    assert (np.diff(bounds, axis=1) > 0.0).all()
