"""Streams come at the ratio asked for and replay by seed; thinning removes only what it must."""

from typing import Any

import numpy as np
import pytest

from obil.datasets.shift_protocol import shifted_streams, thinned_rows
from obil.errors import InvalidInputError

LABELS = np.repeat([0, 1], [4_200, 100])


def test_each_factor_is_drawn_five_times_at_its_ratio() -> None:
    streams = list(shifted_streams(LABELS, train_prior=1 / 43, random_state=0))
    assert [(s.factor, s.draw) for s in streams] == [(f, d) for f in (0.25, 0.5, 1.0, 2.0, 4.0) for d in range(5)]
    for stream in streams:
        assert stream.rows.shape == (20_000,)
        assert (1.0 - stream.prior) / stream.prior == pytest.approx(42.0 * stream.factor)
        deviation = np.sqrt(stream.prior * (1.0 - stream.prior) / 20_000)
        assert LABELS[stream.rows].mean() == pytest.approx(stream.prior, abs=4.5 * deviation)  # fails 1 in 6,000


def test_every_held_out_row_of_a_class_is_equally_likely() -> None:
    (stream,) = shifted_streams([0, 0, 1, 1], train_prior=0.5, factors=[1.0], n_draws=1, n_rows=40_000, random_state=3)
    counts = np.bincount(stream.rows, minlength=4)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(40_000 * 0.25 * 0.75)


def test_a_stream_depends_on_its_seed_factor_and_draw_alone() -> None:
    every = {(s.factor, s.draw): s.rows for s in shifted_streams(LABELS, train_prior=0.02, n_rows=500, random_state=7)}
    (_, _, third) = shifted_streams(LABELS, train_prior=0.02, factors=[2.0], n_draws=3, n_rows=500, random_state=7)
    np.testing.assert_array_equal(third.rows, every[2.0, 2])
    assert len({rows.tobytes() for rows in every.values()}) == 25
    (other,) = shifted_streams(LABELS, train_prior=0.02, factors=[2.0], n_draws=1, n_rows=500, random_state=8)
    assert other.rows.tolist() != every[2.0, 0].tolist()


@pytest.mark.parametrize(
    ("target", "counts"), [(42.0, [4_200, 100]), (168.0, [4_200, 25]), (10.5, [1_050, 100]), (42.0001, [4_200, 100])]
)
def test_thinning_removes_rows_of_one_class_only(target: float, counts: list[int]) -> None:
    rows = thinned_rows(LABELS, target_ratio=target, random_state=0)
    assert np.bincount(LABELS[rows]).tolist() == counts
    assert (np.diff(rows) > 0).all()


def test_thinning_replays_by_seed() -> None:
    first, again, other = (thinned_rows(LABELS, target_ratio=84.0, random_state=seed).tolist() for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"labels": [0, 0]}, "each class needs a row to draw from"),
        ({"labels": [0, 1, 2]}, r"labels must lie in 0 \.\.\. 1"),
        ({"train_prior": 0.0}, "prior must be a probability"),
        ({"factors": [0.0]}, "positive and finite"),
        ({"factors": [float("inf")]}, "positive and finite"),
        ({"n_rows": 0}, "must be positive"),
    ],
)
def test_a_broken_rule_is_stated_before_the_first_stream(change: dict[str, Any], rule: str) -> None:
    arguments: dict[str, Any] = {"labels": [0, 1], "train_prior": 0.5, "random_state": 0} | change
    with pytest.raises(InvalidInputError, match=rule):
        shifted_streams(arguments.pop("labels"), **arguments)


@pytest.mark.parametrize("target", [0.0, float("nan"), 1e9])
def test_a_ratio_that_leaves_no_row_is_refused(target: float) -> None:
    with pytest.raises(InvalidInputError, match="target_ratio must"):
        thinned_rows(LABELS, target_ratio=target, random_state=0)
