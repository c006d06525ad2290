"""The hull: the largest mean is exact, bets are fair, and the sets hold the truth as often as they say."""

import numpy as np
import pytest
from scipy.special import chdtri, ndtr

from obil.monitor.multinomial_bound import divergence_bound
from obil.monitor.null_hull import NullHull, bet_against
from obil.monitor.score_bins import ScoreBins
from obil.serving.holdout import Holdout
from tests.monitor.best_histogram import corner, divergence
from tests.monitor.cases import held_out


def hull_of(counts: tuple[int, ...], seed: int) -> NullHull:
    rows = held_out(np.random.default_rng(seed), counts)
    return NullHull.of(rows, ScoreBins.of(rows), delta=0.005)


@pytest.mark.parametrize("counts", [(2000, 200), (2000, 5), (2000, 300, 150)])
def test_the_largest_mean_is_reached_by_a_histogram_of_the_hull(counts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(10)
    hull = hull_of(counts, seed=11)
    for _ in range(200):
        payoff = np.exp(rng.normal(size=hull.histograms.shape[1]) * 10.0 ** rng.uniform(-3.0, 0.5))
        reached = []
        for centre, radius in zip(hull.histograms, hull.radii, strict=True):
            best = corner(centre, radius, payoff)
            assert divergence(centre, best) <= radius * (1.0 + 1e-6)
            reached.append(best @ payoff)
        assert hull.largest_mean(payoff) == pytest.approx(max(reached), rel=1e-4)


def test_no_histogram_of_the_hull_exceeds_the_largest_mean() -> None:
    rng = np.random.default_rng(12)
    hull = hull_of((2000, 200), seed=13)
    n_bins = hull.histograms.shape[1]
    for _ in range(500):
        payoff = rng.exponential(size=n_bins) ** 3
        for centre, radius in zip(hull.histograms, hull.radii, strict=True):
            other = rng.dirichlet(np.full(n_bins, 0.5))
            mixes = [centre + t * (other - centre) for t in np.linspace(0.0, 0.999, 50)]
            inside = [mix for mix in mixes if divergence(centre, mix) <= radius]
            assert max(mix @ payoff for mix in inside) <= hull.largest_mean(payoff)


def test_the_closest_point_is_optimal() -> None:
    # at the closest point p* of a convex set, r / p* has mean at most 1 over the set: the bet needs no division
    hull = hull_of((2000, 200), seed=14)
    rng = np.random.default_rng(15)
    for _ in range(20):
        alternative = rng.dirichlet(np.full(hull.histograms.shape[1], 2.0))
        closest = hull.closest(alternative)
        assert closest.sum() == pytest.approx(1.0)
        assert hull.largest_mean(alternative / closest) < 1.003


def test_a_mixture_of_the_histograms_is_explained_and_leaves_nothing_to_bet_on() -> None:
    hull = hull_of((2000, 300, 150), seed=16)
    mixed = np.array([0.2, 0.5, 0.3]) @ hull.histograms
    np.testing.assert_allclose(hull.closest(mixed), mixed, atol=2e-3)


@pytest.mark.parametrize("n_steps", [1, 60])
def test_bets_are_fair_however_early_the_search_stops(n_steps: int) -> None:
    hull = hull_of((2000, 200), seed=17)
    rng = np.random.default_rng(18)
    alternatives = rng.dirichlet(np.ones(hull.histograms.shape[1]), size=12)
    mixing, parts = hull.start(12)
    bets = np.empty_like(alternatives)
    for _ in range(n_steps):
        bet_against(hull.histograms, hull.radii, alternatives, mixing, parts, bets)
    for bet in bets:
        assert 0.999 < hull.largest_mean(bet) <= 1.0 + 1e-11
    assert (hull.histograms @ bets.T <= 1.0).all()


@pytest.mark.parametrize(("counts", "weighted"), [((2000, 200), False), ((2000, 200), True), ((500, 20), False)])
def test_the_sets_hold_the_truth_with_bins_chosen_from_the_same_rows(counts: tuple[int, int], weighted: bool) -> None:
    # nominal 2 % a class; at most 28 of 700 misses fails a sound set with probability 1e-3 (binomial)
    misses = np.zeros(2)
    for seed in range(700):
        rng = np.random.default_rng([19, seed])
        rows = held_out(rng, counts)
        if weighted:
            rows = Holdout.of(rows.log_ratios, rows.labels, rng.exponential(size=len(rows.labels)))
        bins = ScoreBins.of(rows)
        hull = NullHull.of(rows, bins, delta=0.04)
        ratios = bins.centres[:, 1] - bins.centres[:, 0]
        edges = np.concatenate([[-np.inf], (ratios[1:] + ratios[:-1]) / 2.0, [np.inf]])
        for k, mean in enumerate((-2.0, 2.0)):  # the log ratio is N(-2, 4) and N(2, 4)
            truth = np.diff(ndtr((edges - mean) / 2.0))
            misses[k] += divergence(hull.histograms[k], truth) > hull.radii[k]
    assert (misses <= 28).all()
    assert misses.sum() > 0  # and no set is so wide that it never misses


def test_a_class_with_few_rows_has_the_bound_that_holds_for_any_number() -> None:
    rows = held_out(np.random.default_rng(0), (4_000, 60))
    bins = ScoreBins.of(rows)
    hull = NullHull.of(rows, bins, delta=0.005)
    limit = float(chdtri(bins.n_bins - 1.0, 0.0025)) / 2.0
    assert 60 < 20 * bins.n_bins < 4_000
    assert hull.radii[1] * 60 == pytest.approx(divergence_bound(bins.n_bins, 0.0025))
    assert limit < hull.radii[0] * 4_000 < 1.1 * limit  # many rows: the chi-square law
