"""Window EM is maximum likelihood over the last rows."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.trackers import WindowEM
from tests.trackers.cases import start_prior, stream


def em(rows: FloatArray, prior: FloatArray, n_iterations: int) -> FloatArray:
    """Plain EM for the prior of rows, from a start; stops where a step is below 1e-7."""
    for _ in range(n_iterations):
        joint = prior * np.exp(rows - rows.max(axis=1, keepdims=True))
        mean = np.maximum((joint / joint.sum(axis=1, keepdims=True)).mean(axis=0), 1e-6)
        last, prior = prior, mean / mean.sum()
        if abs(prior - last).max() < 1e-7:
            break
    return prior


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("window", [1, 20, 60])
def test_after_each_row_it_is_em_over_the_window_from_the_estimate_before(n_classes: int, window: int) -> None:
    rows = stream(130, n_classes, seed=window)
    tracker = WindowEM(start_prior(n_classes), window=window, max_iterations=5)
    priors = np.vstack([tracker.update_many(rows), tracker.prior])
    for t in range(len(rows)):
        expected = em(rows[max(0, t + 1 - window) : t + 1], priors[t], 5)
        np.testing.assert_allclose(priors[t + 1], expected, atol=1e-9)


@pytest.mark.parametrize("window", [20, 200])
def test_with_enough_steps_it_is_the_maximum_likelihood_prior_of_the_window(window: int) -> None:
    # EM stops at steps below 1e-7; where it is slow (overlap) that leaves up to 1e-4, the stated tolerance
    rows = GaussianClasses.pair(2.5).draw(np.full(window + 50, 0.4), random_state=window).log_ratios
    tracker = WindowEM(0.05, window=window, max_iterations=20_000)
    priors = np.vstack([tracker.update_many(rows), tracker.prior])
    for t in (5, window - 1, window, window + 10, window + 49):
        ratios = np.exp(rows[max(0, t + 1 - window) : t + 1, 1])
        best = minimize_scalar(
            lambda p, q=ratios: -np.log1p(p * (q - 1.0)).sum(), bounds=(0.0, 1.0), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        assert priors[t + 1, 1] == pytest.approx(float(best.x), abs=1e-4)
    assert 0.1 < priors[-1, 1] < 0.9  # the maximum is inside, so that the comparison means something


def test_a_row_that_left_the_window_is_forgotten() -> None:
    positive, negative = [0.0, 30.0], [0.0, -30.0]
    tracker = WindowEM(0.5, window=10)
    tracker.update_many([positive] * 10 + [negative] * 5)
    assert tracker.prior[1] == pytest.approx(0.5, abs=1e-6)
    tracker.update_many([negative] * 4)
    assert tracker.prior[1] == pytest.approx(0.1, abs=1e-6)


def test_a_short_window_of_a_rare_prior_often_says_none() -> None:
    # the reason not to follow the paper's advice of 20 rows: the likelihood is largest at 0 most of the time
    rows = GaussianClasses.pair(2.5).draw(np.full(2_000, 0.02), random_state=0).log_ratios
    assert (WindowEM(0.02, window=20).update_many(rows)[:, 1] < 1e-3).mean() > 0.4


@pytest.mark.parametrize("options", [{"window": 0}, {"window": 2.5}, {"max_iterations": 0}, {"window": 10**9}])
def test_settings_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        WindowEM(0.1, **options)
