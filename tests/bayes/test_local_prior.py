"""The local class prior: that of the neighbours, of as many as predict the labels best."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.bayes.local_prior import best_window, local_prior_error, local_priors
from obil.datasets import prior_paths

N = 3_000


def drawn(path: FloatArray, seed: int) -> "np.typing.NDArray[np.int64]":
    return (np.random.default_rng(seed).random(len(path)) < path).astype(np.int64)


def test_a_local_prior_is_that_of_the_neighbours() -> None:
    labels = np.random.default_rng(0).integers(0, 3, 60)
    priors = local_priors(labels, n_classes=3, window=10)
    for row in range(60):
        near = [i for i in range(max(row - 5, 0), min(row + 6, 60)) if i != row]
        counts = np.bincount(labels[near], minlength=3) + np.bincount(labels, minlength=3) / 60
        np.testing.assert_allclose(priors[row], counts / (len(near) + 1))


def test_a_window_as_long_as_the_past_holds_all_of_it() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 60)
    others = (labels.sum() - labels + labels.mean()) / 60
    np.testing.assert_allclose(local_priors(labels, n_classes=2, window=60)[:, 1], others)


def test_a_past_that_stands_still_is_counted_whole_and_one_that_moves_is_not() -> None:
    # 20 seeds each; a past that stands still is cut by chance in one of thirty
    still = [best_window(drawn(prior_paths.constant(N, 0.05), seed), n_classes=2) for seed in range(20)]
    moving = prior_paths.square(N, 0.02, 0.3, half_period=500)
    assert sum(window == N for window in still) >= 17
    assert max(best_window(drawn(moving, seed), n_classes=2) for seed in range(20)) <= 600


@pytest.mark.parametrize(
    "path",
    [
        prior_paths.constant(N, 0.05),
        prior_paths.ramp(N, 0.05, 0.2),
        prior_paths.step(N, 0.05, 0.15, at=1_200),
        prior_paths.sine(N, middle=0.1, amplitude=0.05, period=950),
    ],
    ids=["constant", "ramp", "step", "sine"],
)
def test_it_is_nearer_to_the_truth_than_a_window_of_one_twentieth(path: FloatArray) -> None:
    chosen, fixed = [], []
    for seed in range(20):
        labels = drawn(path, seed)
        window = best_window(labels, n_classes=2)
        for errors, rows in ((chosen, window), (fixed, N // 20)):
            errors.append(np.abs(local_priors(labels, n_classes=2, window=rows)[:, 1] - path).mean())
    assert np.mean(chosen) < 0.85 * np.mean(fixed)


def test_its_error_is_what_it_misses_by_chance() -> None:
    missed, said = [], []
    for seed in range(20):
        priors = local_priors(drawn(prior_paths.constant(N, 0.1), seed), n_classes=2, window=300)
        missed.append(np.abs(priors[:, 1] - 0.1).mean())
        said.append(local_prior_error(priors, window=300))
    assert np.mean(missed) == pytest.approx(np.mean(said), rel=0.15)
