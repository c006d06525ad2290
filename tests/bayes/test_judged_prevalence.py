"""The posterior of a prevalence behind verdicts is that of the sum over all errors that the judge may have made."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, xlogy
from scipy.stats import beta

from obil.bayes.judged_prevalence import JudgedPrevalence, integrated_log_likelihoods
from obil.trackers.beta_mixture import beta_mixture_quantiles


def by_quadrature(labelled: np.ndarray, judged: np.ndarray, successes: float, failures: float) -> np.ndarray:
    """The posterior below each 400th of the prior, by midpoints over quantiles of the prior and of both error rates."""
    middles = (np.arange(200) + 0.5) / 200
    sensitivity = beta.ppf(middles, labelled[1, 0] + 0.5, labelled[1, 1] + 0.5)[:, None]
    alarm_rate = beta.ppf(middles, labelled[0, 0] + 0.5, labelled[0, 1] + 0.5)[None, :]
    likelihood = np.empty(400)
    for place, prevalence in enumerate(beta.ppf((np.arange(400) + 0.5) / 400, successes, failures)):
        rate = prevalence * sensitivity + (1.0 - prevalence) * alarm_rate
        likelihood[place] = np.exp(xlogy(judged[0], rate) + xlogy(judged[1], 1.0 - rate) + 20.0).mean()
    return np.cumsum(likelihood) / likelihood.sum()


@pytest.mark.parametrize("random_sample", [False, True])
def test_it_is_the_integral_over_sensitivity_and_specificity(random_sample: bool) -> None:
    labelled, judged = np.array([[2, 9], [6, 3]]), np.array([14, 26])
    found = JudgedPrevalence.from_verdicts(labelled, judged, random_sample=random_sample)
    successes, failures = (10.0, 12.0) if random_sample else (0.5, 0.5)
    at = by_quadrature(labelled, judged, successes, failures)
    for probability in (0.05, 0.5, 0.95):
        quantile = found.quantiles([probability])[0]
        assert np.interp(beta.cdf(quantile, successes, failures), (np.arange(400) + 1.0) / 400, at) == pytest.approx(
            probability, abs=3e-3
        )


def test_three_verdicts_are_the_sum_over_every_choice_of_the_positive_items() -> None:
    pseudo, judged = np.array([[2.5, 0.7, 4.0], [0.3, 3.1, 1.2]]), np.array([2, 1, 2])
    items = np.repeat(np.arange(3), judged)
    sums = np.zeros(6)
    for chosen in range(2**5):
        positive = np.array([bool(chosen >> place & 1) for place in range(5)])
        counts = np.array([np.bincount(items[positive == k], minlength=3) for k in (False, True)])
        sums[positive.sum()] += np.exp(sum(log_dirichlet(pseudo[k] + counts[k]) for k in range(2)))
    found = integrated_log_likelihoods(pseudo, judged)
    np.testing.assert_allclose(found - found[0], np.log(sums / sums[0]), atol=1e-12)


def log_dirichlet(parameters: np.ndarray) -> float:
    """Log of the normalising constant of a Dirichlet distribution, from Beta functions."""
    rest = parameters[::-1].cumsum()[::-1]
    return float(betaln(parameters[:-1], rest[1:]).sum())


def test_verdicts_in_another_order_and_verdicts_that_nobody_gave_change_nothing_but_the_prior() -> None:
    labelled, judged = np.array([[3, 1, 7], [5, 2, 1]]), np.array([30, 10, 40])
    quantiles = JudgedPrevalence.from_verdicts(labelled, judged).quantiles([0.1, 0.9])
    order = [2, 0, 1]
    moved = JudgedPrevalence.from_verdicts(labelled[:, order], judged[order]).quantiles([0.1, 0.9])
    np.testing.assert_allclose(moved, quantiles, atol=1e-9)


@pytest.mark.parametrize(("n_judged", "successes", "failures"), [(7, 0.5, 0.5), (300, 4.0, 30.0), (3_000, 0.5, 0.5)])
def test_quantiles_are_those_of_the_mixture_of_beta_distributions(
    n_judged: int, successes: float, failures: float
) -> None:
    weights = np.random.default_rng(n_judged).gamma(0.3, size=n_judged + 1)
    weights /= weights.sum()
    positive = np.arange(n_judged + 1.0)
    probabilities = [0.001, 0.05, 0.5, 0.95, 0.999]
    wanted = beta_mixture_quantiles(
        weights, (positive + successes)[None], (n_judged - positive + failures)[None], probabilities
    )[0]
    found = JudgedPrevalence(weights, successes, failures).quantiles(probabilities)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_without_labels_the_prior_remains() -> None:
    """Verdicts of a judge of whom nothing is known tell next to nothing, and the same in either direction."""
    found = JudgedPrevalence.from_verdicts(np.zeros((2, 2), dtype=int), np.array([50, 50])).quantiles([0.05, 0.5, 0.95])
    assert found[0] < 0.02
    assert found[1] == pytest.approx(0.5)
    assert found[2] > 0.98


def test_with_exact_error_rates_it_is_the_binomial_posterior() -> None:
    """A judge known from 2 million items: sensitivity .9, specificity .8."""
    labelled, judged = np.array([[200_000, 800_000], [900_000, 100_000]]), np.array([90, 110])
    low, high = JudgedPrevalence.from_verdicts(labelled, judged).quantiles([0.05, 0.95])

    def density(prevalence: float) -> float:
        rate = 0.9 * prevalence + 0.2 * (1.0 - prevalence)
        return float(
            np.exp(90 * np.log(rate / 0.45) + 110 * np.log((1.0 - rate) / 0.55)) * beta.pdf(prevalence, 0.5, 0.5)
        )

    total = quad(density, 0.0, 1.0, points=[0.2, 0.5])[0]
    assert quad(density, 0.0, low)[0] / total == pytest.approx(0.05, abs=1e-3)
    assert quad(density, high, 1.0)[0] / total == pytest.approx(0.05, abs=1e-3)
