"""The bank finds priors, states their uncertainty, and remembers regimes."""

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logit
from scipy.stats import beta

from experiments.gaussian_pair import GaussianPair
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.prior_paths import constant, square
from obil.errors import InvalidInputError
from obil.trackers import BayesBank, GridFilter


def rows_at(prior: float, n_rows: int, separation: float, seed: int) -> FloatArray:
    return GaussianClasses.pair(separation).draw(constant(n_rows, prior), random_state=seed).log_ratios


THREE = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]]), np.eye(2))


# --- what it finds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prior", "tolerance"), [(0.01, 0.9), (0.1, 0.3), (0.5, 0.13)])
def test_finds_the_prior_of_a_stream_whose_ratios_are_exact(prior: float, tolerance: float) -> None:
    # seed 0; the logit error over 60 other seeds has sd .18, .05, .025: 5 sd, false-failure rate below 1e-4
    # (the start prior .05 is 1.65, .75 and 2.9 away in the logit)
    bank = BayesBank(0.05)
    bank.update_many(rows_at(prior, 20_000, 2.5, seed=0))
    assert logit(bank.prior[1]) == pytest.approx(logit(prior), abs=tolerance)


def test_finds_the_prior_of_three_classes() -> None:
    # seed 1; over 40 seeds the error of a class has sd .006 at most and reached .027: tolerance 6 sd, false-failure
    # rate below 1e-3 (the tails are heavier than normal)
    truth = np.array([0.9, 0.08, 0.02])
    bank = BayesBank([0.2, 0.2, 0.6])
    bank.update_many(THREE.draw(np.tile(truth, (20_000, 1)), random_state=1).log_ratios)
    np.testing.assert_allclose(bank.prior, truth, atol=0.036)


@pytest.mark.parametrize("separation", [1.5, 2.5])
@pytest.mark.parametrize("prior", [0.02, 0.1, 0.5])
def test_the_endless_filter_stays_close_to_the_exact_posterior_mean(separation: float, prior: float) -> None:
    # 5 streams; tolerance .75 posterior standard deviations at the end: over 20 other seeds the largest is .55
    # for separation 1.5 and .24 for 2.5. The grid has 2,001 points: at 129 it is itself up to 2.4 sd off.
    for seed in range(5):
        rows = rows_at(prior, 5_000, separation, seed)
        exact = GridFilter(0.05, reset_rates=(), n_points=2_001)
        exact.update_many(rows)
        endless = BayesBank(0.05, memories=(None,), n_snapshots=0)
        endless.update_many(rows)
        low, high = logit(exact.interval()[1])
        sd = (high - low) / 3.29
        assert abs(logit(endless.prior[1]) - logit(exact.prior[1])) < 0.75 * sd


def test_the_endless_filter_is_as_sure_as_the_exact_one() -> None:
    # fractional counts, which the filter replaces, are up to ten times too sure here
    rows = rows_at(0.05, 3_000, 1.5, seed=3)
    exact, endless = GridFilter(0.05, reset_rates=(), n_points=2_001), BayesBank(0.05, memories=(None,), n_snapshots=0)
    exact.update_many(rows)
    endless.update_many(rows)
    width = np.diff(endless.interval()[1]).item() / np.diff(exact.interval()[1]).item()
    assert 0.75 < width < 1.35


# --- moment matching ------------------------------------------------------------------------------------------


def after_one_row(start: FloatArray, row: FloatArray, memory: float | None = None) -> FloatArray:
    """Return the counts (K,) of a single filter that started as Dirichlet(start) after one row."""
    bank = BayesBank(start / start.sum(), memories=(memory,), n_snapshots=0, start_rows=float(start.sum()))
    bank.update(row)
    return np.ravel(bank.state()["memory"]["counts"])


def dirichlet_moments(counts: FloatArray) -> tuple[FloatArray, float]:
    """Return the mean and the summed second moment of a Dirichlet."""
    total = counts.sum()
    return counts / total, float((counts * (counts + 1.0)).sum() / (total * (total + 1.0)))


