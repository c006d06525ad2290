"""Gaussian streams follow their prior path, and their log ratios are the exact ones."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import ramp, square
from obil.errors import InvalidInputError

COVARIANCE = np.array([[1.0, 0.6, 0.1], [0.6, 2.0, -0.3], [0.1, -0.3, 0.5]])
MEANS = np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 0.5], [-2.0, 0.3, 0.0], [0.5, 0.5, 0.5]])


def test_ratios_of_four_classes_are_differences_of_scipy_log_densities() -> None:
    classes = GaussianClasses(MEANS, COVARIANCE)
    assert classes.n_classes == 4
    x = np.random.default_rng(0).normal(scale=2.0, size=(200, 3))
    densities = np.stack([multivariate_normal(mean, COVARIANCE).logpdf(x) for mean in MEANS], axis=1)
    np.testing.assert_allclose(classes.log_ratios(x), densities - densities[:, :1], atol=1e-10)


@pytest.mark.parametrize("subset", [[0], [2], [0, 2], [2, 0], [1, 2], [0, 1, 2]])
def test_ratios_of_some_features_are_those_of_the_marginal_densities(subset: list[int]) -> None:
    classes = GaussianClasses(MEANS, COVARIANCE)
    x = np.random.default_rng(1).normal(scale=2.0, size=(100, 3))
    part = COVARIANCE[np.ix_(subset, subset)]
    densities = np.stack([multivariate_normal(mean[subset], part).logpdf(x[:, subset]) for mean in MEANS], axis=1)
    np.testing.assert_allclose(classes.log_ratios(x, subset=subset), densities - densities[:, :1], atol=1e-10)


def test_a_pair_is_two_unit_normals_apart_by_its_separation() -> None:
    x = np.linspace(-3.0, 5.0, 30)
    found = GaussianClasses.pair(1.5).log_ratios(x[:, None])
    np.testing.assert_allclose(found[:, 1], norm.logpdf(x, 1.5) - norm.logpdf(x), atol=1e-12)
    assert not found[:, 0].any()


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_spread_classes_are_apart_by_their_separation_in_all(correlation: float) -> None:
    classes = GaussianClasses.spread(2.5, n_features=4, correlation=correlation)
    difference = classes.means[1] - classes.means[0]
    assert np.allclose(difference, difference[0])
    distance = difference @ np.linalg.inv(classes.covariance) @ difference
    assert np.sqrt(distance) == pytest.approx(2.5, rel=1e-12)
    assert classes.covariance[0, 1] == correlation
    assert classes.covariance[0, 0] == 1.0


def test_class_frequencies_follow_the_path_and_features_their_class() -> None:
    # seed 4; 40 blocks of 2,500 rows, tolerance 4.5 sd each (false-failure rate 40 x 7e-6 = 3e-4)
    path = np.concatenate([ramp(50_000, 0.02, 0.6), square(50_000, 0.1, 0.4, half_period=2_500)])
    stream = GaussianClasses.pair(2.0).draw(path, random_state=4)
    np.testing.assert_array_equal(stream.priors, np.stack([1.0 - path, path], axis=1))
    for labels, block in zip(stream.labels.reshape(40, -1), path.reshape(40, -1), strict=True):
        sd = np.sqrt((block * (1.0 - block)).sum()) / len(block)
        assert labels.mean() == pytest.approx(block.mean(), abs=4.5 * sd)
    for label, mean in ((0, 0.0), (1, 2.0)):
        values = stream.features[stream.labels == label, 0]
        assert values.mean() == pytest.approx(mean, abs=5.0 / np.sqrt(len(values)))
        assert values.std() == pytest.approx(1.0, abs=5.0 / np.sqrt(2.0 * len(values)))


def test_four_classes_come_at_their_priors_with_their_means_and_covariance() -> None:
    # seed 5; 100,000 rows, tolerances 5 standard errors: false-failure rate below 2e-5
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    stream = GaussianClasses(MEANS, COVARIANCE).draw(np.tile(prior, (100_000, 1)), random_state=5)
    found = np.bincount(stream.labels, minlength=4) / 100_000
    np.testing.assert_allclose(found, prior, atol=5.0 * 0.5 / np.sqrt(100_000))
    for k in range(4):
        rows = stream.features[stream.labels == k]
        np.testing.assert_allclose(rows.mean(axis=0), MEANS[k], atol=5.0 * np.sqrt(2.0 / len(rows)))
        np.testing.assert_allclose(np.cov(rows.T), COVARIANCE, atol=5.0 * 2.0 * np.sqrt(2.0 / len(rows)))


def test_a_class_with_prior_zero_never_comes() -> None:
    stream = GaussianClasses(MEANS, COVARIANCE).draw(np.tile([0.5, 0.0, 0.5, 0.0], (5_000, 1)), random_state=0)
    assert set(stream.labels.tolist()) == {0, 2}


def test_the_ratios_of_a_stream_are_those_of_its_features() -> None:
    classes = GaussianClasses(MEANS, COVARIANCE)
    stream = classes.draw(np.full((50, 4), 0.25), random_state=1)
    np.testing.assert_array_equal(stream.log_ratios, classes.log_ratios(stream.features))


def test_a_stream_is_replayed_by_its_seed_and_by_an_equal_generator() -> None:
    classes, path = GaussianClasses.pair(1.0), np.full(100, 0.3)
    first = classes.draw(path, random_state=9)
    for again in (classes.draw(path, random_state=9), classes.draw(path, random_state=np.random.default_rng(9))):
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first.features, classes.draw(path, random_state=10).features)


@pytest.mark.parametrize(
    "bad",
    [[[0.5, 0.5]], [0.5, 1.5], [-0.1], [[0.2, 0.3, 0.5], [0.2, 0.3, 0.6]], 0.5, [[0.1, 1.1, -0.2]], [[[0.5, 0.5]]]],
)
def test_a_path_that_is_no_prior_of_three_classes_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        GaussianClasses(MEANS[:3], COVARIANCE).draw(bad, random_state=0)


@pytest.mark.parametrize("bad", [[0.5, np.nan], [[np.nan, 0.5]], [np.inf], [1.0001], [-0.0001]])
def test_a_binary_path_that_is_no_prior_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        GaussianClasses.pair(1.0).draw(bad, random_state=0)


@pytest.mark.parametrize(
    ("means", "covariance"),
    [
        (np.zeros((1, 2)), np.eye(2)),
        (np.zeros((2, 2)), np.eye(3)),
        (np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]])),
        (np.zeros((2, 2)), np.zeros((2, 2))),
    ],
)
def test_classes_without_a_density_are_refused(means: np.ndarray, covariance: np.ndarray) -> None:
    with pytest.raises(InvalidInputError):
        GaussianClasses(means, covariance)


@pytest.mark.parametrize(
    ("means", "covariance"),
    [
        (np.array([[0.0], [np.nan]]), np.eye(1)),
        (np.array([[0.0], [np.inf]]), np.eye(1)),
        (np.zeros((2, 1)), np.array([[np.nan]])),
        (np.zeros((2, 2)), np.array([[1.0, 0.9], [0.0, 1.0]])),  # not symmetric
    ],
)
def test_means_that_are_not_finite_and_a_lopsided_covariance_are_refused(
    means: np.ndarray, covariance: np.ndarray
) -> None:
    with pytest.raises(InvalidInputError):
        GaussianClasses(means, covariance)


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 2)), np.zeros((2, 2, 3))])
def test_features_of_the_wrong_shape_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="features must have shape"):
        GaussianClasses(MEANS, COVARIANCE).log_ratios(bad)
