"""Weights of members: they find the one that is noise, stay equal where rows are few, and never leave the simplex."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from obil.arrays import FloatArray, IntArray
from obil.calibration.fuse import TEMPERATURES, choose_temperature, dropout_weights, mean_log_loss, stacked_weights
from obil.datasets.gaussian_stream import GaussianClasses
from tests.calibration.rows import TRIANGLE


def members(
    n: int, noises: list[float], *, n_classes: int = 2, seed: int = 0, prior: float = 0.3
) -> tuple[FloatArray, IntArray]:
    """Return exact log ratios with normal noise of its own for each member, (n, M, K), and labels."""
    rng = np.random.default_rng(seed)
    if n_classes == 2:
        stream = GaussianClasses.pair(2.0).draw(np.full(n, prior), random_state=rng)
    else:
        stream = TRIANGLE.draw(np.tile([0.5, 0.3, 0.2], (n, 1)), random_state=rng)
    noise = rng.normal(size=(n, len(noises), n_classes)) * np.array(noises)[:, None]
    noise[:, :, 0] = 0.0
    return stream.log_ratios[:, None, :] + noise, stream.labels


def stacked(scores: FloatArray, labels: IntArray, **settings: float) -> FloatArray:
    return stacked_weights(scores, labels, np.ones(len(labels)), **settings)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(0.0, 1e6)),
    st.sampled_from([1e-3, 0.5, 1.0, 1e3, np.inf]),
)
def test_dropout_weights_lie_in_the_simplex_and_fall_with_the_variance(variances: FloatArray, tau: float) -> None:
    weights = dropout_weights(variances, tau)
    assert (weights >= 0.0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    order = np.argsort(variances, axis=1)
    assert (np.diff(np.take_along_axis(weights, order, axis=1), axis=1) <= 1e-15).all()


def test_dropout_weights_are_the_papers_formula() -> None:
    variances = np.random.default_rng(0).gamma(2.0, size=(20, 3))
    raised = np.exp(-variances / 0.7)
    np.testing.assert_allclose(dropout_weights(variances, 0.7), raised / raised.sum(axis=1, keepdims=True), rtol=1e-12)
    assert dropout_weights(variances, np.inf).tolist() == np.full((20, 3), 1 / 3).tolist()


def test_only_differences_of_variances_count_and_their_scale_is_that_of_the_temperature() -> None:
    variances = np.random.default_rng(1).gamma(2.0, size=(20, 3))
    expected = dropout_weights(variances, 0.7)
    np.testing.assert_allclose(dropout_weights(variances + 5.0, 0.7), expected, rtol=1e-12)
    np.testing.assert_allclose(dropout_weights(variances * 8.0, 5.6), expected, rtol=1e-12)


def telling(n: int, seed: int, *, n_classes: int = 2) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return two members; on each row one of them, told by its variance, is far off."""
    rng = np.random.default_rng(seed)
    scores, labels = members(n, [0.0, 0.0], n_classes=n_classes, seed=seed)
    wrong = rng.integers(0, 2, n)
    variances = np.full((n, 2), 0.1)
    variances[np.arange(n), wrong] = 4.0
    noise = rng.normal(0.0, 6.0, (n, n_classes - 1))
    scores[np.arange(n), wrong, 1:] += noise
    return scores, variances, labels


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_low_temperature_is_chosen_where_the_variance_tells_who_is_wrong(n_classes: int) -> None:
    scores, variances, labels = telling(2_000, 0, n_classes=n_classes)
    tau = choose_temperature(scores, variances, labels, np.ones(2_000), random_state=0)
    weights = dropout_weights(variances, tau)
    assert weights.max(axis=1).mean() > 0.9
    fused = (weights[:, :, None] * scores).sum(axis=1)
    ones = np.ones(2_000)
    assert mean_log_loss(fused, labels, ones) < mean_log_loss(scores.mean(axis=1), labels, ones) - 0.05


def test_a_high_temperature_is_chosen_where_the_variance_tells_nothing() -> None:
    """The member the variance distrusts is as good as the other: averaging beats picking one, on 10 of 10 seeds."""
    for seed in range(10):
        scores, labels = members(2_000, [1.5, 1.5], seed=seed)
        variances = np.random.default_rng(seed).gamma(0.5, size=(2_000, 2))
        tau = choose_temperature(scores, variances, labels, np.ones(2_000), random_state=0)
        assert tau >= 3.0 * np.median(variances)


def test_the_temperature_is_one_of_the_list_on_the_scale_of_the_variances() -> None:
    scores, variances, labels = telling(500, 1)
    ones = np.ones(500)
    tau = choose_temperature(scores, variances, labels, ones, random_state=0)
    relative = tau / float(np.median(variances))
    assert any(relative == pytest.approx(one, rel=1e-12) for one in TEMPERATURES)
    scaled = choose_temperature(scores, 1_024.0 * variances, labels, ones, random_state=0)
    assert scaled == pytest.approx(1_024.0 * tau, rel=1e-12)


def test_the_order_of_the_members_does_not_change_the_temperature() -> None:
    scores, variances, labels = telling(500, 2)
    first, second = (
        choose_temperature(scores[:, order], variances[:, order], labels, np.ones(500), random_state=0)
        for order in ([0, 1], [1, 0])
    )
    assert first == second


