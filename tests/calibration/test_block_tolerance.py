"""Blocks that are alike need the least tolerance; blocks that differ need what they differ by, beyond chance."""

import numpy as np
import pytest
from scipy.special import rel_entr

from obil.arrays import FloatArray, IntArray
from obil.calibration.block_tolerance import FEWEST_ROWS, LEAST, N_BINS, block_tolerance
from obil.estimators.ratio_classifier import RatioClassifier
from obil.monitor.reference import allowances_of
from tests.calibration.rows import TRIANGLE


def drawn(
    n_blocks: int, rows_of_block: int, seed: int, *, shift: float = 0.0, shifted: int = 0, only: int | None = None
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return log ratios, labels and blocks of two normal classes; one block is shifted, of a class or both."""
    rng = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(n_blocks), rows_of_block)
    labels = np.arange(len(blocks)) % 2
    scores = rng.standard_normal(len(blocks)) + 2.0 * labels
    moved = (blocks == shifted) & (np.ones(len(blocks), dtype=bool) if only is None else labels == only)
    scores = scores + shift * moved
    return np.stack([0.0 * scores, scores], axis=1), labels, blocks


@pytest.mark.parametrize("rows_of_block", [100, 400, 2_000])
@pytest.mark.parametrize("n_blocks", [2, 5, 10])
def test_blocks_that_are_alike_need_the_least_tolerance(n_blocks: int, rows_of_block: int) -> None:
    """Seeds 0 to 19: most of them need no more, and the mean of all is below twice the least.

    Blocks with 50 rows of a class diverge by .07 by chance alone.
    """
    found = [block_tolerance(*drawn(n_blocks, rows_of_block, seed)) for seed in range(20)]
    assert np.median(found) == LEAST
    assert np.mean(found) < 2.0 * LEAST


@pytest.mark.parametrize("shift", [0.5, 1.0, 1.5])
def test_a_block_that_differs_needs_the_divergence_of_its_histogram_from_that_of_all(shift: float) -> None:
    """The exact divergence between normal classes in the same bins, 20 blocks of 5,000 rows each, seed 0: to 10 %."""
    log_ratios, labels, blocks = drawn(20, 10_000, 0, shift=shift)
    exact = []
    rng = np.random.default_rng(99)
    for mean in (0.0, 2.0):
        others, own = rng.standard_normal(2_000_000) + mean, rng.standard_normal(2_000_000) + mean + shift
        sign = -1.0 if mean == 0.0 else 1.0
        whole = np.concatenate([others, own[: len(others) // 19]]) * sign
        edges = np.quantile(whole, np.arange(1, N_BINS) / N_BINS)
        histograms = [
            np.bincount(np.searchsorted(edges, one), minlength=N_BINS) / len(one) for one in (own * sign, whole)
        ]
        exact.append(rel_entr(*histograms).sum())
    assert block_tolerance(log_ratios, labels, blocks) == pytest.approx(max(exact), rel=0.1)


@pytest.mark.parametrize("only", [0, 1])
@pytest.mark.parametrize("shifted", [0, 3])
def test_one_class_of_one_block_is_enough(shifted: int, only: int) -> None:
    assert block_tolerance(*drawn(5, 800, 1, shift=1.0, shifted=shifted, only=only)) > 0.2
    assert block_tolerance(*drawn(5, 800, 1)) < 0.05


def test_the_more_a_block_differs_the_larger_is_the_tolerance() -> None:
    found = [block_tolerance(*drawn(5, 2_000, 2, shift=shift)) for shift in (0.0, 0.3, 0.6, 1.0, 2.0)]
    assert found == sorted(found)
    assert found[0] == LEAST
    assert np.isfinite(found[-1])


def test_a_prior_that_differs_between_blocks_needs_none() -> None:
    """Label shift is no difference of the classes: 80 % of class 1 in one block, 10 % in the others. Seed 3."""
    rng = np.random.default_rng(3)
    blocks = np.repeat(np.arange(5), 2_000)
    labels = (rng.random(10_000) < np.where(blocks == 0, 0.8, 0.1)).astype(np.int64)
    scores = rng.standard_normal(10_000) + 2.0 * labels
    assert block_tolerance(np.stack([0.0 * scores, scores], axis=1), labels, blocks) < 1.5 * LEAST


def test_classes_and_blocks_with_few_rows_tell_nothing() -> None:
    log_ratios, labels, blocks = drawn(4, 400, 4, shift=3.0, shifted=3, only=1)
    assert block_tolerance(log_ratios, labels, blocks) > 0.5
    keep = np.ones(len(labels), dtype=bool)
    keep[np.flatnonzero((blocks == 3) & (labels == 1))[FEWEST_ROWS - 1 :]] = False  # one row too few of the block
    assert block_tolerance(log_ratios[keep], labels[keep], blocks[keep]) < 0.1
    keep = np.ones(len(labels), dtype=bool)
    keep[np.flatnonzero(labels == 1)[: -2 * FEWEST_ROWS + 1]] = False  # one row too few of the class
    assert block_tolerance(log_ratios[keep], labels[keep], blocks[keep]) < 0.1


def test_the_names_of_blocks_do_not_matter() -> None:
    log_ratios, labels, blocks = drawn(5, 400, 5, shift=1.0)
    found = block_tolerance(log_ratios, labels, blocks)
    assert block_tolerance(log_ratios, labels, 1_000 - 7 * blocks) == found
    order = np.random.default_rng(0).permutation(len(labels))
    assert block_tolerance(log_ratios[order], labels[order], blocks[order]) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_of_three_classes_each_is_compared_by_its_lead(k: int) -> None:
    drawn_rows = TRIANGLE.draw(np.full((6_000, 3), 1.0 / 3.0), random_state=6)
    blocks = np.arange(6_000) % 5
    assert block_tolerance(drawn_rows.log_ratios, drawn_rows.labels, blocks) < 0.05
    differs = (blocks == 2) & (drawn_rows.labels == k)
    away = TRIANGLE.means[[1, 2, 0][k]] - TRIANGLE.means[k]
    features = drawn_rows.features + np.where(differs[:, None], 0.6 * away, 0.0)
    assert block_tolerance(TRIANGLE.log_ratios(features), drawn_rows.labels, blocks) > 0.2


def test_scores_that_repeat_are_taken_too() -> None:
    log_ratios, labels, blocks = drawn(5, 1_000, 7)
    assert np.isfinite(block_tolerance(log_ratios.round(), labels, blocks))
    assert block_tolerance(0.0 * log_ratios, labels, blocks) == LEAST


def test_only_folds_that_are_blocks_of_time_or_groups_give_a_model_a_tolerance() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(8)
    labels = np.arange(1_500) % 2
    time = np.arange(1_500)
    rows = rng.standard_normal((1_500, 3)) + 1.2 * labels[:, None]
    rows[time < 300] += 0.8  # the first fifth is another world
    fitted = [
        RatioClassifier(LogisticRegression(), random_state=0).fit(rows, labels, **given).model_
        for given in ({}, {"time": time}, {"groups": time // 10}, {"groups": time // 300})
    ]
    tolerances = [allowances_of(model)["tolerance"] for model in fitted]
    assert tolerances[0] == 0.0
    assert tolerances[1] > 0.2
    assert LEAST <= tolerances[2] < 0.1  # groups of ten rows are dealt over the folds, which are alike
    assert tolerances[3] > 0.2
