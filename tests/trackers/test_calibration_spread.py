"""The uncertainty of the map that evidence is read by reaches the prior, also where one class is rare."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from obil.arrays import FloatArray, IntArray, as_prior
from obil.calibration.evidence_map import fit_bins
from obil.calibration.linear import fit_linear
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.binned_calibrator import BinnedCalibrator
from obil.serving.calibrators import LinearCalibrator
from obil.serving.ratio_model import Evidence
from obil.trackers import calibration_spread
from obil.trackers.calibration_spread import (
    evidence_variance,
    logits_of,
    map_variance,
    thinned_rows,
    widen,
    with_calibration_spread,
)
from obil.trackers.pass_search import estimate_from_rows


def drawn(negatives: int, positives: int, seed: int = 1, *, separation: float = 2.5) -> tuple[FloatArray, IntArray]:
    """Return exact log ratios and labels, with so many rows of each class."""
    labels = np.repeat([0, 1], [negatives, positives])
    features = np.random.default_rng(seed).standard_normal(labels.size) + separation * labels
    return GaussianClasses.pair(separation).log_ratios(features[:, None]), labels


def test_a_rare_class_is_kept_whole_and_a_common_one_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_spread, "MOST_ROWS", 1_000)
    labels = np.repeat([0, 1], [50_000, 60])
    kept = np.bincount(labels[thinned_rows(labels, n_classes=2)])
    assert kept[1] == 60
    assert 1_000 <= kept[0] < 2_000


@pytest.mark.parametrize("kind", ["a line", "bins"])
def test_thinning_the_common_class_leaves_the_variance_about_as_it_is(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios, labels = drawn(400_000, 400)
    weights = np.ones(labels.size)
    score_map = fit_linear(ratios, labels, weights) if kind == "a line" else fit_bins(ratios, labels, weights)
    thinned = map_variance(score_map, ratios, labels, weights, as_prior(0.001))[1]
    monkeypatch.setattr(calibration_spread, "MOST_ROWS", 10**9)
    whole = map_variance(score_map, ratios, labels, weights, as_prior(0.001))[1]
    assert whole > 0.001
    assert thinned == pytest.approx(whole, rel=0.15)


@pytest.mark.parametrize("separation", [1.5, 2.5, 5.0])
def test_rows_of_one_bin_count_together_as_they_count_one_by_one(separation: float) -> None:
    """The variance is that of priors found again from every row, with the frequencies of each bin redrawn.

    Bins without a row of one class have the same log ratio, to rounding, but are not the same bin.
    """
    ratios, labels = drawn(1_500, 500, separation=separation)
    weights = np.ones(labels.size)
    bins, prior = fit_bins(ratios, labels, weights), as_prior(0.25)

    def estimated(moved: Any) -> FloatArray:
        return logits_of(estimate_from_rows(moved.apply(ratios)).prior)

    found = map_variance(bins, ratios, labels, weights, prior)
    np.testing.assert_allclose(found, bins.variance_of(estimated), rtol=1e-3)


def test_the_variance_by_bins_is_how_far_priors_scatter_when_the_held_out_rows_are_drawn_anew() -> None:
    """Seeds 0 to 59: the prior of one stream by bins of 60 held-out sets. The sd of a variance is 18 %: to 60 %."""
    stream = GaussianClasses.pair(2.5).draw(np.full(20_000, 0.1), random_state=99)
    found, told = [], []
    for seed in range(60):
        ratios, labels = drawn(1_800, 200, seed)
        weights = np.ones(labels.size)
        bins = fit_bins(ratios, labels, weights, slope_sd=None)
        found.append(logits_of(estimate_from_rows(bins.apply(stream.log_ratios)).prior)[1])
        told.append(map_variance(bins, ratios, labels, weights, as_prior(0.1))[1])
    assert np.mean(told) == pytest.approx(np.var(found, ddof=1), rel=0.6)


def test_a_map_that_is_sure_of_itself_adds_no_variance() -> None:
    ratios, labels = drawn(500, 100)
    variance = map_variance(LinearCalibrator.identity(2), ratios, labels, np.ones(labels.size), as_prior(0.1))
    np.testing.assert_array_equal(variance, 0.0)


def fitted() -> RatioClassifier:
    ratios, labels = drawn(900, 300)
    return RatioClassifier.from_scores(ratios[:, 1], labels, kind="margin", random_state=0)


def test_the_variance_is_that_of_the_map_that_evidence_is_read_by_and_not_of_what_decides() -> None:
    model, prior = fitted().model_, as_prior(float(expit(-2.2)))  # a multiple of .1, to which logits are rounded
    assert model.evidence is not None
    scores, labels, weights = model.evidence.scores, model.holdout_.labels, model.holdout_.weights
    bins = fit_bins(scores, labels, weights)
    in_bins = replace(model, evidence=Evidence(bins, scores))
    assert isinstance(in_bins.evidence_maps[0][0], BinnedCalibrator)
    in_map = map_variance(bins, scores, labels, weights, prior)
    np.testing.assert_allclose(evidence_variance(in_bins, prior), in_map, rtol=1e-9)
    assert evidence_variance(in_bins, as_prior(0.1)) is evidence_variance(in_bins, as_prior(0.101))  # found once
    alone = replace(model, evidence=None)  # what decides is the evidence too
    expected = map_variance(model.calibrator, scores, labels, weights, prior)
    np.testing.assert_allclose(evidence_variance(alone, prior), expected, rtol=1e-6)
    assert not np.allclose(evidence_variance(in_bins, prior), expected, rtol=1e-3)


def test_an_interval_is_widened_by_that_variance_and_none_stays_none() -> None:
    model, prior = fitted().model_, as_prior(0.1)
    interval = np.array([[0.85, 0.93], [0.07, 0.15]])
    assert with_calibration_spread(None, model, prior, 0.9) is None
    expected = widen(prior, interval, evidence_variance(model, prior), level=0.9)
    np.testing.assert_array_equal(with_calibration_spread(interval, model, prior, 0.9), expected)


def test_a_variance_widens_both_sides_in_the_logit_and_none_leaves_them() -> None:
    prior, interval = as_prior(0.1), np.array([[0.85, 0.93], [0.07, 0.15]])
    np.testing.assert_allclose(widen(prior, interval, np.zeros(2), level=0.9), interval)
    wider = widen(prior, interval, np.full(2, 0.04), level=0.9)
    assert (wider[:, 0] < interval[:, 0]).all()
    assert (wider[:, 1] > interval[:, 1]).all()
