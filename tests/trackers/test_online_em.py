"""Online EM is a running mean of responsibilities."""

import numpy as np
import pytest

from obil.bayes.posterior import posterior
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.trackers import OnlineEM
from tests.trackers.cases import start_prior, stream


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_each_row_moves_the_prior_a_fraction_towards_its_posterior(n_classes: int) -> None:
    rows = stream(400, n_classes, seed=0)
    tracker = OnlineEM(start_prior(n_classes), rate=0.05)
    priors = np.vstack([tracker.update_many(rows), tracker.prior])
    for t, row in enumerate(rows):
        expected = np.maximum(0.95 * priors[t] + 0.05 * posterior(row[None], priors[t])[0], 1e-6)
        np.testing.assert_allclose(priors[t + 1], expected / expected.sum(), atol=1e-14)


def test_it_settles_around_the_prior_of_a_steady_stream() -> None:
    # seed 1: 20,000 rows at .3, rate .002; the mean of the second half has sd about .006, tolerance 4 sd
    rows = GaussianClasses.pair(2.5).draw(np.full(20_000, 0.3), random_state=1).log_ratios
    assert OnlineEM(0.05, rate=0.002).update_many(rows)[10_000:, 1].mean() == pytest.approx(0.3, abs=0.024)


def test_a_rate_of_zero_never_moves_and_a_rate_of_one_follows_the_last_row() -> None:
    rows = stream(50, 3, seed=2)
    start = start_prior(3)
    np.testing.assert_allclose(OnlineEM(start, rate=0.0).update_many(rows)[-1], start, atol=1e-15)
    tracker = OnlineEM(start, rate=1.0)
    tracker.update([0.0, 50.0, 0.0])
    np.testing.assert_allclose(tracker.prior, [1e-6, 1.0, 1e-6], atol=3e-6)


@pytest.mark.parametrize("rate", [-0.01, 1.01, np.nan])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(InvalidInputError, match="rate"):
        OnlineEM(0.1, rate=rate)
