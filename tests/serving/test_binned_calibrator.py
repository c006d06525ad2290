"""Bins are calibrated whatever the scores are, bounded by their rows, and know how uncertain they are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from obil.arrays import FloatArray
from obil.bayes.posterior import posterior
from obil.calibration.evidence_map import fit_bins
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError, ModelFileError
from obil.serving.binned_calibrator import BinnedCalibrator, MixedCalibrator, mixed
from obil.serving.calibrators import Calibrator, LinearCalibrator, ScoreMap
from obil.serving.files import load, save
from tests.serving.cases import MODELS, TRIANGLE
from tests.serving.stored import arrays_of, described, rebuilt
from tests.serving.test_records import replaced, tampered


def drawn(n_classes: int, n: int = 6_000, seed: int = 0) -> tuple[FloatArray, Any]:
    """Return exact log ratios of rows of two or three classes, and their labels."""
    if n_classes == 2:
        stream = GaussianClasses.pair(2.0).draw(np.full(n, 0.2), random_state=seed)
    else:
        stream = TRIANGLE.draw(np.tile([0.5, 0.3, 0.2], (n, 1)), random_state=seed)
    return stream.log_ratios, stream.labels


def fitted(n_classes: int, n: int = 6_000, bend: Callable[[FloatArray], FloatArray] = np.asarray) -> Any:
    scores, labels = drawn(n_classes, n)
    return fit_bins(bend(scores), labels, np.ones(n), slope_sd=None), bend(scores), labels


BENDS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "exact": np.asarray,
    "overconfident": lambda scores: 5.0 * scores,
    "shifted": lambda scores: scores + np.arange(scores.shape[1]) * 3.0,
    "saturated": lambda scores: np.tanh(scores / 2.0),
    "cubed": lambda scores: scores**3 / 10.0,
    "meaningless": lambda scores: np.sin(40.0 * scores),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("bend", BENDS)
def test_posteriors_of_a_bin_are_the_frequencies_of_its_held_out_rows(bend: str, n_classes: int) -> None:
    """Whatever the scores are: calibrated by construction, but for one pseudo-row of each class."""
    bins, scores, labels = fitted(n_classes, bend=BENDS[bend])
    counts = np.bincount(labels, minlength=n_classes)
    told = posterior(bins.apply(scores), counts / counts.sum())
    numbers = bins.numbers(scores)
    for number in np.unique(numbers):
        inside = numbers == number
        seen = np.bincount(labels[inside], minlength=n_classes) / inside.sum()
        # a pseudo-row of each of K classes, spread over the bins, moves a frequency by at most K / rows
        assert abs(told[inside][0] - seen).max() < n_classes / inside.sum()
        np.testing.assert_array_equal(told[inside], np.tile(told[inside][0], (inside.sum(), 1)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_mean_ratio_under_class_0_is_one(n_classes: int) -> None:
    """E[p(x|k) / p(x|0) | 0] = 1: the frequencies of each class add up to 1, to rounding."""
    bins, _, _ = fitted(n_classes)
    pooled = (bins.counts / bins.counts.sum(axis=1, keepdims=True)).mean(axis=0)
    frequencies = (bins.counts[0] + pooled) / (bins.counts[0].sum() + 1.0)
    np.testing.assert_allclose(frequencies.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(logsumexp(bins.table, axis=0, b=frequencies[:, None]), 0.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_bins_are_those_of_the_most_probable_class_and_its_lead(n_classes: int) -> None:
    bins, scores, _ = fitted(n_classes, 2_000)
    ratios = bins.base.apply(scores)
    per_class = bins.edges.shape[1] + 1
    for ratio, number in zip(ratios, bins.numbers(scores), strict=True):
        top = int(ratio.argmax())
        lead = ratio[top] - np.delete(ratio, top).max()
        assert number == top * per_class + (bins.edges[top] <= lead).sum()


def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    bins, scores, _ = fitted(3, 500)
    alone = np.concatenate([bins.apply(scores[[i]]) for i in range(len(scores))])
    assert alone.tobytes() == bins.apply(scores).tobytes()
    assert (alone[:, 0] == 0.0).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_no_ratio_is_larger_than_its_rows_support(n_classes: int) -> None:
    """At most K (n + 1), n the larger of the two classes: what one pseudo-row, spread as all rows are, leaves."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        counts = rng.integers(0, 50, (n_classes, n_classes * 4)) * (rng.random((n_classes, n_classes * 4)) < 0.3)
        counts[:, 0] += 1
        bins = BinnedCalibrator(
            LinearCalibrator.identity(n_classes), np.zeros((n_classes, 3)), counts.astype(np.float64)
        )
        used = counts.any(axis=0)
        totals = counts.sum(axis=1)
        bound = np.log(n_classes * (np.maximum(totals, totals[0]) + 1.0))
        assert (abs(bins.table[used]) <= bound).all()