@pytest.mark.parametrize(
    ("start", "row"),
    [
        ([9.5, 0.5], [0.0, 2.0]),
        ([3.0, 4.0], [0.0, -1.0]),
        ([9.5, 0.5], [0.0, 40.0]),
        ([0.3, 0.2], [0.0, 0.7]),
        ([400.0, 3.0], [0.0, 1.0]),
        ([4.0, 3.0, 2.0, 1.0], [0.0, 1.0, -1.0, 2.5]),
        ([50.0, 0.1, 0.2, 5.0], [0.0, 3.0, 3.0, -9.0]),
    ],
)
def test_one_row_keeps_the_mean_and_second_moment_of_the_exact_mixture(start: list[float], row: list[float]) -> None:
    counts, ratios = np.array(start), np.exp(np.array(row))
    # the exact posterior: sum over the row's class k of r_k Dirichlet(counts + e_k)
    responsibilities = counts * ratios / (counts @ ratios)
    parts = [dirichlet_moments(counts + unit) for unit in np.eye(counts.size)]
    mean = sum(r * part[0] for r, part in zip(responsibilities, parts, strict=True))
    second = sum(r * part[1] for r, part in zip(responsibilities, parts, strict=True))
    found_mean, found_second = dirichlet_moments(after_one_row(counts, np.array(row)))
    np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
    assert found_second == pytest.approx(second, rel=1e-9)


def test_one_row_keeps_the_moments_that_integration_gives_for_two_classes() -> None:
    counts, row = np.array([6.0, 2.0]), np.array([0.0, 1.5])
    ratio = np.exp(1.5)

    def moment(power: float, of_positive: bool = True) -> float:
        def integrand(p: float) -> float:
            value = p if of_positive else 1.0 - p
            return float(value**power * beta.pdf(p, 2.0, 6.0) * (1.0 - p + p * ratio))

        return float(quad(integrand, 0.0, 1.0)[0])

    scale = moment(0)
    found_mean, found_second = dirichlet_moments(after_one_row(counts, row))
    assert found_mean[1] == pytest.approx(moment(1) / scale, rel=1e-7)
    assert found_second == pytest.approx((moment(2) + moment(2, of_positive=False)) / scale, rel=1e-7)


def test_one_row_keeps_the_moments_that_sampling_gives_for_four_classes() -> None:
    # seed 0, 400,000 weighted draws: tolerance 5 standard errors of each moment, false-failure rate 3e-6
    counts, row = np.array([4.0, 3.0, 2.0, 1.0]), np.array([0.0, 1.0, -1.0, 2.0])
    draws = np.random.default_rng(0).dirichlet(counts, 400_000)
    weights = draws @ np.exp(row)
    weights /= weights.mean()
    found_mean, found_second = dirichlet_moments(after_one_row(counts, row))
    for values, found in ((draws[:, 3], found_mean[3]), ((draws**2).sum(axis=1), found_second)):
        error = (weights * (values - (weights * values).mean())).std() / np.sqrt(len(draws))
        assert found == pytest.approx((weights * values).mean(), abs=5.0 * error)


def test_forgetting_shrinks_the_counts_and_returns_a_little_of_the_start() -> None:
    start, row = np.array([6.0, 3.0, 1.0]), np.array([0.0, 2.0, -1.0])
    endless = after_one_row(start, row)
    forgetful = after_one_row(start, row, memory=20.0)
    np.testing.assert_allclose(forgetful, 0.95 * endless + 0.05 * 0.02 * start, rtol=1e-12)


# --- snapshots ------------------------------------------------------------------------------------------------


def test_a_regime_that_returns_is_found_faster_with_snapshots() -> None:
    # seeds 0 to 4, .02 and .20 by turns; expected regret in the 200 rows after each return (rows from 4,000 on).
    # Over 6 other sets of 5 seeds the ratio of the sums is .69 to .77 (sd .026): false-failure rate below 1e-4
    path = square(12_000, 0.02, 0.2, half_period=1_000)
    after_return = (np.arange(12_000) % 1_000 < 200) & (np.arange(12_000) >= 4_000)
    regret = {}
    for n_snapshots in (8, 0):
        regret[n_snapshots] = 0.0
        for seed in range(5):
            rows = GaussianClasses.pair(2.5).draw(path, random_state=seed).log_ratios
            used = BayesBank(0.05, n_snapshots=n_snapshots).update_many(rows)[:, 1]
            steps = np.diff(GaussianPair(2.5).regret(used, path), prepend=0.0)
            regret[n_snapshots] += steps[after_return].sum()
    assert regret[8] < 0.9 * regret[0]


