"""The difference: it names the region, and whether rows are too many or too few."""

import numpy as np
import pytest

from obil.monitor import LabelShiftMonitor
from tests.monitor.cases import held_out, stream


def test_rows_that_came_from_nowhere_are_named() -> None:
    rng = np.random.default_rng(0)
    monitor = LabelShiftMonitor(held_out(rng))
    rows = stream(rng, np.full(3_000, 0.05))
    rows[rng.random(3_000) < 0.15, 1] = -0.3  # a heap at one score
    monitor.update_many(rows)
    region = monitor.difference().most_telling
    assert region.low is not None
    assert region.high is not None
    assert region.low < -0.3 < region.high
    assert region.excess > 0.05
    assert "more than" in monitor.difference().describe()


def test_missing_rows_are_named() -> None:
    rng = np.random.default_rng(1)
    monitor = LabelShiftMonitor(held_out(rng))
    rows = stream(rng, np.full(4_000, 0.05))
    monitor.update_many(rows[(rows[:, 1] < -3.0) | (rows[:, 1] > -1.5)])
    region = monitor.difference().most_telling
    assert region.log_ratios[1] == pytest.approx(-2.2, abs=0.8)
    assert region.excess < -0.05
    assert "fewer than" in monitor.difference().describe()


def test_a_shift_upwards_shows_too_few_rows_below() -> None:
    rng = np.random.default_rng(2)
    monitor = LabelShiftMonitor(held_out(rng))
    monitor.update_many(stream(rng, np.full(5_000, 0.05), shift=0.7))
    regions = monitor.difference().regions
    assert sum(region.excess for region in regions if region.log_ratios[1] < -3.0) < -0.02


def test_a_stream_that_a_prior_explains_shows_a_negligible_difference() -> None:
    rng = np.random.default_rng(3)
    monitor = LabelShiftMonitor(held_out(rng))
    monitor.update_many(stream(rng, np.full(5_000, 0.3)))
    difference = monitor.difference()
    assert max(abs(region.excess) for region in difference.regions) < 0.02
    for region in difference.regions:
        assert region.least_expected - 0.01 <= region.expected <= region.most_expected + 0.01
        assert 0.0 <= region.least_expected < region.most_expected <= 1.0
    assert sum(region.observed for region in difference.regions) == pytest.approx(1.0)
    assert sum(region.expected for region in difference.regions) == pytest.approx(1.0)
    assert 1_500 < difference.n_rows < 2_200


def test_the_regions_of_two_classes_follow_each_other() -> None:
    regions = LabelShiftMonitor(held_out(np.random.default_rng(4))).difference().regions
    assert regions[0].low == -np.inf
    assert regions[-1].high == np.inf
    assert [region.high for region in regions[:-1]] == [region.low for region in regions[1:]]
    descriptions = [region.describe() for region in regions]
    assert descriptions[0].startswith("a log ratio below")
    assert descriptions[-1].startswith("a log ratio above")


def test_three_classes_are_described_by_their_log_ratios() -> None:
    monitor = LabelShiftMonitor(held_out(np.random.default_rng(5), (2000, 300, 150)))
    assert monitor.difference().describe() == "No rows yet."
    monitor.update_many([[0.0, 3.0, -40.0]] * 500)
    region = monitor.difference().most_telling
    assert len(region.log_ratios) == 3
    assert region.low is None
    assert region.observed == 1.0
    assert "log ratios near (0, " in monitor.difference().describe()


def test_asking_changes_nothing() -> None:
    rng = np.random.default_rng(6)
    monitor = LabelShiftMonitor(held_out(rng))
    monitor.update_many(stream(rng, np.full(333, 0.05)))
    before = monitor.state()
    monitor.difference().describe()
    assert monitor.state() == before