@pytest.mark.parametrize("far", [1e3, 1e9, 1e300])
def test_scores_far_out_are_in_the_outermost_bins(far: float) -> None:
    bins, _, _ = fitted(2)
    wild = bins.apply(np.array([[0.0, -far], [0.0, far]]))
    assert np.isfinite(wild).all()
    per_class = bins.edges.shape[1] + 1
    np.testing.assert_array_equal(wild, bins.table[[per_class - 1, 2 * per_class - 1]])


def test_a_bin_without_any_row_says_nothing() -> None:
    counts = np.array([[5.0, 0.0, 5.0, 10.0], [5.0, 0.0, 15.0, 0.0]])
    bins = BinnedCalibrator(LinearCalibrator.identity(2), np.ones((2, 1)), counts)
    assert np.isfinite(bins.table).all()
    assert abs(bins.table[1, 1]) < 0.1  # the pseudo-rows of both classes count alike


def ratio_of(bins: BinnedCalibrator) -> Callable[[Any], FloatArray]:
    """Return what computes the log ratio of each bin, by one score in each."""
    one_in_each = np.stack([np.zeros(12), np.concatenate([-np.arange(6) - 0.5, np.arange(6) + 0.5])], axis=1)
    assert sorted(bins.numbers(one_in_each)) == list(range(12))
    return lambda other: other.apply(one_in_each)[:, 1]


def even_bins(rows: float) -> BinnedCalibrator:
    """Return six bins for each more probable class, with about this many rows of each class in all."""
    falling = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    fractions = np.concatenate([2.0 * falling, falling[::-1]]) / (3.0 * falling.sum())
    counts = rows * np.stack([fractions, fractions[::-1]])
    return BinnedCalibrator(LinearCalibrator.identity(2), np.tile(np.arange(1.0, 6.0), (2, 1)), counts)


def test_the_variance_of_a_ratio_is_that_of_its_frequencies() -> None:
    """Multinomial: 1 / count - 1 / rows, for both classes. The 24 draws are fixed; the mean over 12 bins to 25 %."""
    bins = even_bins(20_000.0)
    exact = (1.0 / bins.counts - 1.0 / bins.counts.sum(axis=1, keepdims=True)).sum(axis=0)
    found = bins.variance_of(ratio_of(bins))
    order = bins.numbers(np.stack([np.zeros(12), np.concatenate([-np.arange(6) - 0.5, np.arange(6) + 0.5])], axis=1))
    assert np.mean(found / exact[order]) == pytest.approx(1.0, abs=0.25)


def test_the_variance_shrinks_with_the_rows() -> None:
    """As 1 / rows: a hundred times the rows leave a hundredth, to a factor of 1.5 for the fixed draws."""
    few, many = even_bins(2_000.0), even_bins(200_000.0)
    ratio = float(few.variance_of(ratio_of(few)).mean() / many.variance_of(ratio_of(many)).mean())
    assert 100.0 / 1.5 < ratio < 100.0 * 1.5


def test_the_variance_is_the_same_each_time_it_is_asked_for() -> None:
    bins = even_bins(500.0)
    np.testing.assert_array_equal(bins.variance_of(ratio_of(bins)), bins.variance_of(ratio_of(bins)))


