"""The calibrator's uncertainty reaches the prior, also where one class is rare."""

import numpy as np
import pytest

from obil.arrays import as_prior
from obil.calibration.linear import fit_linear
from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.holdout import Holdout
from obil.trackers import calibration_spread
from obil.trackers.calibration_spread import calibration_variance, thinned_rows, widen


def test_a_rare_class_is_kept_whole_and_a_common_one_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_spread, "MOST_ROWS", 1_000)
    labels = np.repeat([0, 1], [50_000, 60])
    kept = np.bincount(labels[thinned_rows(labels, n_classes=2)])
    assert kept[1] == 60
    assert 1_000 <= kept[0] < 2_000


def test_thinning_the_common_class_leaves_the_variance_about_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [400_000, 400])
    features = rng.standard_normal(labels.size) + 2.5 * labels
    ratios = GaussianClasses.pair(2.5).log_ratios(features[:, None])
    calibrator = fit_linear(ratios, labels, np.ones(labels.size))
    holdout = Holdout.of(calibrator.apply(ratios), labels)
    thinned = calibration_variance(calibrator, holdout, as_prior(0.001))[1]
    monkeypatch.setattr(calibration_spread, "MOST_ROWS", 10**9)
    whole = calibration_variance(calibrator, holdout, as_prior(0.001))[1]
    assert whole > 0.001
    assert thinned == pytest.approx(whole, rel=0.15)


def test_a_variance_widens_both_sides_in_the_logit_and_none_leaves_them() -> None:
    prior, interval = as_prior(0.1), np.array([[0.85, 0.93], [0.07, 0.15]])
    np.testing.assert_allclose(widen(prior, interval, np.zeros(2), level=0.9), interval)
    wider = widen(prior, interval, np.full(2, 0.04), level=0.9)
    assert (wider[:, 0] < interval[:, 0]).all()
    assert (wider[:, 1] > interval[:, 1]).all()
