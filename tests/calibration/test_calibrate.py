"""Calibrators find what was planted, keep the ranking, and know their standard errors."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray
from obil.calibration.calibrate import CALIBRATIONS, fit_calibrator
from obil.calibration.linear import fit_linear
from obil.datasets.gaussian_stream import GaussianClasses, Stream
from obil.errors import InvalidInputError
from obil.serving.calibrators import LinearCalibrator, MonotoneCalibrator

TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), np.eye(2))


def pair(n: int, prior: float, seed: int, *, separation: float = 2.5) -> Stream:
    return GaussianClasses.pair(separation).draw(np.full(n, prior), random_state=seed)


def fitted(
    scores: np.ndarray, labels: np.ndarray, method: str = "affine", slope_sd: float | None = None
) -> LinearCalibrator:
    return fit_linear(scores, labels, np.ones(len(labels)), method=method, slope_sd=slope_sd)


def test_undoes_a_planted_bias_and_slope() -> None:
    """20,000 rows at .1: standard errors are about .05 (offset) and .02 (slope); the tolerance is 4 of them."""
    stream = pair(20_000, 0.1, 0)
    calibrator = fitted(1.5 * stream.log_ratios + np.array([0.0, 0.7]), stream.labels)
    assert abs(calibrator.slopes[1] - 1 / 1.5) < 0.05
    assert abs(calibrator.offsets[1] + 0.7 / 1.5) < 0.2


@pytest.mark.parametrize("prior", [0.01, 0.1, 0.6])
def test_the_class_prior_of_the_rows_is_divided_out(prior: float) -> None:
    """Exact ratios stay exact whatever the class prior of the labelled rows, within 4 of the stated errors."""
    stream = pair(20_000, prior, 1)
    calibrator = fitted(stream.log_ratios, stream.labels)
    errors = np.sqrt((calibrator.axes[:, :, 1] ** 2).sum(axis=0))  # slope, offset
    assert abs(calibrator.slopes[1] - 1.0) < 4.0 * errors[0]
    assert abs(calibrator.offsets[1]) < 4.0 * errors[1]


def test_is_the_logistic_regression_of_scikit_learn_with_the_log_odds_taken_out() -> None:
    stream = pair(1_000, 0.2, 2)
    calibrator = fitted(stream.log_ratios, stream.labels)
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1_000).fit(stream.log_ratios[:, 1:], stream.labels)
    log_odds = np.log(stream.labels.mean() / (1.0 - stream.labels.mean()))
    # the traces of a prior on slope and offset that keep separable rows finite change the fourth digit
    np.testing.assert_allclose(calibrator.slopes[1], regression.coef_[0, 0], rtol=1e-3)
    np.testing.assert_allclose(calibrator.offsets[1], regression.intercept_[0] - log_odds, atol=2e-3)


def test_weighted_rows_are_fitted_like_repeated_ones() -> None:
    stream = pair(300, 0.2, 3)
    repeats = np.random.default_rng(0).integers(1, 4, 300)
    weighted = fit_linear(stream.log_ratios, stream.labels, repeats.astype(float), slope_sd=None)
    repeated = fitted(np.repeat(stream.log_ratios, repeats, axis=0), np.repeat(stream.labels, repeats))
    np.testing.assert_allclose(weighted.slopes, repeated.slopes, rtol=1e-3)  # the trace of a prior differs
    np.testing.assert_allclose(weighted.offsets, repeated.offsets, atol=1e-3)


@pytest.mark.parametrize("scale", [0.01, 50.0])
def test_weights_define_a_population_so_their_scale_says_nothing(scale: float) -> None:
    stream = pair(300, 0.2, 3)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    plain, scaled = (
        fit_linear(stream.log_ratios, stream.labels, factor * weights, slope_sd=0.15) for factor in (1.0, scale)
    )
    np.testing.assert_allclose(plain.slopes, scaled.slopes, rtol=1e-6)
    np.testing.assert_allclose(plain.offsets, scaled.offsets, atol=1e-6)
    np.testing.assert_allclose((plain.axes**2).sum(axis=0), (scaled.axes**2).sum(axis=0), rtol=1e-6)


def test_the_slopes_prior_holds_it_near_1_when_rows_are_few() -> None:
    free, held = [], []
    for seed in range(20):
        stream = pair(100, 0.1, seed)
        if len(set(stream.labels.tolist())) == 2:
            free.append(fitted(stream.log_ratios, stream.labels).slopes[1])
            held.append(fitted(stream.log_ratios, stream.labels, slope_sd=0.15).slopes[1])
    assert np.std(held) < 0.15 < np.std(free)


def test_says_how_sure_it_is() -> None:
    """Its standard deviations match what 200 repetitions scatter, within a fifth: 4 sd of a sample sd of 200."""
    slopes, offsets, claimed = [], [], []
    labels = np.repeat([0, 1], [900, 100])
    for seed in range(200):
        features = np.random.default_rng(seed).standard_normal(1_000) + 2.0 * labels
        calibrator = fitted(GaussianClasses.pair(2.0).log_ratios(features[:, None]), labels)
        slopes.append(calibrator.slopes[1])
        offsets.append(calibrator.offsets[1])
        claimed.append(np.sqrt((calibrator.axes[:, :, 1] ** 2).sum(axis=0)))
    slope_sd, offset_sd = np.mean(claimed, axis=0)
    assert abs(slope_sd / np.std(slopes) - 1.0) < 0.2
    assert abs(offset_sd / np.std(offsets) - 1.0) < 0.2


def test_temperature_has_a_slope_and_no_offset() -> None:
    stream = pair(5_000, 0.2, 4)
    calibrator = fitted(stream.log_ratios * 2.0, stream.labels, method="temperature")
    assert calibrator.offsets.tolist() == [0.0, 0.0]
    assert abs(calibrator.slopes[1] - 0.5) < 0.06  # 4 standard errors


@pytest.mark.parametrize("method", ["affine", "temperature", "vector", "matrix", "isotonic"])
def test_separable_and_backward_scores_stay_finite_and_increasing(method: str) -> None:
    labels = np.repeat([0, 1], [20, 5])
    for scores in (np.where(labels == 1, 50.0, -50.0), np.where(labels == 1, -3.0, 3.0), np.zeros(25)):
        raw = np.stack([np.zeros(25), scores], axis=1)
        calibrator = fit_calibrator(raw, labels, np.ones(25), method=method, slope_sd=None, random_state=0)
        mapped = calibrator.apply(np.stack([np.zeros(3), np.array([-60.0, 0.0, 60.0])], axis=1))[:, 1]
        assert np.isfinite(mapped).all()
        assert (np.diff(mapped) > 0.0).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-20.0, 20.0), min_size=8, max_size=40),
    st.integers(1, 5),
    st.sampled_from(["affine", "temperature", "isotonic"]),
)
@example([9.0, 1e-57, *[0.0] * 8], 1, "affine")  # classes far apart, hardly any spread within them
@example([9.0, *[-15.1] * 7], 1, "temperature")  # none but what rounding makes
@example([*[1e-316] * 3, *[0.0] * 7], 3, "affine")
def test_ranking_never_changes_and_the_map_can_be_turned_round(
    values: list[float], positives: int, method: str
) -> None:
    labels = np.zeros(len(values), dtype=np.int64)
    labels[:positives] = 1
    scores = np.stack([np.zeros(len(values)), np.array(values)], axis=1)
    calibrator = fit_calibrator(scores, labels, np.ones(len(values)), method=method, slope_sd=None, random_state=0)
    grid = np.linspace(-25.0, 25.0, 101)
    mapped = calibrator.apply(np.stack([np.zeros(101), grid], axis=1))
    assert (np.diff(mapped[:, 1]) > 0.0).all()
    back = calibrator.invert(mapped)[:, 1]
    np.testing.assert_allclose(back, grid, atol=1e-3)  # where the map is flat a rounding error weighs 1e3 times


@pytest.mark.parametrize("method", CALIBRATIONS)
@pytest.mark.parametrize(("zero", "unit"), [(0.0, 1e-20), (0.0, 1e200), (1e4, 1.0), (-1e6, 1e-3)])
def test_scores_without_a_zero_and_a_unit_are_calibrated_the_same_in_any(method: str, zero: float, unit: float) -> None:
    stream = pair(1_000, 0.2, 7)
    if method == "temperature":  # one slope and no offset: 0 stays 0
        zero = 0.0

    def calibrated(scores: FloatArray) -> FloatArray:
        settings = {"method": method, "slope_sd": None, "random_state": 0}
        return fit_calibrator(scores, stream.labels, np.ones(1_000), **settings).apply(scores)

    moved = unit * (stream.log_ratios + np.array([0.0, zero]))
    np.testing.assert_allclose(calibrated(moved), calibrated(stream.log_ratios), atol=2e-3)


@pytest.mark.parametrize("method", CALIBRATIONS)
def test_a_row_that_weighs_nothing_says_nothing(method: str) -> None:
    stream = pair(300, 0.3, 8)
    scores, labels = np.vstack([stream.log_ratios, [[0.0, 1e6]]]), np.append(stream.labels, 0)
    settings = {"method": method, "slope_sd": None, "random_state": 0}
    without = fit_calibrator(stream.log_ratios, stream.labels, np.ones(300), **settings)
    weightless = fit_calibrator(scores, labels, np.append(np.ones(300), 0.0), **settings)
    np.testing.assert_allclose(weightless.apply(scores[:300]), without.apply(scores[:300]), atol=1e-6)


@pytest.mark.parametrize("method", CALIBRATIONS)
@pytest.mark.parametrize("slope_sd", [None, 0.15])
@pytest.mark.parametrize("weights", [np.zeros(6), np.repeat([1.0, 0.0], 3)])
def test_a_class_whose_rows_weigh_nothing_is_refused(method: str, slope_sd: float | None, weights: FloatArray) -> None:
    scores, labels = np.stack([np.zeros(6), np.arange(6.0)], axis=1), np.repeat([0, 1], 3)
    with pytest.raises(InvalidInputError, match="every class needs rows"):
        fit_calibrator(scores, labels, weights, method=method, slope_sd=slope_sd, random_state=0)


def test_isotonic_is_near_the_truth_where_a_line_is_not() -> None:
    """A cubed score: at 50,000 rows the map is within .6 of the exact ratio where most rows are."""
    stream = pair(50_000, 0.2, 5, separation=2.0)
    exact = stream.log_ratios[:, 1]
    scores = np.stack([np.zeros_like(exact), exact**3], axis=1)
    calibrator = fit_calibrator(scores, stream.labels, np.ones(len(exact)), method="isotonic", random_state=0)
    assert isinstance(calibrator, MonotoneCalibrator)
    middle = np.abs(exact) < 2.5
    errors = np.abs(calibrator.apply(scores)[middle, 1] - exact[middle])
    line = fitted(scores, stream.labels).apply(scores)[middle, 1] - exact[middle]
    assert np.mean(errors) < 0.15 < np.mean(np.abs(line))
    assert np.quantile(errors, 0.99) < 0.6


def test_isotonic_is_calibrated_on_the_rows_it_was_fitted_on() -> None:
    """Fitting offset and slope again to its own rows should find nothing to correct."""
    for seed in range(5):
        stream = pair(3_000, 0.03, seed, separation=2.0)
        weights = np.ones(3_000)
        calibrator = fit_calibrator(stream.log_ratios, stream.labels, weights, method="isotonic", random_state=0)
        again = fit_linear(calibrator.apply(stream.log_ratios), stream.labels, weights, slope_sd=None)
        assert abs(again.offsets[1]) < 0.2
        assert abs(again.slopes[1] - 1.0) < 0.15


def test_isotonic_copies_scatter_and_follow_the_seed() -> None:
    stream = pair(500, 0.2, 6)
    maps = [
        fit_calibrator(stream.log_ratios, stream.labels, np.ones(500), method="isotonic", random_state=seed)
        for seed in (0, 0, 1)
    ]
    assert maps[0].copies.tobytes() == maps[1].copies.tobytes()
    assert maps[0].copies.tobytes() != maps[2].copies.tobytes()
    assert maps[0].variance_of(lambda moved: moved.apply(stream.log_ratios)[:, 1]).mean() > 0.0


def test_what_cannot_be_calibrated_is_refused() -> None:
    scores, labels = np.zeros((4, 2)), np.array([0, 0, 1, 1])
    with pytest.raises(InvalidInputError, match="calibration must be one of"):
        fit_calibrator(scores, labels, np.ones(4), method="magic")
    with pytest.raises(InvalidInputError, match="every class needs rows"):
        fit_calibrator(scores, np.zeros(4, dtype=np.int64), np.ones(4))
    with pytest.raises(InvalidInputError, match="two classes"):
        fit_calibrator(np.zeros((4, 3)), labels, np.ones(4), method="isotonic")
    assert set(CALIBRATIONS) == {"affine", "temperature", "vector", "matrix", "spline", "isotonic"}


def test_a_spline_follows_a_bend_that_a_line_cannot() -> None:
    # seed 3: the score is the log ratio squeezed above 1; a line is off by more than .5 there, the spline is not
    stream = GaussianClasses.pair(2.5).draw(np.full(40_000, 0.05), random_state=3)
    truth = stream.log_ratios[:, 1]
    bent = np.stack([np.zeros_like(truth), np.where(truth > 1.0, 1.0 + (truth - 1.0) / 4.0, truth)], axis=1)
    ones = np.ones(len(truth))
    spline = fit_calibrator(bent, stream.labels, ones, method="spline", slope_sd=None, random_state=0)
    line = fit_calibrator(bent, stream.labels, ones, method="affine", slope_sd=None)
    middle = (truth > -3.0) & (truth < 6.0)
    error = {
        name: float(np.sqrt(np.mean((fitted.apply(bent)[middle, 1] - truth[middle]) ** 2)))
        for name, fitted in (("spline", spline), ("line", line))
    }
    assert error["spline"] < 0.35 < 2.0 * 0.35 < error["line"]


def test_a_spline_keeps_the_ranking_and_knows_its_uncertainty() -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(3_000, 0.1), random_state=4)
    fitted = fit_calibrator(stream.log_ratios, stream.labels, np.ones(3_000), method="spline", random_state=0)
    grid = np.stack([np.zeros(400), np.linspace(-30.0, 30.0, 400)], axis=1)
    mapped = fitted.apply(grid)[:, 1]
    assert (np.diff(mapped) > 0.0).all()
    np.testing.assert_allclose(fitted.invert(fitted.apply(grid))[:, 1], grid[:, 1], atol=1e-8)
    spread = np.sqrt(fitted.variance_of(lambda moved: moved.apply(np.array([[0.0, 0.0], [0.0, 8.0]]))[:, 1]))
    assert 0.02 < spread[0] < 0.5 < spread[1]  # sure where the rows are, unsure beyond them


def test_curves_are_for_two_classes() -> None:
    for method in ("spline", "isotonic"):
        with pytest.raises(InvalidInputError, match="two classes"):
            fit_calibrator(np.zeros((6, 3)), np.array([0, 1, 2, 0, 1, 2]), np.ones(6), method=method)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("method", ["affine", "vector", "matrix", "temperature", "spline", "isotonic"])
def test_margins_mean_the_same_on_any_scale(scale: float, method: str) -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(2_000, 0.1), random_state=5)
    ones = np.ones(2_000)

    def calibrated(factor: float) -> FloatArray:
        scores = factor * stream.log_ratios
        fitted = fit_calibrator(scores, stream.labels, ones, method=method, slope_sd=None, random_state=0)
        return fitted.apply(scores)[:, 1]

    np.testing.assert_allclose(calibrated(scale), calibrated(1.0), atol=2e-3)


def test_a_score_that_ranks_backwards_is_flattened_around_no_evidence() -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(2_000, 0.1), random_state=6)
    fitted = fit_linear(-stream.log_ratios, stream.labels, np.ones(2_000), slope_sd=None)
    assert np.abs(fitted.apply(-stream.log_ratios)).max() < 0.05
