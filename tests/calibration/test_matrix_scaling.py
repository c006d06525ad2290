"""Vector and matrix scaling find what was planted, whatever the order of the classes, and know their errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import posterior
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.centred_fit import MapPosterior
from obil.calibration.matrix import MOST_CLASSES, fit_matrix
from obil.calibration.vector import fit_vector
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.serving.calibrators import Calibrator, LinearCalibrator
from obil.serving.centred_calibrators import MatrixCalibrator, VectorCalibrator, centred
from obil.serving.records import Stored, Written, read_record, write_record

N_CLASSES = 4
CLASSES = GaussianClasses(2.0 * np.eye(N_CLASSES), np.eye(N_CLASSES))
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
SLOPES = np.array([0.7, 1.0, 1.3, 1.6])
OFFSETS = np.array([0.0, 0.8, -0.5, 0.3])
FITS = {"vector": fit_vector, "matrix": fit_matrix}


def exact(n: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Return the exact log ratios of rows, and their labels."""
    stream = CLASSES.draw(np.tile(PRIOR, (n, 1)), random_state=seed)
    return stream.log_ratios, stream.labels


def distorted(n: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Return scores that vector scaling by SLOPES and OFFSETS maps to the exact log ratios."""
    log_ratios, labels = exact(n, seed)
    return VectorCalibrator(SLOPES, OFFSETS, np.empty((0, 2, N_CLASSES))).invert(log_ratios), labels


def errors_of(calibrator: VectorCalibrator) -> FloatArray:
    return np.sqrt((calibrator.axes**2).sum(axis=0))  # (2, K)


def test_vector_scaling_finds_a_slope_and_an_offset_for_each_class() -> None:
    """20,000 rows: within 4 standard errors, which are below .1 for the slopes and .15 for the offsets."""
    found = fit_vector(*distorted(20_000, 0), np.ones(20_000), slope_sd=None)
    errors = errors_of(found)
    assert errors[0].max() < 0.1
    assert errors[1].max() < 0.15
    assert (np.abs(found.slopes - SLOPES) < 4.0 * errors[0]).all()
    assert (np.abs(found.offsets - OFFSETS)[1:] < 4.0 * errors[1, 1:]).all()


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("slope_sd", [None, 0.15])
def test_the_order_of_the_classes_does_not_matter(method: str, slope_sd: float | None) -> None:
    scores, labels = distorted(1_500, 1)
    order = np.array([2, 0, 3, 1])  # class j of the second fit is class order[j] of the first
    place = np.argsort(order)
    moved, ones = scores[:, order] - scores[:, order[:1]], np.ones(len(labels))
    first = fit_calibrator(scores, labels, ones, method=method, slope_sd=slope_sd)
    second = fit_calibrator(moved, place[labels], ones, method=method, slope_sd=slope_sd)
    np.testing.assert_allclose(
        posterior(second.apply(moved), PRIOR[order]), posterior(first.apply(scores), PRIOR)[:, order], atol=1e-6
    )


@pytest.mark.parametrize("method", FITS)
def test_two_classes_are_scaled_like_affine(method: str) -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(500, 0.2), random_state=2)
    ones = np.ones(500)
    found = fit_calibrator(stream.log_ratios, stream.labels, ones, method=method)
    affine = fit_calibrator(stream.log_ratios, stream.labels, ones, method="affine")
    assert isinstance(found, LinearCalibrator)
    np.testing.assert_array_equal(found.apply(stream.log_ratios), affine.apply(stream.log_ratios))


def test_the_matrix_is_the_logistic_regression_of_scikit_learn_where_neither_is_regularized() -> None:
    """The map of one wide prior; scikit-learn's logits with the log prior of the rows taken out."""
    log_ratios, labels = exact(2_000, 3)
    shared = np.hstack([centred(log_ratios), np.ones((2_000, 1))])
    features = np.broadcast_to(shared[:, None], (2_000, N_CLASSES, N_CLASSES + 1))
    log_prior = np.log(np.bincount(labels) / len(labels))
    mean = np.eye(N_CLASSES, N_CLASSES + 1)
    free = np.ones(mean.shape, dtype=bool)
    model = MapPosterior(features, labels, np.ones(2_000), log_prior, mean, np.full(mean.shape, 1e-6))
    parameters = model.maximise(mean, free)
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5_000).fit(log_ratios[:, 1:], labels)
    ours = shared @ parameters.T + log_prior
    theirs = regression.decision_function(log_ratios[:, 1:])
    np.testing.assert_allclose(ours - ours[:, :1], theirs - theirs[:, :1], atol=1e-2)


