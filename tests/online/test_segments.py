"""Segments that learn from each other: error, coverage, extremes, and false discoveries."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.special import betaln, expit
from scipy.stats import beta, false_discovery_control

import obil
from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.online.common_level import CommonLevel
from obil.online.segments import (
    SegmentEstimates,
    _log_likelihoods,
    _on_grid,
    _on_local_grid,
    _q_values,
    estimate_segments,
)
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
        assert found.mean == pytest.approx(0.1, abs=0.03)
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
    level = CommonLevel(np.array([3.0]), np.array([7.0]), np.ones(1), np.ones(1))
    logs = _log_likelihoods([counted(count, 20) for count in counts.tolist()])
    means, ends = _on_grid(logs, level, [0.05, 0.95])
    np.testing.assert_allclose(means, (3.0 + counts) / 30.0, rtol=1e-6)
    exact = beta.ppf([0.05, 0.95], 3.0 + counts[:, None], 27.0 - counts[:, None])
    np.testing.assert_allclose(ends, exact, atol=5e-4)


def test_many_rows_give_the_posterior_of_counts_on_a_grid_of_their_own() -> None:
    part, level = counted(4_500, 90_000), CommonLevel(np.array([500.0]), np.array([9_500.0]), np.ones(1), np.ones(1))
    mean, ends = _on_local_grid(part, part.estimate(), level, [0.05, 0.95])
    assert mean == pytest.approx(5_000 / 100_000, rel=1e-5)
    np.testing.assert_allclose(ends, beta.ppf([0.05, 0.95], 5_000, 95_000), rtol=1e-4)


def test_segments_that_are_all_alike_are_pooled_however_many_rows_they_have() -> None:
    for n_rows in (20, 2_000):
        counts = np.random.default_rng(2).binomial(n_rows, 0.3, size=200)
        found = estimate_segments({i: counted(n, n_rows) for i, n in enumerate(counts.tolist())})
        spread = np.std(positives(found)) / np.std(counts / n_rows)
        assert spread < 0.35
        assert found.mean == pytest.approx(counts.mean() / n_rows, rel=0.02)


def test_a_segment_without_rows_gets_the_estimate_of_the_others() -> None:
    evidence = evidence_of(np.array([0.1, 0.12, 0.08]), 100, seed=3)
    found = estimate_segments({**evidence, "new": BinaryEvidence.empty()})
    assert "new" not in found.alone
    low, high = found["new"].interval[1]
    assert low < 0.1 < high
    assert high - low > found[1].interval[1] @ [-1.0, 1.0]
    assert found["new"].prior[1] == pytest.approx(found.mean, abs=0.01)


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


def test_the_false_discovery_rates_are_scipys() -> None:
    p_values = np.random.default_rng(7).random(50) ** 2
    np.testing.assert_allclose(_q_values(p_values), false_discovery_control(p_values), rtol=1e-12)


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
    many = obil.RatioClassifier.from_scores(np.eye(3).repeat(20, axis=0), np.repeat([0, 1, 2], 20), kind="probability")
    with pytest.raises(InvalidInputError, match="with two classes, the model has 3"):
        obil.estimate_prior(many, np.eye(3), by=["a", "b", "c"])
