"""One class against the rest: the likelihood with the composition of the others integrated out."""

import numpy as np
import pytest
from scipy.special import expit, gammaln, log_expit, logsumexp

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.online.against_rest import PRIORS, against_rest
from obil.trackers.evidence import BinaryEvidence

OVERLAPPING = GaussianClasses(np.array([[0.0, 0.0], [1.2, 0.0], [1.2, 1.2]]), np.eye(2))


def likelihoods(n_rows: int) -> FloatArray:
    """Return the likelihoods of rows by three classes, the largest of each row 1."""
    ratios = OVERLAPPING.draw(np.tile([0.7, 0.2, 0.1], (n_rows, 1)), random_state=3).log_ratios
    return np.asarray(np.exp(ratios - ratios.max(axis=1, keepdims=True)))


def integrated(rows: FloatArray, positive: int, alpha: FloatArray) -> FloatArray:
    """Return the integral at every node by brute force, on 4,001 points of the logit of the first of the others."""
    first, second = np.delete(np.arange(3), positive)
    logits = np.linspace(-40.0, 40.0, 4_001)
    part = expit(logits)
    density = alpha[first] * log_expit(logits) + alpha[second] * log_expit(-logits)
    rest = rows[:, first, None] * part + rows[:, second, None] * (1.0 - part)
    found = [logsumexp(np.log(u * rows[:, positive, None] + (1 - u) * rest).sum(axis=0) + density) for u in PRIORS]
    return np.array(found)


@pytest.mark.parametrize(
    ("n_rows", "alpha", "tolerance"),
    [(25, [7.0, 2.0, 1.0], 0.01), (400, [7.0, 2.0, 1.0], 0.2), (25, [1.4, 0.4, 0.2], 0.15), (25, [70, 20, 10], 0.002)],
)
def test_the_integral_over_the_others_is_that_of_a_fine_grid(n_rows: int, alpha: list[float], tolerance: float) -> None:
    rows, counts = likelihoods(n_rows), np.array(alpha, dtype=float)
    for positive in range(3):
        exact = integrated(rows, positive, counts)
        found = against_rest(rows, np.ones(n_rows), n_rows, positive, counts).log_likelihoods
        likely = exact > exact.max() - 6.0
        assert np.ptp((found - exact)[likely]) < tolerance  # of a log-likelihood that falls by 6


def test_certain_rows_leave_the_binomial_likelihood_whatever_the_others_are() -> None:
    rows = np.eye(4)[[0] * 5 + [1] * 3 + [2] * 2] + 1e-200
    found = against_rest(rows, np.ones(10), 10, 1, np.array([3.0, 1.0, 2.0, 0.1])).log_likelihoods
    exact = 3.0 * np.log(PRIORS) + 7.0 * np.log1p(-PRIORS)
    assert np.ptp(found - exact) < 1e-6


def test_two_classes_have_nothing_to_integrate() -> None:
    ratios = np.random.default_rng(0).normal(size=(50, 1)) * [[0.0, 2.0]]
    rows = np.exp(ratios - ratios.max(axis=1, keepdims=True))
    found = against_rest(rows, np.ones(50), 50, 1, np.ones(2)).log_likelihoods
    np.testing.assert_allclose(found, BinaryEvidence.of(ratios).log_likelihoods, atol=1e-10)


def test_weights_count_rows_more_than_once() -> None:
    rows, alpha = likelihoods(20), np.array([2.0, 1.0, 1.0])
    twice = against_rest(np.concatenate([rows, rows]), np.ones(40), 40, 2, alpha)
    weighted = against_rest(rows, np.full(20, 2.0), 40, 2, alpha)
    np.testing.assert_allclose(twice.log_likelihoods, weighted.log_likelihoods, atol=1e-6)


def test_ten_classes_give_the_binomial_likelihood_of_certain_rows() -> None:
    labels = np.random.default_rng(1).integers(10, size=500)
    found = against_rest(np.eye(10)[labels] + 1e-200, np.ones(500), 500, 4, np.full(10, 0.5)).log_likelihoods
    n = int((labels == 4).sum())
    exact = gammaln(501) + n * np.log(PRIORS) + (500 - n) * np.log1p(-PRIORS)
    likely = exact > exact.max() - 20.0
    assert np.ptp((found - exact)[likely]) < 1e-6