@pytest.mark.parametrize("kind", ["vector", "matrix"])
def test_gradient_and_curvature_are_those_of_the_loss(kind: str) -> None:
    scores, labels = distorted(60, 4)
    shared = np.hstack([centred(scores), np.ones((60, 1))])
    features = (
        np.stack([centred(scores), np.ones_like(scores)], axis=2)
        if kind == "vector"
        else np.broadcast_to(shared[:, None], (60, N_CLASSES, N_CLASSES + 1))
    )
    shape = features.shape[1:]
    rng = np.random.default_rng(0)
    counts = rng.uniform(0.5, 2.0, 60)
    model = MapPosterior(features, labels, counts, np.log(PRIOR), rng.normal(size=shape), rng.uniform(1, 2, shape))
    at, step = rng.normal(size=shape), 1e-5
    directions = np.eye(at.size).reshape(-1, *shape)
    moved = [(model.loss(at + step * d), model.loss(at - step * d)) for d in directions]
    np.testing.assert_allclose(model.loss(at)[1].ravel(), [(u[0] - v[0]) / (2 * step) for u, v in moved], rtol=1e-5)
    curvature = np.array([(u[1] - v[1]).ravel() / (2 * step) for u, v in moved])
    np.testing.assert_allclose(model.curvature(at), curvature, rtol=1e-4, atol=1e-4)


def test_a_planted_matrix_is_found_better_than_a_vector_can() -> None:
    """Held-out log likelihood, seed 5: the classes' scores leak into each other by up to .3."""
    mixing = np.eye(N_CLASSES) + 0.3 * np.random.default_rng(0).uniform(-1.0, 1.0, (N_CLASSES, N_CLASSES))
    gains = {}
    log_ratios, labels = exact(20_000, 5)
    scores = MatrixCalibrator(mixing, np.zeros(N_CLASSES), np.empty((0, 5, 4))).invert(log_ratios)
    for method, fit in FITS.items():
        found = fit(scores[:10_000], labels[:10_000], np.ones(10_000))
        proba = posterior(found.apply(scores[10_000:]), PRIOR)
        gains[method] = np.log(proba[np.arange(10_000), labels[10_000:]]).mean()
    best = np.log(posterior(log_ratios[10_000:], PRIOR)[np.arange(10_000), labels[10_000:]]).mean()
    assert gains["vector"] < gains["matrix"]
    assert gains["matrix"] > best - 0.002  # half of about 15 free numbers in 10,000 rows is .00075


def test_exact_ratios_are_left_nearly_alone_with_few_rows() -> None:
    """30 rows per class: evidence keeps the numbers off the diagonal small."""
    log_ratios, labels = exact(120, 6)
    matrix = fit_matrix(log_ratios, labels, np.ones(120)).matrix
    off = matrix - np.diag(np.diag(matrix))
    assert np.abs(off).max() < 0.15


@pytest.mark.parametrize("method", FITS)
def test_weighted_rows_are_fitted_like_repeated_ones_and_weights_have_no_scale(method: str) -> None:
    scores, labels = distorted(400, 7)
    repeats = np.random.default_rng(0).integers(1, 4, 400)
    fit = FITS[method]
    weighted = fit(scores, labels, 2.5 * repeats)
    repeated = fit(np.repeat(scores, repeats, axis=0), np.repeat(labels, repeats), np.ones(repeats.sum()))
    np.testing.assert_allclose(weighted.apply(scores), repeated.apply(scores), atol=1e-6)
    np.testing.assert_allclose((weighted.axes**2).sum(axis=0), (repeated.axes**2).sum(axis=0), atol=1e-6)


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_margins_mean_the_same_on_any_scale(method: str, scale: float) -> None:
    scores, labels = distorted(1_000, 8)
    ones = np.ones(1_000)
    fit = FITS[method]
    moved = fit(scale * scores, labels, ones, slope_sd=None).apply(scale * scores)
    np.testing.assert_allclose(moved, fit(scores, labels, ones, slope_sd=None).apply(scores), atol=1e-5)


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("slope_sd", [None, 0.15])
def test_separable_backward_and_constant_scores_stay_finite_and_can_be_inverted(
    method: str, slope_sd: float | None
) -> None:
    labels = np.repeat([0, 1, 2], [20, 5, 2])
    own = np.eye(3)[labels] - np.eye(3)[labels][:, :1]
    for scores in (50.0 * own, -3.0 * own, np.zeros((27, 3))):
        found = fit_calibrator(scores, labels, np.ones(27), method=method, slope_sd=slope_sd)
        found.require_sound()
        np.testing.assert_allclose(found.invert(found.apply(scores)), scores, atol=1e-3)


