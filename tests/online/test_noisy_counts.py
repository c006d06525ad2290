"""Counts with noise: the noise is what differential privacy asks for, and estimates stay sensible."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.online.evidence_bins import EvidenceBins
from obil.online.noisy_counts import NoisyCounts
from obil.online.segments import estimate_segments
from obil.serving.holdout import Holdout
from obil.trackers.evidence import BinaryEvidence
from obil.trackers.pass_search import estimate_from_rows

PAIR = GaussianClasses.pair(2.0)
TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), np.eye(2))


def bins_of(classes: GaussianClasses, prior: list[float], *, most: int, n_rows: int = 5_000) -> EvidenceBins:
    held_out = classes.draw(np.tile(prior, (n_rows, 1)), random_state=1)
    return EvidenceBins.of(Holdout.of(held_out.log_ratios, held_out.labels), most=most)


def rows_of(prior: float, n_rows: int, seed: int) -> FloatArray:
    return PAIR.draw(np.full(n_rows, prior), random_state=seed).log_ratios


@pytest.mark.parametrize("n_folds", [1, 5])
def test_noise_is_two_sided_geometric_with_the_ratio_that_epsilon_allows(n_folds: int) -> None:
    # 200,000 draws; a frequency of .05 has a standard error of .0005, so 1e-6 that one of 12 is off by 5 of them
    bins, epsilon = bins_of(PAIR, [0.8, 0.2], most=16), 1.0
    rng, rows = np.random.default_rng(0), np.zeros((0, n_folds, 2))
    drawn = np.concatenate([NoisyCounts.of(rows, bins, epsilon=epsilon, rng=rng).counts for _ in range(12_500)])
    stay = np.exp(-epsilon / n_folds)
    found = NoisyCounts(drawn, n_folds, epsilon)
    for z in range(-3, 4):
        expected = (1.0 - stay) / (1.0 + stay) * stay ** abs(z)
        assert abs((drawn == z).mean() - expected) < 5.0 * np.sqrt(expected / len(drawn))
    assert found.noise_variance == pytest.approx(drawn.var() / n_folds**2, rel=0.03)


def test_a_row_changes_counts_by_one_per_fold_and_noise_is_wider_for_it() -> None:
    bins, rng = bins_of(PAIR, [0.8, 0.2], most=16), np.random.default_rng(0)
    rows = np.stack([rows_of(0.2, 30, 1), rows_of(0.2, 30, 2)], axis=1)  # (30, 2, 2)
    counts = [bins.counts(part.reshape(-1, 2)) for part in (rows, rows[:-1])]
    assert np.abs(counts[0] - counts[1]).sum() == 2
    drawn = np.stack([NoisyCounts.of(rows, bins, epsilon=1.0, rng=rng).counts for _ in range(4_000)]) - counts[0]
    two_folds = NoisyCounts(drawn[0], 2, 1.0)
    assert two_folds.noise_variance == pytest.approx(drawn.var() / 4.0, rel=0.05)
    assert drawn.var() > 3.0 * 2.0 * np.exp(-1.0) / np.expm1(-1.0) ** 2  # about four times that of one fold


@pytest.mark.parametrize(("n_rows", "prior", "epsilon"), [(200, 0.1, 1.0), (1_000, 0.05, 0.1), (10_000, 0.01, 1.0)])
def test_intervals_from_noisy_counts_hold_the_truth_about_as_often_as_they_say(
    n_rows: int, prior: float, epsilon: float
) -> None:
    """200 times 90 %: fewer than 164 by chance with probability 3e-4."""
    bins, rng, held, estimates = bins_of(PAIR, [0.8, 0.2], most=16), np.random.default_rng(0), 0, []
    for seed in range(200):
        noisy = NoisyCounts.of(rows_of(prior, n_rows, seed), bins, epsilon=epsilon, rng=rng)
        found = noisy.weighted(bins).estimate()
        held += bool(found.interval[1, 0] <= prior <= found.interval[1, 1])
        estimates.append(found.prior[1])
    assert held >= 164
    # .3 of the standard deviation of one: clipping at 0 and prevalences near 0 leave some bias
    assert abs(np.mean(estimates) - prior) < 0.3 * np.std(estimates)


def test_with_hardly_any_noise_the_estimate_is_that_of_the_rows() -> None:
    bins, rows = bins_of(PAIR, [0.8, 0.2], most=512), rows_of(0.05, 4_000, 7)
    found = NoisyCounts.of(rows, bins, epsilon=100.0, rng=np.random.default_rng(0)).weighted(bins).estimate()
    exact = BinaryEvidence.of(rows).estimate()
    np.testing.assert_allclose(found.prior, exact.prior, atol=0.03 * np.ptp(exact.interval[1]))
    np.testing.assert_allclose(found.interval, exact.interval, atol=0.05 * np.ptp(exact.interval[1]))


def test_more_noise_makes_wider_intervals_and_noise_alone_says_nothing() -> None:
    bins, rows = bins_of(PAIR, [0.8, 0.2], most=16), rows_of(0.2, 400, 3)
    widths = [
        np.mean(
            [
                np.ptp(
                    NoisyCounts.of(rows, bins, epsilon=e, rng=np.random.default_rng(s))
                    .weighted(bins)
                    .estimate()
                    .interval[1]
                )
                for s in range(10)
            ]
        )
        for e in (10.0, 1.0, 0.1, 0.01)
    ]
    assert widths == sorted(widths)
    assert widths[-1] > 0.5


def test_a_few_rows_tell_what_they_do_if_the_noise_is_small_and_nothing_if_it_is_not() -> None:
    bins, rows = bins_of(PAIR, [0.8, 0.2], most=16), rows_of(0.2, 5, 1)
    clear, drowned = (
        NoisyCounts.of(rows, bins, epsilon=epsilon, rng=np.random.default_rng(0)).weighted(bins).estimate()
        for epsilon in (100.0, 0.1)
    )
    exact = BinaryEvidence.of(rows).estimate()
    np.testing.assert_allclose(clear.interval, exact.interval, atol=0.1)
    np.testing.assert_allclose(drowned.interval, [[0.0, 1.0], [0.0, 1.0]], atol=1e-5)


def test_three_classes_are_estimated_from_noisy_counts() -> None:
    truth = np.array([0.7, 0.2, 0.1])
    bins, rng, held = bins_of(TRIANGLE, [0.6, 0.3, 0.1], most=24, n_rows=20_000), np.random.default_rng(0), 0
    for seed in range(60):
        rows = TRIANGLE.draw(np.tile(truth, (1_500, 1)), random_state=seed).log_ratios
        interval = NoisyCounts.of(rows, bins, epsilon=1.0, rng=rng).weighted(bins).estimate().interval
        held += ((interval[:, 0] <= truth) & (truth <= interval[:, 1])).mean()
    assert held / 60 > 0.8  # four standard errors below .9, were the classes one


def test_segments_learn_from_each_other_from_noisy_counts() -> None:
    # 60 segments of 300 rows; coverage has a standard error of .04
    bins, rng = bins_of(PAIR, [0.8, 0.2], most=16), np.random.default_rng(0)
    truth = rng.beta(8.0, 72.0, size=60)
    parts = {
        name: NoisyCounts.of(rows_of(prior, 300, name), bins, epsilon=1.0, rng=rng).weighted(bins)
        for name, prior in enumerate(truth.tolist())
    }
    found = estimate_segments(parts)
    error, alone = (np.abs([own[name].prior[1] for name in parts] - truth).mean() for own in (found, found.alone))
    assert error < 0.8 * alone
    ends = np.array([found[name].interval[1] for name in parts])
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() > 0.78


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.99, 0.01]])
def test_bins_lose_little_of_what_rows_tell(prior: list[float]) -> None:
    bins = bins_of(PAIR, [0.8, 0.2], most=16, n_rows=20_000)
    rows = PAIR.draw(np.tile(prior, (20_000, 1)), random_state=5).log_ratios
    exact = estimate_from_rows(rows)
    log_ratios = np.log(bins.probabilities / bins.probabilities[:, :1])
    binned = BinaryEvidence.of(np.repeat(log_ratios, bins.counts(rows), axis=0)).estimate()
    width = np.ptp(exact.interval[1])
    assert abs(binned.prior[1] - exact.prior[1]) < 0.2 * width
    assert np.ptp(binned.interval[1]) < 1.05 * width


@pytest.mark.parametrize(
    ("n_rows", "epsilon", "rate"), [(1_000, 0.1, 0.3), (20_000, 0.01, 0.3), (1_000, 1.0, 0.3), (50_000, 0.005, 0.1)]
)
def test_the_interval_allows_for_not_knowing_how_many_rows_there_are(n_rows: int, epsilon: float, rate: float) -> None:
    """The profile likelihood over the number of rows, by brute force."""
    bins, prior = bins_of(PAIR, [0.5, 0.5], most=16), np.array([1.0 - rate, rate])
    counts = np.rint(n_rows * bins.probabilities @ prior).astype(np.int64)
    noisy = NoisyCounts(counts, 1, epsilon)
    totals = n_rows * np.linspace(0.2, 3.0, 1_401)[:, None]
    grid = np.linspace(0.0005, 0.9995, 1_000)
    logs = []
    for positive in grid:
        means = totals * (bins.probabilities @ [1.0 - positive, positive]) + noisy.noise_variance
        logs.append(((counts + noisy.noise_variance) * np.log(means) - means).sum(axis=1).max())
    inside = grid[np.array(logs) > np.max(logs) - 1.3528]  # half the chi-square quantile of .9
    found = noisy.weighted(bins).estimate().interval[1]
    np.testing.assert_allclose(found, [inside[0], inside[-1]], atol=0.05 * np.ptp(inside))
