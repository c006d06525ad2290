"""The map that evidence is read by is the one that finds priors best: bins where a line would bend the ratio."""

import re

import numpy as np
import pytest

from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.evidence_map import (
    BINS,
    CALIBRATED,
    FEWEST_ROWS,
    MIXED,
    MOST_BINS,
    ROWS_PER_BIN,
    SHIFTS,
    STREAM_ROWS,
    fit_bins,
    fit_evidence_map,
    prior_error,
)
from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.binned_calibrator import BinnedCalibrator, MixedCalibrator
from obil.serving.calibrators import LinearCalibrator, MonotoneCalibrator, ScoreMap
from obil.serving.holdout import Holdout
from obil.trackers.pass_search import estimate_from_rows
from tests.calibration.rows import three_classes, with_counts


def rows_of(negatives: int, positives: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Return exact log ratios and labels."""
    drawn = with_counts(negatives, positives, seed)
    return drawn.log_ratios, drawn.labels


def kinked(ratios: FloatArray) -> FloatArray:
    """Return scores whose log ratio is steep above 0 and flat below: no line maps them back."""
    return np.where(ratios > 0.0, ratios / 4.0, 2.0 * ratios)


def chosen(scores: FloatArray, labels: IntArray, **settings: object) -> tuple[ScoreMap, str]:
    return fit_evidence_map(scores, labels, np.ones(len(labels)), slope_sd=None, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_bins_are_chosen_where_the_ratio_has_a_kink(seed: int) -> None:
    ratios, labels = rows_of(3_000, 600, seed)
    score_map, choice = chosen(kinked(ratios), labels)
    assert isinstance(score_map, BinnedCalibrator)
    assert choice.startswith(f"{BINS}: ")


@pytest.mark.parametrize("seed", range(4))
def test_a_line_is_chosen_where_it_is_exact_and_rows_are_few(seed: int) -> None:
    ratios, labels = rows_of(540, 60, seed)
    score_map, choice = chosen(ratios, labels)
    assert isinstance(score_map, LinearCalibrator)
    assert choice.startswith(f"{CALIBRATED}: ")


@pytest.mark.parametrize("prior", [0.01, 0.03, 0.05])
def test_what_was_chosen_finds_the_prior_of_a_stream_that_a_line_misses(prior: float) -> None:
    """Seeds 0 to 9, streams of 20,000 rows: the root mean square of the relative error is less than a half of it."""
    errors = np.empty((10, 2))
    for seed in range(10):
        ratios, labels = rows_of(3_000, 600, seed)
        maps = (
            chosen(kinked(ratios), labels)[0],
            fit_calibrator(kinked(ratios), labels, np.ones(len(labels)), slope_sd=None),
        )
        stream = GaussianClasses.pair(2.5).draw(np.full(20_000, prior), random_state=[7, seed]).log_ratios
        found = [estimate_from_rows(each.apply(kinked(stream))).prior[1] for each in maps]
        errors[seed] = np.array(found) / prior - 1.0
    by_choice, by_line = np.sqrt((errors**2).mean(axis=0))
    assert by_choice < by_line / 2.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_choice_names_the_error_of_every_map_and_the_least_is_chosen(n_classes: int) -> None:
    for seed in range(3):
        held_out = with_counts(900, 300, seed) if n_classes == 2 else three_classes(1_500, seed)
        score_map, choice = chosen(held_out.log_ratios, held_out.labels)
        assert f"{STREAM_ROWS:,} rows" in choice
        figures = {name: float(figure) for name, figure in re.findall(r"(\w+) (0\.\d{3})", choice)}
        assert set(figures) == {CALIBRATED, BINS, MIXED}
        name = choice.split(":")[0]
        assert figures[name] == min(figures.values())
        kinds: dict[str, type] = {CALIBRATED: LinearCalibrator, BINS: BinnedCalibrator, MIXED: MixedCalibrator}
        assert type(score_map) is kinds[name]


@pytest.mark.parametrize("positives", [10, FEWEST_ROWS - 1])
def test_too_few_rows_of_a_class_are_said_to_be_too_few_for_bins(positives: int) -> None:
    ratios, labels = rows_of(900, positives, 0)
    score_map, choice = chosen(kinked(ratios), labels)
    assert isinstance(score_map, LinearCalibrator)
    assert choice == f"{CALIBRATED}: {positives} rows of the rarest class are too few for bins"


def test_a_calibrator_that_is_fitted_already_is_not_fitted_again() -> None:
    for positives in (10, 60):
        ratios, labels = rows_of(540, positives, 1)
        fitted = fit_calibrator(ratios, labels, np.ones(len(labels)), slope_sd=None)
        assert chosen(ratios, labels, calibrator=fitted)[0] is fitted


def test_the_kind_of_calibrator_that_is_named_takes_part() -> None:
    maps = [chosen(*rows_of(540, 60, seed), method="isotonic", random_state=0)[0] for seed in range(6)]
    of_kind = [one.first if isinstance(one, MixedCalibrator) else one for one in maps]
    assert any(isinstance(one, MonotoneCalibrator) for one in of_kind)
    assert not any(isinstance(one, LinearCalibrator) for one in of_kind)


def test_a_mixture_is_of_the_calibrator_and_the_bins_at_the_prior_of_the_rows() -> None:
    """Seed 5 of 1,800 and 200 rows is one where the mixture is best."""
    ratios, labels = rows_of(1_800, 200, 5)
    scores = np.where(ratios > 0.0, 4.0 * ratios, ratios / 2.0)
    mixture = chosen(scores, labels)[0]
    assert isinstance(mixture, MixedCalibrator)
    np.testing.assert_allclose(mixture.prior, [0.9, 0.1])
    line = fit_calibrator(scores, labels, np.ones(len(labels)), slope_sd=None)
    np.testing.assert_array_equal(mixture.first.apply(scores), line.apply(scores))
    bins = fit_bins(scores, labels, np.ones(len(labels)), slope_sd=None)
    np.testing.assert_array_equal(mixture.second.apply(scores), bins.apply(scores))


def test_the_same_rows_give_the_same_map() -> None:
    ratios, labels = rows_of(900, 300, 2)
    first, again = (chosen(kinked(ratios), labels) for _ in range(2))
    assert first[1] == again[1]
    assert first[0].apply(ratios).tobytes() == again[0].apply(ratios).tobytes()


def test_weights_on_another_scale_change_nothing_and_rows_without_weight_do_not_count() -> None:
    ratios, labels = rows_of(900, 300, 3)
    score_map, choice = chosen(kinked(ratios), labels)
    scaled = fit_evidence_map(kinked(ratios), labels, np.full(len(labels), 7.0), slope_sd=None)
    assert scaled[1] == choice
    np.testing.assert_allclose(scaled[0].apply(ratios), score_map.apply(ratios), rtol=1e-9)
    weights = np.where(np.arange(len(labels)) % 10 == 0, 0.0, 1.0)
    wild = np.where(weights[:, None] > 0.0, kinked(ratios), [[0.0, 1e3]])
    bins, others = (fit_bins(scores, labels, weights, slope_sd=None) for scores in (wild, kinked(ratios)))
    np.testing.assert_allclose(bins.table, others.table, rtol=1e-9)


# --- the error of a prior ---------------------------------------------------------------------------------------


def test_the_error_of_exact_ratios_is_that_of_the_most_likely_prior_of_streams() -> None:
    """Against 100 streams of 20,000 rows at each shifted prior, seeds fixed: to 10 %."""
    held_out = with_counts(40_000, 8_000, 0)
    logs = []
    for factor in SHIFTS:
        odds = 0.2 * factor
        prior = np.array([1.0, odds]) / (1.0 + odds)
        streams = (
            GaussianClasses.pair(2.5).draw(np.full(STREAM_ROWS, prior[1]), random_state=seed).log_ratios
            for seed in range(100)
        )
        relative = np.array([estimate_from_rows(rows).prior for rows in streams]) / prior - 1.0
        logs.append(np.log((relative**2).mean()) / 2.0)
    assert prior_error(held_out) == pytest.approx(np.exp(np.mean(logs)), rel=0.1)


def test_the_further_a_ratio_is_off_the_larger_is_the_error() -> None:
    held_out = with_counts(40_000, 8_000, 0)

    def moved(offset: float = 0.0, slope: float = 1.0) -> float:
        return prior_error(Holdout(held_out.log_ratios * slope + [0.0, offset], held_out.labels, held_out.weights))

    for sign in (-1.0, 1.0):
        errors = [moved(offset=sign * offset) for offset in (0.0, 0.2, 0.5, 1.0)]
        assert errors == sorted(errors)
        assert errors[-1] > 3.0 * errors[0]
    for slopes in ((1.0, 1.3, 2.0), (1.0, 0.75, 0.5)):
        errors = [moved(slope=slope) for slope in slopes]
        assert errors == sorted(errors)


# --- bins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positives", "n_bins"), [(10, 1), (ROWS_PER_BIN, 1), (2 * ROWS_PER_BIN, 2), (120, 4), (5_000, MOST_BINS)]
)
def test_the_rarest_class_says_how_many_bins_there_are(positives: int, n_bins: int) -> None:
    ratios, labels = rows_of(6_000, positives, 0)
    bins = fit_bins(ratios, labels, np.ones(len(labels)), slope_sd=None)
    assert bins.edges.shape == (2, n_bins - 1)
    assert bins.counts.shape == (2, 2 * n_bins)
    np.testing.assert_array_equal(bins.counts.sum(axis=1), [6_000.0, positives])


def test_bins_of_a_more_probable_class_hold_as_much_of_equally_common_classes() -> None:
    """Each class weighted to 1: the six bins that a class leads have equal weight, to a row."""
    ratios, labels = rows_of(6_000, 600, 1)
    bins = fit_bins(ratios, labels, np.ones(len(labels)), slope_sd=None)
    weight = (bins.counts / bins.counts.sum(axis=1, keepdims=True)).sum(axis=0).reshape(2, MOST_BINS)
    np.testing.assert_allclose(weight, np.tile(weight.mean(axis=1, keepdims=True), MOST_BINS), atol=2.0 / 600)


@pytest.mark.parametrize("n_values", [3, 8, 20])
def test_rounding_does_not_move_repeated_scores_to_another_bin(n_values: int) -> None:
    """Trees give few scores, each many times: an edge lies between two of them, never on one."""
    ratios, labels = rows_of(3_000, 600, 2)
    grid = np.quantile(ratios[:, 1], (np.arange(n_values) + 0.5) / n_values)
    scores = ratios.copy()
    scores[:, 1] = grid[abs(ratios[:, 1:] - grid).argmin(axis=1)]
    bins = fit_bins(scores, labels, np.ones(len(labels)), slope_sd=None)
    for nudge in (1.0 - 1e-12, 1.0 + 1e-12):
        np.testing.assert_array_equal(bins.numbers(scores * nudge), bins.numbers(scores))


def test_a_class_that_is_never_most_probable_has_bins_all_the_same() -> None:
    held_out = three_classes(3_000, 0)
    scores = held_out.log_ratios.copy()
    scores[:, 2] = scores[:, 1] - 1.0  # class 2 is always behind class 1
    bins = fit_bins(scores, held_out.labels, np.ones(3_000))
    assert np.isfinite(bins.apply(scores)).all()
    bins.require_sound()


def test_scores_that_are_all_equal_say_nothing() -> None:
    labels = np.repeat([0, 1], [900, 300])
    score_map, _ = chosen(np.tile([0.0, 2.0], (1_200, 1)), labels)
    np.testing.assert_allclose(score_map.apply(np.array([[0.0, 2.0]])), 0.0, atol=1e-3)