@pytest.mark.parametrize("method", FITS)
def test_the_map_can_be_inverted_and_keeps_class_0_at_0(method: str) -> None:
    scores, labels = distorted(1_000, 9)
    found = FITS[method](scores, labels, np.ones(1_000))
    mapped = found.apply(scores)
    assert isinstance(found, Calibrator)
    assert (mapped[:, 0] == 0.0).all()
    np.testing.assert_allclose(found.invert(mapped), scores, atol=1e-9)


def test_standard_errors_are_those_of_repetitions() -> None:
    """100 samples of 800 rows with fixed class counts: within a third, 4 sd of a sample sd of 100."""
    labels = np.repeat(np.arange(N_CLASSES), 200)
    found, claimed = [], []
    for seed in range(100):
        features = np.random.default_rng(seed).standard_normal((800, N_CLASSES)) + CLASSES.means[labels]
        one = fit_vector(CLASSES.log_ratios(features), labels, np.ones(800), slope_sd=None, shrink=False)
        found.append(np.stack([one.slopes, one.offsets]))
        claimed.append(errors_of(one))
    ratio = np.mean(claimed, axis=0)[:, 1:] / np.std(found, axis=0)[:, 1:]
    assert (np.abs(ratio - 1.0) < 1.0 / 3.0).all()


def test_both_maps_agree_on_how_uncertain_they_are() -> None:
    """A vector's exact variance against 24 draws of the same map as a matrix, over 20 rows: within a half."""
    scores, labels = distorted(2_000, 10)
    vector = fit_vector(scores, labels, np.ones(2_000))
    axes = np.stack([np.vstack([np.diag(slopes), offsets]) for slopes, offsets in vector.axes])
    matrix = MatrixCalibrator(np.diag(vector.slopes), vector.offsets, axes)

    def logits(moved: Any) -> FloatArray:
        return np.asarray(moved.apply(scores[:20])[:, 1:])

    np.testing.assert_allclose(matrix.apply(scores), vector.apply(scores), atol=1e-12)
    ratio = matrix.variance_of(logits).mean() / vector.variance_of(logits).mean()
    assert abs(ratio - 1.0) < 0.5


@pytest.mark.parametrize("method", FITS)
def test_is_written_and_read_bit_for_bit(method: str) -> None:
    scores, labels = distorted(300, 11)
    found = FITS[method](scores, labels, np.ones(300))
    written = Written()
    saved = write_record(found, written, "calibrator")
    again = read_record(type(found), saved, Stored(written.arrays), "calibrator")
    assert again.apply(scores).tobytes() == found.apply(scores).tobytes()
    assert again.axes.tobytes() == found.axes.tobytes()


SAME = MatrixCalibrator(np.eye(3), np.zeros(3), np.zeros((1, 4, 3)))
EACH = VectorCalibrator(np.ones(3), np.zeros(3), np.zeros((1, 2, 3)))
DAMAGED = {
    "a matrix of other classes": replace(SAME, matrix=np.eye(4)),
    "axes of other classes": replace(SAME, axes=np.zeros((1, 3, 3))),
    "not a number": replace(SAME, offsets=np.array([0.0, np.nan, 0.0])),
    "no inverse": replace(SAME, matrix=np.ones((3, 3))),
    "a slope of 0": replace(EACH, slopes=np.array([1.0, 0.0, 1.0])),
    "offsets of other classes": replace(EACH, offsets=np.zeros(4)),
    "an infinite axis": replace(EACH, axes=np.full((1, 2, 3), np.inf)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_calibrator_is_refused(name: str) -> None:
    SAME.require_sound()
    EACH.require_sound()
    with pytest.raises(InvalidInputError):
        DAMAGED[name].require_sound()


def test_a_matrix_of_too_many_classes_is_refused_with_a_remedy() -> None:
    n = MOST_CLASSES + 1
    with pytest.raises(InvalidInputError, match="use calibration='vector'"):
        fit_matrix(np.zeros((n, n)), np.arange(n), np.ones(n))


@pytest.mark.slow
def test_a_hundred_classes_are_fitted_in_seconds() -> None:
    rng = np.random.default_rng(12)
    labels = rng.integers(0, 100, 20_000)
    scores = 3.0 * (rng.standard_normal((20_000, 100)) + 3.0 * np.eye(100)[labels])
    found = fit_vector(scores - scores[:, :1], labels, np.ones(20_000))
    assert np.abs(found.slopes - 1.0).max() < 0.3
