"""The bins: every row has one, held-out rows fill them, and wild scores take none."""

import numpy as np
import pytest

from obil.monitor.score_bins import ScoreBins, effective_counts, target_bins
from obil.serving.holdout import Holdout
from tests.monitor.cases import held_out


def test_two_classes_give_intervals_of_the_log_ratio_in_order() -> None:
    bins = ScoreBins.of(held_out(np.random.default_rng(0)))
    assert bins.n_bins == 8
    scores = np.linspace(-30.0, 30.0, 5_000)
    numbers = bins.numbers(np.stack([np.zeros(5_000), scores], axis=1))
    assert set(np.diff(numbers).tolist()) == {0, 1}
    assert numbers[0] == 0
    assert numbers[-1] == 7


def test_the_bins_do_not_depend_on_an_affine_calibration() -> None:
    rows = held_out(np.random.default_rng(1))
    other = Holdout.of(rows.log_ratios * 1.7 + [0.0, 5.0], rows.labels)
    np.testing.assert_array_equal(
        ScoreBins.of(rows).numbers(rows.log_ratios), ScoreBins.of(other).numbers(other.log_ratios)
    )


@pytest.mark.parametrize(("smallest", "n_classes", "target"), [(1, 2, 4), (200, 2, 8), (10**6, 2, 16), (150, 3, 10)])
def test_the_smallest_class_says_how_many_bins(smallest: int, n_classes: int, target: int) -> None:
    counts = np.full(n_classes, 5_000.0 + smallest)
    counts[-1] = smallest
    assert target_bins(counts) == target


def test_a_few_wild_scores_take_no_bin() -> None:
    rows = held_out(np.random.default_rng(2))
    wild = rows.log_ratios.copy()
    wild[[0, -1], 1] = [-1e300, 1e300]
    calm = ScoreBins.of(rows).numbers(rows.log_ratios[1:-1])
    assert (ScoreBins.of(Holdout.of(wild, rows.labels)).numbers(rows.log_ratios[1:-1]) == calm).mean() > 0.98


def test_equal_scores_make_one_bin_and_two_scores_two() -> None:
    one = ScoreBins.of(Holdout.of(np.zeros((6, 3)), [0, 0, 1, 1, 2, 2]))
    assert one.n_bins == 1
    two = ScoreBins.of(Holdout.of([[0.0, 0.1], [0.0, 0.3]] * 30, [0, 1] * 30))
    assert two.n_bins == 2
    np.testing.assert_array_equal(two.numbers(np.array([[0.0, 0.1], [0.0, 0.3]])), [0, 1])


def test_huge_log_ratios_have_a_bin() -> None:
    bins = ScoreBins.of(held_out(np.random.default_rng(3), (300, 200, 200)))
    huge = np.array([[0.0, 1.7e308, 1.7e308], [0.0, -1.7e308, 1.7e308], [0.0, -1.7e308, -1.7e308], [0.0, 5e-324, 0.0]])
    numbers = bins.numbers(huge)
    assert ((numbers >= 0) & (numbers < bins.n_bins)).all()
    assert bins.centres[numbers[2]].argmax() == 0


def test_weights_count_as_rows_and_rows_without_weight_not_at_all() -> None:
    rng = np.random.default_rng(4)
    rows = held_out(rng, (400, 100))
    assert effective_counts(rows).tolist() == [400.0, 100.0]
    scaled = Holdout.of(rows.log_ratios, rows.labels, np.full(500, 1e-200))
    np.testing.assert_allclose(effective_counts(scaled), [400.0, 100.0])
    halved = Holdout.of(rows.log_ratios, rows.labels, (rng.random(500) < 0.5) * 3.0)
    kept = halved.weights > 0.0
    only = Holdout.of(rows.log_ratios[kept], rows.labels[kept])
    np.testing.assert_allclose(effective_counts(halved), only.counts)
    np.testing.assert_allclose(ScoreBins.of(halved).centres, ScoreBins.of(only).centres)


@pytest.mark.parametrize("counts", [(2_000, 200), (300, 60), (400, 80, 60)])
def test_every_bin_holds_at_least_ten_held_out_rows(counts: tuple[int, ...]) -> None:
    """Heavy tails: without it some of these holdouts leave a bin of one to nine rows at an end."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = held_out(rng, counts)
        wild = Holdout.of(rows.log_ratios * rng.standard_t(2.0, len(rows.labels))[:, None], rows.labels)
        held = np.bincount(ScoreBins.of(wild).numbers(wild.log_ratios))
        assert held.min() >= 10
