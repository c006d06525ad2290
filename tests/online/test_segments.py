"""Segments that learn from each other: error, coverage, extremes, and false discoveries."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.special import betaln, expit, logit
from scipy.stats import beta

import obil
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.online.common_level import GRID, CommonLevel
from obil.online.one_class import _coefficients, _log_likelihoods, _on_grid, _on_local_grid
from obil.online.segments import SegmentEstimates, estimate_segments
from obil.online.weighted_rows import WeightedRows
from obil.trackers.evidence import BinaryEvidence


def evidence_of(
    priors: FloatArray, n_rows: int | npt.NDArray[np.int64], *, separation: float = 2.0, seed: int = 0
) -> dict[Hashable, BinaryEvidence]:
    """Return the evidence of segments with these priors, by exact ratios of two normals."""
    rng = np.random.default_rng(seed)
    found: dict[Hashable, BinaryEvidence] = {}
    for name, (prior, n) in enumerate(
        zip(priors.tolist(), np.broadcast_to(n_rows, priors.shape).tolist(), strict=True)
    ):
        labels = rng.random(n) < prior
        scores = separation * (rng.standard_normal(n) + separation * labels) - separation**2 / 2
        found[name] = BinaryEvidence.of(np.stack([np.zeros(n), scores], axis=1))
    return found


def positives(found: SegmentEstimates) -> FloatArray:
    return np.array([found[name].prior[1] for name in found])


def test_few_rows_learn_from_the_others_and_intervals_cover() -> None:
    # 8 x 200 segments x 50 rows; within one draw all intervals rest on the same common level, so the mean is tested
    errors, covered, sizes = [], [], []
    for seed in range(8):
        truth = np.random.default_rng(seed).beta(4.0, 36.0, size=200)
        found = estimate_segments(evidence_of(truth, 50, seed=seed))
        alone = np.array([found.alone[name].prior[1] for name in found])
        errors.append([np.abs(own - truth).mean() for own in (positives(found), alone, found.common.prior[1])])
        ends = np.array([found[name].interval[1] for name in found])
        covered.append(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
        sizes.append(found.size)
        assert found.mean[1] == pytest.approx(0.1, abs=0.03)
    error, error_alone, error_pooled = np.mean(errors, axis=0)
    assert error < 0.65 * error_alone
    assert error < 0.97 * error_pooled
    assert 0.86 < np.mean(covered) < 0.97
    assert 15 < np.median(sizes) < 120  # 40 in truth


def counted(positives: int, n_rows: int) -> BinaryEvidence:
    """Return the evidence of rows whose labels the scores give away."""
    one = BinaryEvidence.of([[0.0, 50.0]]).log_likelihoods
    other = BinaryEvidence.of([[0.0, -50.0]]).log_likelihoods
    return BinaryEvidence(n_rows, positives * one + (n_rows - positives) * other)


def exact_means(counts: list[tuple[int, int]]) -> FloatArray:
    """Return the posterior means of a beta-binomial hierarchy by brute force on a dense grid, under the same priors."""
    positives, totals = np.array(counts, dtype=float).T
    mean, size = (
        axis.ravel() for axis in np.meshgrid(expit(np.linspace(-16, 16, 641)), np.exp(np.linspace(0, 13, 131)))
    )
    a, b = mean * size, (1.0 - mean) * size
    terms = betaln(a[:, None] + positives, b[:, None] + totals - positives) - betaln(a, b)[:, None]
    rows = np.median(totals) + 1.0
    log_weights = terms.sum(axis=1) + np.log(mean * (1.0 - mean)) + np.log(size) / 2.0 - np.log(size + rows)
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray((weights / weights.sum()) @ ((a[:, None] + positives) / (size[:, None] + totals)))


@pytest.mark.parametrize(
    "counts",
    [
        [(0, 5)] * 5,  # nothing was seen: the mean is at no edge for that
        [(0, 20)] * 3,
        [(1, 1)],
        [(3, 30), (6, 30), (1, 30), (9, 30), (4, 30)],
        [(1_000, 100_000)] + [(10, 20)] * 30,  # one segment of most rows must not move the others
    ],
)
def test_estimates_are_those_of_the_exact_hierarchy(counts: list[tuple[int, int]]) -> None:
    found = estimate_segments(dict(enumerate(counted(*one) for one in counts)))
    np.testing.assert_allclose(positives(found), exact_means(counts), rtol=0.06, atol=0.002)


def test_certain_rows_give_the_posterior_of_counts() -> None:
    counts = np.arange(0, 21, 4)
    level = CommonLevel(GRID, np.array([3.0]), np.array([7.0]), np.ones(1), np.ones(1))
    logs = _log_likelihoods(_coefficients([counted(count, 20) for count in counts.tolist()]), GRID)
    means, ends = _on_grid(logs, level, [0.05, 0.95])
    np.testing.assert_allclose(means, (3.0 + counts) / 30.0, rtol=1e-6)
    exact = beta.ppf([0.05, 0.95], 3.0 + counts[:, None], 27.0 - counts[:, None])
    np.testing.assert_allclose(ends, exact, atol=5e-4)


def test_many_rows_give_the_posterior_of_counts_on_a_grid_of_their_own() -> None:
    part, level = (
        counted(4_500, 90_000),
        CommonLevel(GRID, np.array([500.0]), np.array([9_500.0]), np.ones(1), np.ones(1)),
    )
    mean, ends = _on_local_grid(part, part.estimate(), level, [0.05, 0.95])
    assert mean == pytest.approx(5_000 / 100_000, rel=1e-5)
    np.testing.assert_allclose(ends, beta.ppf([0.05, 0.95], 5_000, 95_000), rtol=1e-4)


def test_segments_that_are_all_alike_are_pooled_however_many_rows_they_have() -> None:
    for n_rows in (20, 2_000):
        counts = np.random.default_rng(2).binomial(n_rows, 0.3, size=200)
        found = estimate_segments({i: counted(n, n_rows) for i, n in enumerate(counts.tolist())})
        spread = np.std(positives(found)) / np.std(counts / n_rows)
        assert spread < 0.35
        assert found.mean[1] == pytest.approx(counts.mean() / n_rows, rel=0.02)


def test_a_segment_without_rows_gets_the_estimate_of_the_others() -> None:
    evidence = evidence_of(np.array([0.1, 0.12, 0.08]), 100, seed=3)
    found = estimate_segments({**evidence, "new": BinaryEvidence.empty()})
    assert "new" not in found.alone
    low, high = found["new"].interval[1]
    assert low < 0.1 < high
    assert high - low > found[1].interval[1] @ [-1.0, 1.0]
    assert found["new"].prior[1] == pytest.approx(found.mean[1], abs=0.01)


def test_what_a_segment_says_alone_is_its_likelihood_estimate() -> None:
    evidence = evidence_of(np.array([0.05, 0.3, 0.6]), 400, seed=4)
    found = estimate_segments(evidence)
    for name, part in evidence.items():
        exact = part.estimate()
        np.testing.assert_allclose(found.alone[name].prior, exact.prior, atol=1e-4)
        np.testing.assert_allclose(found.alone[name].interval, exact.interval, atol=1e-3)


def test_segments_that_moved_are_named_and_few_others() -> None:
    # 7 of 500 moved, seed 5; at a false discovery rate of .1 one false name is expected
    truth = np.full(500, 0.05)
    moved = np.arange(100, 107)
    truth[moved] = 0.3
    found = estimate_segments(evidence_of(truth, 200, seed=5))
    named = found.deviating()
    assert set(moved.tolist()) <= set(named)
    assert len(named) <= 12  # .8 false names expected, 6 or more with probability 2e-4
    assert found.q_values[named[0]] == min(found.q_values.values())
    none = estimate_segments(evidence_of(np.full(500, 0.05), 200, seed=6))
    assert len(none.deviating()) <= 3  # any at all with probability .1
    beside_a_giant = estimate_segments({**evidence_of(np.full(60, 0.05), 200, seed=7), "giant": counted(9_000, 30_000)})
    assert beside_a_giant.deviating()[0] == "giant"
    assert len(beside_a_giant.deviating()) <= 4


def test_the_report_shows_each_segment_and_what_they_have_in_common() -> None:
    found = estimate_segments(evidence_of(np.array([0.05, 0.6]), 300, seed=8))
    text = str(found)
    assert "Prevalence of 2 segments" in text
    assert "by its own rows" in text
    assert text.count("yes") == 1 + (len(found.deviating()) == 2)
    assert "<td>yes</td>" in found._repr_html_()


def test_no_rows_at_all_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no segment has a row"):
        estimate_segments({"a": BinaryEvidence.empty()})


def test_by_takes_names_of_rows_and_says_what_is_wrong_with_them() -> None:
    model = obil.RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    rows = [[-1.0]] * 4 + [[1.0]] * 4
    found = obil.estimate_prior(model, rows, by=["a", "b"] * 4)
    assert list(found) == ["a", "b"]
    assert found["a"].n_rows == 4
    assert found["a"].classes == (0, 1)
    for names in (
        pd.Series(list("ab") * 4, index=range(5, 13)),
        pd.Categorical(list("ab") * 4),
        np.array(["a", "b"] * 4),
    ):
        assert list(obil.estimate_prior(model, rows, by=names)) == ["a", "b"]
    days = pd.Series(pd.to_datetime(["2024-05-01", "2024-05-02"] * 4))
    assert list(obil.estimate_prior(model, rows, by=days)) == [pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-02")]
    assert list(obil.estimate_prior(model, rows, by=[2, "b"] * 4)) == [2, "b"]
    with pytest.raises(InvalidInputError, match="each of the 8 rows"):
        obil.estimate_prior(model, rows, by=["a"])
    with pytest.raises(InvalidInputError, match=r"pass the column, by=table\['branch'\]"):
        obil.estimate_prior(model, rows, by="branch")
    for missing in (np.nan, None, pd.NaT):
        with pytest.raises(InvalidInputError, match="row 1 has none"):
            obil.estimate_prior(model, rows, by=["a", missing] * 4)


TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [1.5, 0.0], [1.5, 1.2]]), np.eye(2))  # the last two overlap


def rows_of(priors: FloatArray, n_rows: int, *, seed: int) -> dict[Hashable, WeightedRows]:
    """Return the evidence of segments of three classes with these priors, (S, 3), by exact ratios."""
    found: dict[Hashable, WeightedRows] = {}
    for name, prior in enumerate(priors):
        ratios = TRIANGLE.draw(np.tile(prior, (n_rows, 1)), random_state=[seed, name]).log_ratios
        found[name] = WeightedRows(ratios, np.ones(n_rows), n_rows)
    return found


def test_segments_of_three_classes_learn_from_each_other_and_intervals_cover() -> None:
    # 4 x 150 segments x 60 rows; the coverage of a class has a standard error of about .02
    errors, covered = [], []
    for seed in range(4):
        truth = np.random.default_rng(seed).dirichlet([14.0, 4.0, 2.0], size=150)
        found = estimate_segments(rows_of(truth, 60, seed=seed))
        estimates = np.array([found[name].prior for name in found])
        alone = np.array([found.alone[name].prior for name in found])
        np.testing.assert_allclose(estimates.sum(axis=1), 1.0, rtol=1e-12)
        errors.append([np.abs(own - truth).mean() for own in (estimates, alone, found.common.prior)])
        ends = np.array([found[name].interval for name in found])
        covered.append(((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(axis=0))
        assert 8 < found.size < 80  # 20 in truth
        np.testing.assert_allclose(found.mean, [0.7, 0.2, 0.1], atol=0.04)
    error, error_alone, error_pooled = np.mean(errors, axis=0)
    assert error < 0.8 * error_alone
    assert error < 0.9 * error_pooled
    assert (np.mean(covered, axis=0) > 0.83).all()  # three standard errors below .9
    assert (np.mean(covered, axis=0) < 0.97).all()


def test_segments_that_are_all_alike_are_pooled_where_classes_overlap() -> None:
    # classes .6 standard deviations apart; one round gives 1.35 times the error of pooled rows here, full steps 1.39
    classes, truth = GaussianClasses(np.array([[0.0, 0.0], [2.5, 0.0], [2.5, 0.6]]), np.eye(2)), []
    found, rng = {}, np.random.default_rng(1)
    for name in range(200):
        truth.append(rng.dirichlet([1_400.0, 400.0, 200.0]))
        rows = classes.draw(np.tile(truth[-1], (500, 1)), random_state=name).log_ratios
        found[name] = WeightedRows(rows, np.ones(500), 500)
    learned = estimate_segments(found)
    error = np.abs(np.array([learned[name].prior for name in learned]) - truth).mean()
    assert error < 1.1 * np.abs(learned.common.prior - truth).mean()


def test_two_classes_are_three_of_which_one_never_comes() -> None:
    truth = np.random.default_rng(0).beta(4.0, 36.0, size=60)
    rng, two, three = np.random.default_rng(1), {}, {}
    for name, prior in enumerate(truth.tolist()):
        ratios = 2.0 * (rng.standard_normal(100) + 2.0 * (rng.random(100) < prior)) - 2.0
        two[name] = WeightedRows(np.stack([np.zeros(100), ratios], axis=1), np.ones(100), 100)
        three[name] = WeightedRows(np.stack([np.zeros(100), ratios, np.full(100, -60.0)], axis=1), np.ones(100), 100)
    pair, triple = estimate_segments(two), estimate_segments(three)
    assert max(triple[name].prior[2] for name in triple) < 1e-3
    for name in pair:
        np.testing.assert_allclose(triple[name].prior[:2], pair[name].prior, atol=2e-3)
        np.testing.assert_allclose(triple[name].interval[1], pair[name].interval[1], atol=3e-3)


def test_segments_of_three_classes_that_moved_are_named_and_few_others() -> None:
    truth = np.tile([0.8, 0.15, 0.05], (200, 1))
    truth[:5] = [0.5, 0.15, 0.35]
    named = estimate_segments(rows_of(truth, 300, seed=3)).deviating()
    assert set(range(5)) <= set(named)
    assert len(named) <= 10  # .6 false names expected, 6 or more with probability 4e-5
    assert len(estimate_segments(rows_of(truth[5:], 300, seed=4)).deviating()) <= 3  # any at all with probability .1


def test_the_report_of_three_classes_shows_each_of_them() -> None:
    text = str(estimate_segments(rows_of(np.tile([0.5, 0.3, 0.2], (2, 1)), 80, seed=5)))
    assert text.count("by its own rows") == 3
    assert "The mean of the segments, 0." in text


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.01])
def test_segments_that_differ_by_less_than_the_grid_shows_are_pooled_on_a_finer_one(spread: float) -> None:
    # 60 segments of a million rows, whose standard error in the logit is .0046; seeds 0 ... 5
    error, alone, covered = [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = expit(logit(0.05) + spread * rng.standard_normal(60))
        counts = rng.binomial(1_000_000, truth)
        found = estimate_segments({name: counted(int(n), 1_000_000) for name, n in enumerate(counts)})
        error.append(np.abs(positives(found) - truth).mean())
        alone.append(np.abs(counts / 1e6 - truth).mean())
        ends = np.array([found[name].interval[1] for name in found])
        covered.append(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
    ratio = np.mean(error) / np.mean(alone)
    limits = {0.0: 0.3, 0.001: 0.4, 0.01: 0.95}
    assert ratio < limits[spread]  # 1 where the grid shows no difference below .02
    assert np.mean(covered) > 0.87
