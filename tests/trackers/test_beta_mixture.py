import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betainc, expit, logit
from scipy.stats import beta

from obil.trackers.beta_mixture import FARTHEST, beta_mixture_quantiles


def bracketed(weights: np.ndarray, successes: np.ndarray, failures: np.ndarray, probability: float) -> float:
    def excess(at: float) -> float:
        return float(betainc(successes, failures, expit(at)) @ weights) - probability

    return float(brentq(excess, -FARTHEST, FARTHEST, xtol=1e-13))


@pytest.mark.parametrize(("successes", "failures"), [(0.2, 3.0), (0.5, 9.5), (6.0, 14.0), (2e5, 9e6)])
def test_quantiles_of_one_beta_distribution_are_its_own(successes: float, failures: float) -> None:
    found = beta_mixture_quantiles(
        np.ones(1), np.array([[successes], [failures]]), np.array([[failures], [successes]]), (0.05, 0.5, 0.95)
    )
    np.testing.assert_allclose(found[0], beta.ppf([0.05, 0.5, 0.95], successes, failures), rtol=1e-7)
    np.testing.assert_allclose(found[1], 1.0 - found[0, ::-1], atol=1e-9)


def test_quantiles_of_mixtures_are_those_of_a_bracketing_search() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_classes, n_parts = int(rng.integers(2, 5)), int(rng.integers(1, 9))
        successes = np.exp(rng.uniform(-1.0, 12.0, (n_classes, n_parts)))  # far apart: the mixture has steps
        failures = successes.sum(axis=0) - successes
        weights = rng.dirichlet(np.full(n_parts, 0.3))
        found = beta_mixture_quantiles(weights, successes, failures, (0.05, 0.95))
        for k in range(n_classes):
            expected = [bracketed(weights, successes[k], failures[k], q) for q in (0.05, 0.95)]
            # where a mixture is flat, what rounding leaves of its distribution function decides
            error = betainc(successes[k], failures[k], found[k][:, None]) @ weights - [0.05, 0.95]
            assert (np.abs(logit(found[k]) - expected) < 1e-6).all() or (np.abs(error) < 1e-9).all()


def test_a_quantile_beyond_the_smallest_logit_is_its_end() -> None:
    found = beta_mixture_quantiles(np.ones(1), np.array([[1e-3]]), np.array([[1.0]]), (0.05,))
    assert 0.0 < found[0, 0] <= expit(1e-6 - FARTHEST)


def test_quantiles_closer_than_rounding_keep_their_order() -> None:
    successes, failures = np.array([[1e15 - 1.0], [1e-12]]), np.array([[1e-12], [1e15]])
    ends = beta_mixture_quantiles(np.array([1.0]), successes, failures, [0.05, 0.95])
    assert (ends[:, 0] <= ends[:, 1]).all()
