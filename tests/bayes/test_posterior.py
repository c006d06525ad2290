"""Log ratios and posteriors are two views of the same thing, at any prior."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm

from experiments.paper_formulas import log_ratios_from_posterior
from obil.bayes.posterior import log_posterior, posterior, posteriors_at
from obil.errors import InvalidInputError


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.floats(0.01, 20.0))
def test_posterior_and_log_ratios_are_inverse_at_any_number_of_classes(n_classes: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    rows = np.clip(rng.normal(scale=scale, size=(5, n_classes)), -25.0, 25.0)
    rows -= rows[:, :1]
    prior = rng.dirichlet(np.ones(n_classes)) * 0.99 + 0.01 / n_classes
    back = log_ratios_from_posterior(posterior(rows, prior), prior)
    # tolerance: a posterior near 0 keeps 1e-16 relative, one near e^-50 is far above the floor of 1e-30
    np.testing.assert_allclose(back, rows, atol=1e-9)
    assert not back[:, 0].any()


def test_the_binary_posterior_is_the_logistic_function_of_ratio_and_prior_odds() -> None:
    ratios = np.linspace(-30.0, 30.0, 61)
    for prior in (1e-6, 0.03, 0.5, 0.9):
        found = posterior(np.stack([np.zeros(61), ratios], axis=1), prior)
        np.testing.assert_allclose(found[:, 1], expit(ratios + logit(prior)), rtol=1e-12)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)


def test_the_posterior_of_three_classes_is_bayes_rule_with_explicit_densities() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    densities = np.stack([norm.pdf(x, mean, 1.0) for mean in (0.0, 1.0, -2.0)], axis=1)
    prior = np.array([0.7, 0.1, 0.2])
    rows = np.log(densities) - np.log(densities[:, :1])
    expected = densities * prior / (densities @ prior)[:, None]
    np.testing.assert_allclose(posterior(rows, prior), expected, rtol=1e-12)
    np.testing.assert_allclose(log_posterior(rows, prior), np.log(expected), rtol=1e-10, atol=1e-13)


def test_the_ratio_of_an_associated_problem_at_any_training_prior_is_the_true_ratio() -> None:
    # transferability: the posterior depends on the training prior, the ratio does not
    x = np.linspace(-3.0, 5.0, 50)
    negative, positive = norm.pdf(x), norm.pdf(x, 2.0)
    true_ratio = norm.logpdf(x, 2.0) - norm.logpdf(x)
    for training_prior in (0.001, 0.02, 0.3, 0.5, 0.8):
        trained = training_prior * positive / (training_prior * positive + (1.0 - training_prior) * negative)
        found = log_ratios_from_posterior(np.stack([1.0 - trained, trained], axis=1), training_prior)
        np.testing.assert_allclose(found[:, 1], true_ratio, atol=1e-9)
        np.testing.assert_allclose(posterior(found, 0.02)[:, 1], posterior_at(0.02, negative, positive), rtol=1e-8)


def posterior_at(prior: float, negative: np.ndarray, positive: np.ndarray) -> np.ndarray:
    return np.asarray(prior * positive / (prior * positive + (1.0 - prior) * negative))


def test_cost_weighted_training_needs_both_the_cost_and_the_prior_divided_out() -> None:
    # weight Qc on the negatives of a problem with odds Qp = (1-P)/P trains the posterior at odds Qc Qp
    x = np.linspace(-3.0, 5.0, 50)
    negative, positive = norm.pdf(x), norm.pdf(x, 2.0)
    true_ratio = norm.logpdf(x, 2.0) - norm.logpdf(x)
    cost, prior = 5.0, 0.2
    prior_odds = (1.0 - prior) / prior
    # the minimiser of a weighted proper loss: weight times joint density, normalised
    trained = prior * positive / (prior * positive + cost * (1.0 - prior) * negative)
    both = np.stack([1.0 - trained, trained], axis=1)
    right = log_ratios_from_posterior(both, 1.0 / (1.0 + cost * prior_odds))
    np.testing.assert_allclose(right[:, 1], true_ratio, atol=1e-9)
    only_the_prior = log_ratios_from_posterior(both, prior)
    np.testing.assert_allclose(only_the_prior[:, 1], true_ratio - np.log(cost), atol=1e-9)


@pytest.mark.parametrize("size", [1e3, 1e150, 1e300])
def test_however_sure_a_row_is_its_posterior_and_log_posterior_are_finite(size: float) -> None:
    rows = [[0.0, size], [0.0, -size]]
    np.testing.assert_array_equal(posterior(rows, 0.1), [[0.0, 1.0], [1.0, 0.0]])
    logs = log_posterior(rows, 0.1)
    assert np.isfinite(logs).all()
    assert logs[0, 0] == pytest.approx(-size + np.log(9.0))


def test_a_posterior_of_zero_gives_a_large_but_finite_ratio() -> None:
    found = log_ratios_from_posterior([[1.0, 0.0], [0.0, 1.0]], 0.5)
    np.testing.assert_allclose(found[:, 1], [-np.log(1e30), np.log(1e30)])


@pytest.mark.parametrize(
    "bad", [[0.5, 0.5], [[1.0]], [[0.5, 0.6]], [[-0.1, 1.1]], [[np.nan, 1.0]], [[np.inf, 0.0]], [[0.2, 0.3, 0.5]]]
)
def test_what_is_not_a_posterior_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        log_ratios_from_posterior(bad, 0.5)


def test_a_prior_for_other_classes_than_the_rows_is_refused() -> None:
    for function in (posterior, log_posterior):
        with pytest.raises(InvalidInputError, match="3 classes"):
            function([[0.0, 1.0, 2.0]], 0.5)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_posteriors_of_one_row_and_of_many_have_the_same_bits(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    ratios = rng.normal(scale=5.0, size=(500, n_classes))
    ratios[:, 0] = 0.0
    ratios[0, 1], ratios[1, 1] = 1e6, -1e6
    priors = rng.dirichlet(np.ones(n_classes), 500)
    many = posteriors_at(ratios, priors)
    alone = np.concatenate([posteriors_at(ratios[i : i + 1], priors[i : i + 1]) for i in range(500)])
    assert many.tobytes() == alone.tobytes()
    for i in range(500):
        np.testing.assert_allclose(many[i], posterior(ratios[i : i + 1], priors[i])[0], rtol=1e-9, atol=1e-300)
