"""Rows that resemble their neighbours of the same class make blocks; a prior that moves does not."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.arrays import FloatArray, IntArray
from obil.calibration.block_length import MOST_LAGS, block_length
from obil.estimators.ratio_classifier import RatioClassifier
from obil.monitor.reference import allowances_of

N = 6_000


def drawn(seed: int, *, memory: float = 0.0, prior: FloatArray | float = 0.3) -> tuple[FloatArray, IntArray]:
    """Return log ratios and labels whose noise remembers this fraction of the row before."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(N) < prior).astype(np.int64)
    noise = rng.standard_normal(N)
    for t in range(1, N):
        noise[t] = memory * noise[t - 1] + np.sqrt(1.0 - memory**2) * noise[t]
    scores = noise + 2.0 * labels
    return np.stack([0.0 * scores, scores], axis=1), labels


def test_independent_rows_are_their_own_blocks_wherever_the_prior_goes() -> None:
    waves = 0.3 + 0.25 * np.sin(np.arange(N) / 200.0)
    found = [
        block_length(*drawn(seed, prior=prior), np.arange(N)) for seed in range(10) for prior in (0.02, 0.3, waves)
    ]
    assert set(found) == {1}


@pytest.mark.parametrize(("memory", "expected"), [(0.3, 2), (0.6, 4), (0.9, 16)])
def test_the_longer_rows_remember_the_longer_a_block(memory: float, expected: int) -> None:
    found = [block_length(*drawn(seed, memory=memory), np.arange(N)) for seed in range(5)]
    assert expected <= np.median(found) <= 2 * expected


def test_folds_whose_scores_differ_are_no_dependence() -> None:
    ratios, labels = drawn(0)
    folds = np.arange(N) * 5 // N
    ratios[:, 1] += np.array([0.0, 1.2, -0.6, 0.8, -1.2])[folds]
    assert block_length(ratios, labels, np.arange(N)) > 1
    assert block_length(ratios, labels, np.arange(N), folds) == 1


def test_a_block_has_an_end() -> None:
    assert block_length(*drawn(0, memory=0.9999), np.arange(N)) == MOST_LAGS


def test_only_the_order_of_time_counts() -> None:
    ratios, labels = drawn(0, memory=0.6)
    order = np.random.default_rng(1).permutation(N)
    assert block_length(ratios[order], labels[order], order) == block_length(ratios, labels, np.arange(N))
    assert block_length(ratios, labels, order) == 1


def test_a_model_with_time_learns_its_block_and_says_so() -> None:
    ratios, labels = drawn(0, memory=0.9)
    with pytest.warns(UserWarning, match="blocks of (16|32) rows"):
        model = RatioClassifier(LogisticRegression()).fit(ratios[:, 1:], labels, time=np.arange(N))
    assert allowances_of(model.model_)["block"] in (16, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = RatioClassifier(LogisticRegression()).fit(ratios[:, 1:], labels)
    assert allowances_of(other.model_) == {"tolerance": 0.0, "block": 1}