def test_a_mixture_averages_the_posteriors_of_its_parts() -> None:
    bins, scores, _ = fitted(3)
    line = LinearCalibrator(np.array([1.0, 0.7, 1.2]), np.array([0.0, 0.3, -0.2]), np.zeros((0, 2, 3)))
    prior = np.array([0.6, 0.3, 0.1])
    mixture = MixedCalibrator(line, bins, prior)
    expected = (posterior(line.apply(scores), prior) + posterior(bins.apply(scores), prior)) / 2.0
    np.testing.assert_allclose(posterior(mixture.apply(scores), prior), expected, rtol=1e-12, atol=1e-15)
    assert mixture.n_classes == 3
    assert (mixture.apply(scores)[:, 0] == 0.0).all()


def test_a_mixture_of_a_map_with_itself_is_that_map() -> None:
    bins, scores, _ = fitted(2)
    ratios = bins.apply(scores)
    np.testing.assert_allclose(mixed(ratios, ratios, np.array([0.9, 0.1])), ratios, rtol=1e-10, atol=1e-12)


def test_a_mixture_lies_between_its_parts_and_stays_finite() -> None:
    first = np.stack([np.zeros(7), [-900.0, -50.0, -1.0, 0.0, 1.0, 50.0, 900.0]], axis=1)
    second = np.stack([np.zeros(7), [2.0, -2.0, 0.5, 0.0, -0.5, 2.0, -2.0]], axis=1)
    both = mixed(first, second, np.array([0.99, 0.01]))
    assert np.isfinite(both).all()
    low, high = np.minimum(first, second), np.maximum(first, second)
    assert ((both >= low - 1e-9) & (both <= high + 1e-9)).all()


def test_the_deviations_of_a_mixtures_parts_add_up() -> None:
    """Both rest on the same rows. A part that is sure of itself adds nothing."""
    bins = even_bins(500.0)
    quantity = ratio_of(bins)
    prior = np.array([0.5, 0.5])
    axes = np.array([[[0.0, 0.1], [0.0, 0.2]]])
    sure = LinearCalibrator.identity(2)
    unsure = replace(sure, axes=axes)
    alone = MixedCalibrator(sure, bins, prior)

    def with_line(other: Any) -> FloatArray:
        return quantity(_Mixture(other, bins, prior))

    def with_bins(other: Any) -> FloatArray:
        return quantity(_Mixture(sure, other, prior))

    np.testing.assert_allclose(alone.variance_of(quantity), bins.variance_of(with_bins), rtol=1e-9)
    expected = (np.sqrt(unsure.variance_of(with_line)) + np.sqrt(bins.variance_of(with_bins))) ** 2
    np.testing.assert_allclose(MixedCalibrator(unsure, bins, prior).variance_of(quantity), expected, rtol=1e-9)


class _Mixture:
    def __init__(self, first: Any, second: Any, prior: FloatArray) -> None:
        self.first, self.second, self.prior = first, second, prior

    def apply(self, scores: FloatArray) -> FloatArray:
        return mixed(self.first.apply(scores), self.second.apply(scores), self.prior)


def test_bins_and_mixtures_give_evidence_but_cannot_be_inverted_and_do_not_decide() -> None:
    bins, _, _ = fitted(2)
    mixture = MixedCalibrator(LinearCalibrator.identity(2), bins, np.array([0.5, 0.5]))
    for score_map in (bins, mixture):
        assert isinstance(score_map, ScoreMap)
        assert not isinstance(score_map, Calibrator)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_bins_and_mixtures_come_back_to_the_last_bit(n_classes: int) -> None:
    bins, scores, _ = fitted(n_classes)
    mixture = MixedCalibrator(bins.base, bins, np.full(n_classes, 1.0 / n_classes))
    for score_map in (bins, mixture):
        again = rebuilt(type(score_map), described(score_map), arrays_of(score_map))
        assert again.apply(scores).tobytes() == score_map.apply(scores).tobytes()

        def mean_ratio(other: Any) -> FloatArray:
            return np.asarray(other.apply(scores).mean(axis=0))

        np.testing.assert_array_equal(again.variance_of(mean_ratio), score_map.variance_of(mean_ratio))