@pytest.mark.parametrize("case", ["no variance", "few rows of a class"])
def test_without_anything_to_tell_by_the_weights_are_equal(case: str) -> None:
    scores, variances, labels = telling(40, 3)
    if case == "no variance":
        variances = np.zeros_like(variances)
    else:
        labels = np.repeat([0, 1], [36, 4])
    assert choose_temperature(scores, variances, labels, np.ones(40), random_state=0) == np.inf


def test_mean_log_loss_is_that_of_scikit_learn_at_the_class_prior() -> None:
    scores, labels = members(300, [0.5], n_classes=3, seed=4)
    weights = np.random.default_rng(0).random(300) + 0.1
    prior = np.bincount(labels, weights=weights) / weights.sum()
    posterior = np.exp(log_softmax(np.log(prior) + scores[:, 0], axis=1))
    expected = log_loss(labels, posterior, sample_weight=weights)
    assert mean_log_loss(scores[:, 0], labels, weights) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("noisy", [0, 1, 2])
def test_stacking_finds_the_member_that_is_noise(noisy: int, n_classes: int) -> None:
    """4,000 rows; a member of pure noise with standard deviation 3 gets below .02, the other two about one half."""
    scores, labels = members(4_000, [0.3, 0.3, 0.3], n_classes=n_classes)
    scores[:, noisy, 1:] = np.random.default_rng(9).normal(0.0, 3.0, (4_000, n_classes - 1))
    weights = stacked(scores, labels)
    assert weights[noisy] < 0.02
    np.testing.assert_allclose(np.delete(weights, noisy), 0.5, atol=0.12)


def test_stacking_prefers_the_better_member() -> None:
    scores, labels = members(4_000, [0.2, 2.0])
    weights = stacked(scores, labels)
    assert weights[0] > 0.85


def test_stacking_is_logistic_regression_where_its_prior_is_weak() -> None:
    """Without a pull to equal weights, coefficients are those of scikit-learn: their proportions agree to .01."""
    scores, labels = members(3_000, [0.8, 1.2])
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1_000).fit(scores[:, :, 1], labels)
    expected = regression.coef_[0] / regression.coef_[0].sum()
    assert (expected > 0.0).all()
    np.testing.assert_allclose(stacked(scores, labels, spread=1e3), expected, atol=0.01)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_few_rows_leave_the_weights_nearly_equal(n_classes: int) -> None:
    """12 rows of equally good members: a prior of .3 / M holds them within .2 of 1/3, on ten seeds."""
    for seed in range(10):
        scores, _ = members(12, [0.5, 0.5, 0.5], n_classes=n_classes, seed=seed)
        weights = stacked(scores, np.arange(12) % n_classes, spread=0.3)
        np.testing.assert_allclose(weights, 1 / 3, atol=0.2)
    np.testing.assert_allclose(stacked(scores, np.arange(12) % n_classes, spread=1e-4), 1 / 3, atol=1e-3)


def test_one_member_has_all_the_weight() -> None:
    scores, labels = members(20, [0.5])
    assert stacked(scores, labels).tolist() == [1.0]


def test_members_that_are_all_wrong_stay_equal() -> None:
    """Members that rank backwards would all get negative coefficients: at the bound of 0 they are all the same."""
    scores, labels = members(4_000, [0.1, 0.1])
    weights = stacked(-scores, labels, spread=1e3)
    np.testing.assert_allclose(weights.sum(), 1.0, atol=1e-12)
    assert (weights >= 0.0).all()


def test_the_order_of_members_and_rows_does_not_matter() -> None:
    scores, labels = members(600, [0.3, 1.0, 2.0], seed=5)
    expected = stacked(scores, labels)
    np.testing.assert_allclose(stacked(scores[:, [2, 0, 1]], labels), expected[[2, 0, 1]], atol=1e-4)
    shuffled = np.random.default_rng(0).permutation(600)
    np.testing.assert_allclose(stacked(scores[shuffled], labels[shuffled]), expected, atol=1e-4)


def test_an_offset_of_a_class_in_all_members_does_not_matter() -> None:
    scores, labels = members(600, [0.3, 1.0], n_classes=3, seed=6)
    moved = scores + np.array([0.0, 0.7, -1.5])
    np.testing.assert_allclose(stacked(moved, labels), stacked(scores, labels), atol=1e-3)


def test_weighted_rows_count_like_repeated_ones() -> None:
    scores, labels = members(300, [0.3, 1.5], seed=7)
    repeats = np.random.default_rng(0).integers(1, 4, 300)
    weighted = stacked_weights(scores, labels, repeats.astype(float))
    repeated = stacked(np.repeat(scores, repeats, axis=0), np.repeat(labels, repeats))
    np.testing.assert_allclose(weighted, repeated, atol=1e-4)


@settings(max_examples=40)
@given(st.data())
def test_whatever_the_scores_stacked_weights_lie_in_the_simplex(data: st.DataObject) -> None:
    n_classes, n_members = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 4))
    shape = (12, n_members, n_classes)
    scores = data.draw(arrays(np.float64, shape, elements=st.floats(-50.0, 50.0)))
    scores[:, :, 0] = 0.0
    weights = stacked(scores, np.arange(12) % n_classes)
    assert weights.shape == (n_members,)
    assert (weights >= 0.0).all()
    assert abs(weights.sum() - 1.0) < 1e-9
