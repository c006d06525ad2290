"""What one pass over rows finds, and how the parts of it add up."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.trackers.pass_search import estimate_by_passes, estimate_from_rows
from obil.trackers.passes import SMALLEST_PRIOR, PassEvidence
from tests.trackers.five_classes import rows_of


def test_passes_over_parts_of_the_rows_add_up_to_a_pass_over_all() -> None:
    rows = rows_of([0.2] * 5, 300, seed=2)
    prior = [0.4, 0.3, 0.1, 0.1, 0.1]
    whole = PassEvidence.of(rows, prior)
    first, second, third = (PassEvidence.of(part, prior) for part in np.split(rows, [10, 250]))
    parts = first + second + third
    assert parts.n_rows == whole.n_rows == 300
    assert parts.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(parts.gradient, whole.gradient, rtol=1e-12)
    np.testing.assert_allclose(parts.curvature, whole.curvature, rtol=1e-12)
    np.testing.assert_allclose(parts.next_prior(), whole.next_prior(), atol=1e-12)

    def two_machines(at: FloatArray) -> PassEvidence:
        return PassEvidence.of(rows[:120], at) + PassEvidence.of(rows[120:], at)

    found = estimate_by_passes(two_machines, [0.6, 0.1, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(found.prior, estimate_from_rows(rows).prior, atol=1e-6)


def test_the_gradient_and_curvature_are_those_of_the_log_likelihood() -> None:
    rows, at, step = rows_of([0.2] * 5, 50, seed=3), np.array([0.3, 0.2, 0.2, 0.2, 0.1]), 1e-6
    evidence = PassEvidence.of(rows, at)

    def log_likelihood(prior: FloatArray) -> float:
        return float(np.log(np.exp(rows) @ prior).sum())

    scaled = float(rows.max(axis=1).sum())  # each row's largest ratio counts as 1
    assert evidence.log_likelihood == pytest.approx(log_likelihood(at) - scaled, rel=1e-12)
    for k in range(5):
        move = step * np.eye(5)[k]
        slope = (log_likelihood(at + move) - log_likelihood(at - move)) / (2.0 * step)
        assert evidence.gradient[k] == pytest.approx(slope, rel=1e-6)
    scaled = np.exp(rows) / (np.exp(rows) @ at)[:, None]
    np.testing.assert_allclose(evidence.curvature, np.einsum("ni,nj->ij", scaled, scaled), rtol=1e-10)


def test_an_em_step_never_lowers_the_likelihood() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = rng.normal(scale=3.0, size=(30, 4))
        rows[:, 0] = 0.0
        evidence = PassEvidence.of(rows, rng.dirichlet(np.ones(4)) * 0.99 + 0.0025)
        after = PassEvidence.of(rows, evidence.em_prior())
        assert after.log_likelihood >= evidence.log_likelihood - 1e-9


def test_evidence_at_different_priors_is_refused() -> None:
    rows = rows_of([0.2] * 5, 10, seed=8)
    one = PassEvidence.of(rows, [0.2] * 5)
    other = PassEvidence.of(rows, [0.3, 0.2, 0.2, 0.2, 0.1])
    with pytest.raises(InvalidInputError, match="same prior"):
        one + other
    with pytest.raises(TypeError):
        one + 1


def test_the_quadratic_model_is_maximised_alike_in_blocks_and_step_by_step() -> None:
    rng = np.random.default_rng(9)
    ended = 0
    for _ in range(200):
        n_classes = int(rng.integers(2, 9))
        rows = rng.normal(scale=rng.choice([0.3, 2.0]), size=(60, n_classes))
        at = np.maximum(rng.dirichlet(np.full(n_classes, 0.3)), SMALLEST_PRIOR)
        evidence = PassEvidence.of(rows - rows[:, :1], at / at.sum())
        in_blocks, by_steps = evidence._best_by_blocks(), evidence._best_by_steps()
        assert by_steps.sum() == pytest.approx(1.0)
        assert by_steps.min() >= SMALLEST_PRIOR - 1e-12
        if in_blocks is not None:
            ended += 1
            np.testing.assert_allclose(by_steps, in_blocks, atol=1e-7)
    assert ended > 150