DAMAGED: dict[str, dict[str, Any]] = {
    "fewer bins than edges": {"counts": np.ones((2, 4))},
    "more bins than edges": {"counts": np.ones((2, 16))},
    "edges of another number of classes": {"edges": np.ones((3, 5))},
    "edges in one row": {"edges": np.arange(5.0)},
    "edges that fall": {"edges": -np.tile(np.arange(5.0), (2, 1))},
    "edges that are not numbers": {"edges": np.full((2, 5), np.nan)},
    "counts below zero": {"counts": np.array([[2.0] * 11 + [-1.0], [1.0] * 12])},
    "counts that are not numbers": {"counts": np.full((2, 12), np.nan)},
    "a class without rows": {"counts": np.array([[1.0] * 12, [0.0] * 12])},
    "a base of three classes": {"base": LinearCalibrator.identity(3)},
    "a base that turns the ranking round": {
        "base": replace(LinearCalibrator.identity(2), slopes=np.array([1.0, -1.0]))
    },
    "more counts than memory should hold": {"edges": np.zeros((2, 5_000_000)), "counts": np.ones((2, 10_000_002))},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of the table that is computed before the check
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_bins_are_refused(damage: str) -> None:
    bins = even_bins(100.0)
    bins.require_sound()
    with pytest.raises(InvalidInputError):
        replace(bins, **DAMAGED[damage]).require_sound()


def test_mixtures_of_other_classes_or_at_no_prior_are_refused() -> None:
    bins, line = even_bins(100.0), LinearCalibrator.identity(2)
    MixedCalibrator(line, bins, np.array([0.5, 0.5])).require_sound()
    with pytest.raises(InvalidInputError, match="same classes"):
        MixedCalibrator(LinearCalibrator.identity(3), bins, np.array([0.5, 0.5])).require_sound()
    with pytest.raises(InvalidInputError, match="same classes"):
        MixedCalibrator(line, bins, np.array([0.5, 0.3, 0.2])).require_sound()
    for prior in ([0.5, 0.6], [1.0, 0.0], [0.5, np.nan]):
        with pytest.raises(InvalidInputError):
            MixedCalibrator(line, bins, np.array(prior)).require_sound()


NOT_A_MAP = {"kind": "column", "link": "margin", "training_prior": [0.5, 0.5], "floor": 0.0}
HOSTILE: dict[str, dict[str, Any]] = {
    "counts in one row": {"arrays": replaced(evidence__calibrator__counts=np.ones(8))},
    "counts of three classes": {"arrays": replaced(evidence__calibrator__counts=np.ones((3, 12)))},
    "counts below zero": {"arrays": replaced(evidence__calibrator__counts=np.array([[1.0, 1.0], [2.0, -1.0]]))},
    "edges that are missing": {"arrays": lambda arrays: arrays.pop("evidence.calibrator.edges")},
    "scores of other rows": {"arrays": replaced(evidence__scores=np.zeros((7, 2)))},
    "scores that are not numbers": {"arrays": replaced(evidence__scores=np.full((200, 2), np.nan))},
    "a map that is a scorer": {"manifest": lambda told: told["evidence"].update(calibrator=NOT_A_MAP)},
    "a map that is nothing": {"manifest": lambda told: told["evidence"].update(calibrator=None)},
    "evidence that is a number": {"manifest": lambda told: told.update(evidence=3)},
    "evidence that is missing": {"manifest": lambda told: told.pop("evidence")},
    "a tolerance that is a text": {"manifest": lambda told: told["evidence"].update(tolerance="none")},
    "a tolerance below zero": {"manifest": lambda told: told["evidence"].update(tolerance=-1.0)},
    "a tolerance that allows for anything": {"manifest": lambda told: told["evidence"].update(tolerance=99.0)},
    "a tolerance that is not a number": {"manifest": lambda told: told["evidence"].update(tolerance=float("nan"))},
    "a choice that is a number": {"manifest": lambda told: told["evidence"].update(choice=3)},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of the table that is computed before the check
@pytest.mark.parametrize("change", HOSTILE)
def test_a_folder_with_damaged_evidence_is_refused(change: str, tmp_path: Path) -> None:
    save(MODELS["bins"](), tmp_path / "model")
    tampered(tmp_path / "model", **HOSTILE[change])
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


def test_bins_that_decide_are_refused(tmp_path: Path) -> None:
    """Decisions are by a monotone map; bins would give many rows one score."""
    bins = even_bins(100.0)
    save(replace(MODELS["bins"](), calibrator=bins), tmp_path / "model")
    with pytest.raises(ModelFileError, match="Calibrator"):
        load(tmp_path / "model")
