"""The grid filter is the exact posterior of a prior that never moves."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import constant, square
from obil.errors import InvalidInputError
from obil.trackers import GridFilter


def exact_mean(rows: np.ndarray, start: float, start_rows: float) -> float:
    """Return the posterior mean of P1 by integration of the Beta start times the likelihood."""
    ratios = np.exp(rows[:, 1])

    def density(p: float) -> float:
        log_likelihood = np.log1p(p * (ratios - 1.0)).sum() - shift
        return float(beta.pdf(p, start_rows * start, start_rows * (1.0 - start)) * np.exp(log_likelihood))

    points = np.linspace(1e-4, 1.0 - 1e-4, 400)
    shift = max(np.log1p(p * (ratios - 1.0)).sum() for p in points)
    total = quad(density, 0.0, 1.0, limit=400)[0]
    return float(quad(lambda p: p * density(p), 0.0, 1.0, limit=400)[0] / total)


@pytest.mark.parametrize(("prior", "n_rows"), [(0.3, 10), (0.3, 60), (0.7, 200), (0.1, 200)])
def test_its_prior_is_the_posterior_mean_that_integration_gives(prior: float, n_rows: int) -> None:
    rows = GaussianClasses.pair(1.5).draw(constant(n_rows, prior), random_state=n_rows).log_ratios
    tracker = GridFilter(0.2, reset_rates=(), start_rows=10.0, n_points=1_001)
    tracker.update_many(rows)
    # tolerance: the grid leaves out priors below 8e-7, and 1,001 points integrate to about 1e-6
    assert tracker.prior[1] == pytest.approx(exact_mean(rows, 0.2, 10.0), abs=1e-5)


def test_at_its_default_size_it_is_the_oracle_it_says_it_is() -> None:
    # seed 0: 5,000 rows at .5; the posterior has an sd of .035 in the logit, and the default grid must not be
    # coarser than that: within half a posterior sd of a grid of 2,001 points
    for seed in range(5):
        rows = GaussianClasses.pair(2.5).draw(constant(5_000, 0.5), random_state=seed).log_ratios
        fine, default = GridFilter(0.05, reset_rates=(), n_points=2_001), GridFilter(0.05, reset_rates=())
        fine.update_many(rows)
        default.update_many(rows)
        sd = np.diff(fine.interval()[1]).item() / 3.29
        assert abs(default.prior[1] - fine.prior[1]) < 0.5 * sd


def test_its_first_prior_is_about_the_start() -> None:
    assert GridFilter(0.05).prior[1] == pytest.approx(0.05, abs=1e-3)


def test_its_interval_is_that_of_the_beta_start_before_any_row() -> None:
    tracker = GridFilter(0.3, reset_rates=(), start_rows=20.0, n_points=2_001)
    np.testing.assert_allclose(tracker.interval(0.9)[1], beta.ppf([0.05, 0.95], 6.0, 14.0), atol=1e-3)
    np.testing.assert_allclose(tracker.interval(0.9)[0], 1.0 - tracker.interval(0.9)[1, ::-1], atol=1e-12)


def test_with_resets_it_follows_a_prior_that_moves_and_without_it_does_not() -> None:
    path = square(8_000, 0.02, 0.4, half_period=2_000)
    rows = GaussianClasses.pair(2.5).draw(path, random_state=1).log_ratios
    late = np.arange(8_000) % 2_000 > 1_000  # well after each change
    resets = GridFilter(0.05).update_many(rows)[:, 1]
    steady = GridFilter(0.05, reset_rates=()).update_many(rows)[:, 1]
    assert abs(resets - path)[late].mean() < 0.25 * abs(steady - path)[late].mean()


@pytest.mark.parametrize(
    "options",
    [{"n_points": 15}, {"n_points": 20.5}, {"reset_rates": (0.6,)}, {"reset_rates": (-0.1,)}, {"start_rows": 0}],
)
def test_settings_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        GridFilter(0.1, **options)


def test_three_classes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="two classes"):
        GridFilter([0.2, 0.3, 0.5])


@pytest.mark.parametrize("case", ["rare", "common", "alternating", "extreme"])
def test_the_exact_filter_is_within_its_bound_of_the_best_fixed_prior(case: str) -> None:
    # from a uniform start log(T + 1) + 1 for any rows, docs/theory.md, Proposition 4; after every row
    n_rows, rng = 2_000, np.random.default_rng(3)
    log_ratios = {
        "rare": GaussianClasses.pair(2.0).draw(constant(n_rows, 0.01), random_state=0).log_ratios[:, 1],
        "common": GaussianClasses.pair(2.0).draw(constant(n_rows, 0.9), random_state=1).log_ratios[:, 1],
        "alternating": np.where(np.arange(n_rows) % 2, 6.0, -6.0),
        "extreme": rng.choice([-30.0, -3.0, 0.0, 8.0, 30.0], size=n_rows),
    }[case]
    rows = np.stack([np.zeros(n_rows), log_ratios], axis=1)
    priors = GridFilter(0.5, reset_rates=(), start_rows=2.0, n_points=2_001).update_many(rows)[:, 1]
    own = np.cumsum(np.log1p(priors * np.expm1(log_ratios)))
    fixed = 1.0 / (1.0 + np.exp(-np.linspace(-13.0, 13.0, 1_000)))
    best = np.cumsum(np.log1p(fixed[:, None] * np.expm1(log_ratios)), axis=1).max(axis=0)  # (T,) in hindsight
    behind = best - own
    assert (behind <= np.log(np.arange(n_rows) + 2.0) + 1.0).all()
    assert behind[-1] > 1.0  # and it is not idle