def test_snapshots_are_kept_only_of_priors_that_are_new() -> None:
    bank = BayesBank(0.05)
    bank.update_many(rows_at(0.05, 99, 3.0, seed=1))
    assert bank.state()["memory"]["seen"] == [99, 0]
    bank.update_many(rows_at(0.05, 1, 3.0, seed=2))
    assert bank.state()["memory"]["seen"] == [100, 1]
    # the mixture's prior after row 100 is the first snapshot
    snapshots = np.array(bank.state()["memory"]["snapshots"])  # (K, V)
    np.testing.assert_allclose(snapshots[:, 0], bank.prior, rtol=1e-9)
    bank.update_many(rows_at(0.9, 20_000, 3.0, seed=3))
    memory = bank.state()["memory"]
    stored = memory["seen"][1]
    assert 2 <= stored < 8  # 200 occasions, few of them new
    nearest = abs(logit(np.array(memory["snapshots"])[1, :stored]) - logit(0.9)).min()
    assert nearest < 0.15  # the regime it settled in is one of them


def test_a_full_store_replaces_a_snapshot_and_goes_on() -> None:
    bank = BayesBank(0.5, n_snapshots=2)
    kept = set()
    for seed, prior in enumerate((0.02, 0.9, 0.2, 0.6, 0.05, 0.5)):
        bank.update_many(rows_at(prior, 1_000, 3.0, seed))
        kept.add(json.dumps(bank.state()["memory"]["snapshots"]))
        weights = np.array(bank.state()["memory"]["weights"])
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-9)
    assert bank.state()["memory"]["seen"] == [6_000, 2]
    assert len(kept) > 2


# --- state and interval ---------------------------------------------------------------------------------------


def test_the_state_of_a_binary_stream_stays_small() -> None:
    bank = BayesBank(0.05)
    path = np.concatenate([square(10_000, 0.02, 0.3, half_period=1_000), square(10_000, 0.6, 0.9, half_period=500)])
    bank.update_many(GaussianClasses.pair(2.5).draw(path, random_state=0).log_ratios)
    assert bank.state()["memory"]["seen"] == [20_000, 8]  # every snapshot is taken: the largest state there is
    assert len(json.dumps(bank.state())) <= 4_000


def test_the_interval_of_a_steady_stream_is_ordered_contains_the_prior_and_narrows() -> None:
    bank = BayesBank(0.05)
    rows = rows_at(0.1, 20_000, 2.0, seed=5)
    widths = []
    for part in np.split(rows, [200, 2_000]):
        bank.update_many(part)
        ends = bank.interval()
        assert ends.shape == (2, 2)
        assert (ends[:, 0] > 0.0).all()
        assert (ends[:, 0] < ends[:, 1]).all()
        assert (ends[:, 1] < 1.0).all()
        assert (ends[:, 0] <= bank.prior).all()
        assert (bank.prior <= ends[:, 1]).all()
        # the two classes are one minus each other
        np.testing.assert_allclose(ends[0], 1.0 - ends[1, ::-1], atol=1e-9)
        widths.append(float(np.diff(ends[1]).item()))
    assert widths[0] > 1.5 * widths[1] > 1.5 * widths[2]


def test_the_interval_of_a_single_filter_is_that_of_its_beta_distribution() -> None:
    bank = BayesBank(0.2, memories=(None,), n_snapshots=0)
    bank.update_many(rows_at(0.2, 300, 2.0, seed=6))
    negative, positive = np.ravel(bank.state()["memory"]["counts"])
    for level in (0.5, 0.9, 0.99):
        expected = beta.ppf([(1.0 - level) / 2.0, (1.0 + level) / 2.0], positive, negative)
        np.testing.assert_allclose(bank.interval(level)[1], expected, rtol=1e-6)


def test_the_interval_of_three_classes_contains_their_prior_and_grows_with_its_level() -> None:
    truth = np.array([0.7, 0.2, 0.1])
    bank = BayesBank([0.4, 0.3, 0.3])
    bank.update_many(THREE.draw(np.tile(truth, (5_000, 1)), random_state=7).log_ratios)
    narrow, wide = bank.interval(0.5), bank.interval(0.99)
    assert narrow.shape == wide.shape == (3, 2)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    assert (wide[:, 0] < truth).all()
    assert (truth < wide[:, 1]).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, np.nan])
def test_an_interval_needs_a_level_between_zero_and_one(level: float) -> None:
    with pytest.raises(InvalidInputError, match="level"):
        BayesBank(0.1).interval(level)


@pytest.mark.parametrize(
    "options",
    [
        {"memories": ()},
        {"memories": (1.0,)},
        {"memories": (np.nan,)},
        {"switching_rates": ()},
        {"switching_rates": (0.0,)},
        {"switching_rates": (0.6,)},
        {"n_snapshots": -1},
        {"n_snapshots": 1.5},
        {"start_rows": 0.0},
        {"start_rows": np.inf},
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        BayesBank(0.1, **options)
