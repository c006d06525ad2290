"""The errors of the past count where a tracked prior went too far, in the order of the rows, and beyond chance."""

import numpy as np
import pytest

from obil.arrays import FloatArray, IntArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.trackers.held_out_error import MOST_ROWS, held_out_error, overshoot
from obil.trackers.view_reference import ERRORS_ALLOWED, NOT_KNOWN, ViewReference
from tests.trackers.test_view_guard import HALVES, gaussian_view_reference

START = np.array([0.7, 0.3])


def arc(prior: float) -> float:
    return float(np.arcsin(np.sqrt(prior)))


@pytest.mark.parametrize(
    ("tracked", "true", "error"),
    [
        (0.3, 0.6, 0.0),  # it has not moved yet
        (0.5, 0.6, 0.0),  # it has moved a part of the distance
        (0.7, 0.6, arc(0.7) - arc(0.6)),
        (0.5, 0.3, arc(0.5) - arc(0.3)),
        (0.5, 0.1, arc(0.5) - arc(0.3)),  # in the wrong direction: all of the move
        (0.1, 0.2, arc(0.2) - arc(0.1)),
    ],
)
def test_only_a_move_beyond_the_truth_is_an_error(tracked: float, true: float, error: float) -> None:
    found = overshoot(np.full(5, tracked), 0.3, np.full(5, true))
    np.testing.assert_allclose(found, error**2, atol=1e-15)


def waves(n_rows: int) -> IntArray:
    """Return labels of a prior that stays at .3."""
    return (np.random.default_rng(3).random(n_rows) < 0.3).astype(np.int64)


def as_priors(positive: FloatArray) -> FloatArray:
    return np.stack([1.0 - positive, positive], axis=1)[None]  # of one tracker


def test_a_prior_that_follows_the_order_of_the_rows_is_wrong_by_that() -> None:
    labels = waves(8_000)

    def track(rows: IntArray) -> FloatArray:
        in_order = (np.diff(rows) == 1).all()
        return as_priors(np.full(len(rows), 0.6 if in_order else 0.3))

    found = held_out_error(track, labels, START, [1])
    np.testing.assert_allclose(found, [[arc(0.6) - arc(0.3)]], rtol=0.1)  # the local prevalence is noisy


def test_what_random_orders_show_too_is_chance() -> None:
    found = held_out_error(lambda rows: as_priors(np.full(len(rows), 0.6)), waves(8_000), START, [1])
    assert found[0, 0] < 0.03  # the error itself is .3


def test_rows_sorted_by_their_label_have_no_order() -> None:
    seen: list[IntArray] = []

    def track(rows: IntArray) -> FloatArray:
        seen.append(rows)
        return as_priors(np.full(len(rows), 0.3))

    held_out_error(track, np.sort(waves(2_000)), START, [1])
    assert all((np.diff(rows) != 1).any() for rows in seen)


def test_the_last_rows_are_looked_at() -> None:
    seen: list[IntArray] = []

    def track(rows: IntArray) -> FloatArray:
        seen.append(rows)
        return as_priors(np.full(len(rows), 0.3))

    held_out_error(track, waves(MOST_ROWS + 7), START, [1])
    assert (seen[0].min(), seen[0].max(), len(seen[0])) == (7, MOST_ROWS + 6, MOST_ROWS)


def test_errors_of_the_past_are_added_to_the_sensitivity_three_times() -> None:
    known = gaussian_view_reference(GaussianClasses.spread(2.5, n_features=8), HALVES, prior=0.1)
    known.error[:] = [[0.01], [0.02]]
    expected = [np.sqrt(known.sensitivity**2 + (ERRORS_ALLOWED * error) ** 2) for error in (0.01, 0.02)]
    np.testing.assert_allclose(known.shrinkage, expected, rtol=1e-12)


@pytest.mark.parametrize(("error", "fast"), [(0.029, True), (0.031, False), (NOT_KNOWN, False)])
def test_fast_memories_need_a_past_nearly_without_errors(error: float, fast: bool) -> None:
    known = gaussian_view_reference(GaussianClasses.spread(2.5, n_features=8), HALVES, prior=0.1)
    known.error[:] = [[0.0], [error]]
    assert known.may_be_fast(np.array([0.9, 0.1])) == fast
    assert not ViewReference.empty(2).may_be_fast(np.array([0.9, 0.1]))
