"""Offsets of many classes go to 0 where they are noise, stay where they are not, and know their standard errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.linear import SCALES, fit_linear, shrink_offsets
from obil.calibration.matrix import fit_matrix
from obil.calibration.vector import fit_vector
from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.calibrators import LinearCalibrator
from tests.serving.stored import arrays_of

N_CLASSES = 7
CLASSES = GaussianClasses(2.0 * np.eye(N_CLASSES), np.eye(N_CLASSES))
NONE = np.zeros(N_CLASSES)
SOME = np.array([0.0, 0.7, -0.7, 0.0, 0.0, 0.0, 0.0])


def rows(n_per_class: int, seed: int, bias: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return log ratios that are off by the bias, (K,), and labels."""
    labels = np.repeat(np.arange(N_CLASSES), n_per_class)
    features = np.random.default_rng(seed).standard_normal((len(labels), N_CLASSES)) + CLASSES.means[labels]
    return CLASSES.log_ratios(features) + bias - bias[0], labels


def both_fits(scores: FloatArray, labels: IntArray, **options: float | None) -> tuple[LinearCalibrator, ...]:
    """Return the calibrators with free and with shrunk offsets."""
    ones = np.ones(len(labels))
    free, shrunk = (fit_linear(scores, labels, ones, shrink=shrink, **options) for shrink in (False, True))
    return free, shrunk


def offset_errors(n_per_class: int, bias: FloatArray, *, repetitions: int) -> tuple[float, float]:
    """Return the root mean squared errors of free and of shrunk offsets."""
    errors = np.array(
        [
            [calibrator.offsets + bias for calibrator in both_fits(*rows(n_per_class, seed, bias))]
            for seed in range(repetitions)
        ]
    )  # (repetitions, 2, K); the bias of class 0 is 0
    free, shrunk = np.sqrt((errors[:, :, 1:] ** 2).mean(axis=(0, 2)))
    return float(free), float(shrunk)


def test_is_the_exact_posterior_of_a_normal_model() -> None:
    """A sum over a fine grid of two offsets, each scale as likely as the next, gives mean and covariance."""
    estimate, covariance = np.array([0.5, -0.2]), np.array([[0.09, 0.03], [0.03, 0.05]])
    axis = np.linspace(-3.0, 3.0, 601)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    prior = sum(multivariate_normal([0, 0], scale**2 * (np.eye(2) + 1.0)).pdf(grid) for scale in SCALES)
    posterior = prior * multivariate_normal(estimate, covariance).pdf(grid)
    posterior /= posterior.sum()
    mean = posterior @ grid
    shrunk_mean, shrunk_covariance = shrink_offsets(estimate, covariance, 2)
    np.testing.assert_allclose(shrunk_mean, mean, atol=1e-6)
    np.testing.assert_allclose(shrunk_covariance, (grid - mean).T @ (posterior[:, None] * (grid - mean)), atol=1e-6)


def test_the_slope_gains_from_what_is_known_of_the_offsets() -> None:
    """20 rows per class and no bias: the slope's error is that of temperature scaling, which was told so, or less."""
    slopes = []
    for seed in range(100):
        scores, labels = rows(20, seed, NONE)
        told = fit_linear(scores, labels, np.ones(len(labels)), method="temperature", slope_sd=5.0)
        slopes.append([one.slopes[1] for one in (told, *both_fits(scores, labels, slope_sd=5.0))])
    told_error, free_error, shrunk_error = np.sqrt(((np.array(slopes) - 1.0) ** 2).mean(axis=0))
    assert shrunk_error < 1.05 * told_error
    assert shrunk_error < free_error


def test_offsets_that_are_noise_go_to_none() -> None:
    """20 rows per class and no bias: the errors fall below a half (.26 to .06 here; 30 repetitions of 6 offsets)."""
    free, shrunk = offset_errors(20, NONE, repetitions=30)
    assert shrunk < 0.5 * free


@pytest.mark.parametrize("n_per_class", [20, 40, 300])
def test_offsets_that_are_real_stay(n_per_class: int) -> None:
    """Two of seven classes are off by .7: shrinking costs no more than a tenth, with few rows and with many."""
    free, shrunk = offset_errors(n_per_class, SOME, repetitions=30)
    assert shrunk < 1.1 * free


def test_forgotten_class_weights_are_taken_out_from_few_rows() -> None:
    weights = np.linspace(0.0, 4.0, N_CLASSES)
    free, shrunk = offset_errors(20, weights, repetitions=30)
    assert shrunk < 1.1 * free


@pytest.mark.parametrize("spread", [0.15, 0.5])
def test_says_how_sure_it_is(spread: float) -> None:
    """Biases are drawn anew each time: 90 % intervals of 100 x 6 offsets cover 80 to 96 %, at either spread."""
    covered = []
    for seed in range(100):
        bias = spread * np.random.default_rng(10_000 + seed).standard_normal(N_CLASSES)
        _, calibrator = both_fits(*rows(40, seed, bias))
        errors = np.sqrt((calibrator.axes[:, 1, 1:] ** 2).sum(axis=0))
        covered.append(np.abs(calibrator.offsets[1:] + (bias - bias[0])[1:]) < 1.645 * errors)
    assert 0.8 < np.mean(covered) < 0.96


def test_it_does_not_matter_which_class_comes_first() -> None:
    scores, labels = rows(30, 2, SOME)
    turned = np.roll(scores, 1, axis=1)
    turned -= turned[:, :1]
    _, plain = both_fits(scores, labels)
    _, other = both_fits(turned, (labels + 1) % N_CLASSES)
    expected = np.roll(plain.offsets, 1)
    np.testing.assert_allclose(other.slopes[1], plain.slopes[1], atol=1e-4)
    np.testing.assert_allclose(other.offsets, expected - expected[0], atol=1e-4)  # the trace of a prior differs


def test_one_offset_and_the_offsets_of_margins_stay_free() -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(300, 0.2), random_state=0)
    free, shrunk = both_fits(stream.log_ratios, stream.labels)
    assert all(arrays_of(free)[name].tobytes() == arrays_of(shrunk)[name].tobytes() for name in arrays_of(free))
    free, shrunk = both_fits(*rows(20, 3, NONE), slope_sd=None)
    assert all(arrays_of(free)[name].tobytes() == arrays_of(shrunk)[name].tobytes() for name in arrays_of(free))


@pytest.mark.parametrize(("method", "fit"), [("affine", fit_linear), ("vector", fit_vector), ("matrix", fit_matrix)])
def test_calibrators_are_shrunk_when_fitted(method: str, fit: Callable[..., Any]) -> None:
    scores, labels = rows(20, 4, NONE)
    ones = np.ones(len(labels))
    calibrator = fit_calibrator(scores, labels, ones, method=method)
    free = fit(scores, labels, ones, shrink=False)
    assert np.abs(arrays_of(calibrator)["offsets"]).max() < 0.5 * np.abs(free.offsets).max()


def test_separable_rows_and_constant_scores_stay_finite() -> None:
    labels = np.repeat([0, 1, 2], [20, 5, 1])
    for scores in (50.0 * (np.eye(3)[labels] - np.eye(3)[labels][:, :1]), np.zeros((26, 3))):
        _, calibrator = both_fits(scores, labels)
        assert np.isfinite(calibrator.apply(scores)).all()
        assert np.isfinite(calibrator.axes).all()
