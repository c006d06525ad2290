"""Segments that learn from each other: error, coverage, extremes, and false discoveries."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit
from scipy.stats import false_discovery_control

import obil
from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.online.segments import (
    GRID,
    SegmentEstimates,
    _beta_densities,
    _log_likelihoods,
    _posteriors,
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


def test_certain_rows_give_the_posterior_of_counts() -> None:
    counts = np.arange(0, 21, 4)
    parts = [BinaryEvidence.of([[0.0, 50.0]] * count + [[0.0, -50.0]] * (20 - count)) for count in counts.tolist()]
    level = _beta_densities(np.array([0.3]), np.array([10.0]))
    found = _posteriors(np.exp(_log_likelihoods(parts)), level, np.ones(1)) @ expit(GRID)
    np.testing.assert_allclose(found, (3.0 + counts) / 30.0, rtol=1e-6)


def test_segments_that_are_all_alike_are_pooled() -> None:
    counts = np.random.default_rng(2).binomial(20, 0.3, size=400)
    found = estimate_segments(
        {i: BinaryEvidence.of([[0.0, 50.0]] * n + [[0.0, -50.0]] * (20 - n)) for i, n in enumerate(counts.tolist())}
    )
    assert found.size > 100.0
    np.testing.assert_allclose(positives(found), 0.3, atol=0.05)
    assert found.mean == pytest.approx(counts.mean() / 20, abs=0.005)


def test_a_segment_of_many_rows_keeps_its_own_estimate_and_one_without_rows_gets_that_of_the_others() -> None:
    evidence = evidence_of(np.array([0.3, 0.1, 0.12, 0.08]), np.array([200_000, 100, 100, 100]), seed=3)
    found = estimate_segments({**evidence, "new": BinaryEvidence.empty()})
    assert found[0].prior[1] == found.alone[0].prior[1] == pytest.approx(0.3, abs=0.01)
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
    assert len(named) <= 10
    assert found.q_values[named[0]] == min(found.q_values.values())
    none = estimate_segments(evidence_of(np.full(500, 0.05), 200, seed=6))
    assert len(none.deviating()) <= 3


def test_the_false_discovery_rates_are_scipys() -> None:
    p_values = np.random.default_rng(7).random(50) ** 2
    np.testing.assert_allclose(_q_values(p_values), false_discovery_control(p_values), rtol=1e-12)


def test_the_report_shows_each_segment_and_what_they_have_in_common() -> None:
    found = estimate_segments(evidence_of(np.array([0.05, 0.6]), 300, seed=8))
    text = str(found)
    assert "Prevalence of 2 segments" in text
    assert "alone" in text
    assert text.count("differs") == 2  # the median lies between them
    assert "<td>differs</td>" in found._repr_html_()


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
    with pytest.raises(InvalidInputError, match="each of the 8 rows"):
        obil.estimate_prior(model, rows, by=["a"])
    with pytest.raises(InvalidInputError, match="missing values"):
        obil.estimate_prior(model, rows, by=[1.0, np.nan] * 4)
    many = obil.RatioClassifier.from_scores(np.eye(3).repeat(20, axis=0), np.repeat([0, 1, 2], 20), kind="probability")
    with pytest.raises(InvalidInputError, match="with two classes, the model has 3"):
        obil.estimate_prior(many, np.eye(3), by=["a", "b", "c"])
