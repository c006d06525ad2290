"""The measures behind the reliability page: a temperature, a kernel density and an agreement that can be checked."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import reliability, reliability_page
from experiments.plots import style
from experiments.safety import exact_model
from experiments.temperature import TemperatureScaling, fitted_temperature, paper_calibrations
from obil.calibration.calibrate import fit_calibrator
from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.holdout import Holdout


def settings() -> dict[str, Any]:
    config = tomllib.loads(Path(reliability.__file__).with_suffix(".toml").read_text())
    return config["settings"] | config["quick"]


def test_the_temperature_is_the_one_that_was_planted() -> None:
    rng = np.random.default_rng(0)
    log_odds = 2.0 * rng.standard_normal(40_000) - 1.0
    labels = (rng.random(40_000) < expit(log_odds)).astype(np.int64)
    found = fitted_temperature(3.0 * log_odds, labels, np.ones(len(labels)))
    assert found == pytest.approx(3.0, rel=0.03)  # sd of it: .7 %


def test_temperature_divides_the_logit_at_the_training_prior_and_not_the_ratio() -> None:
    """Planted: logits at the training prior that are three times too large."""
    stream = GaussianClasses.pair(2.5).draw(np.full(40_000, 0.05), random_state=0)
    model = exact_model(stream.log_ratios, stream.labels, np.empty((len(stream.labels), 0, 2)))
    odds = float(logit(model.prior_[1]))
    wrong = np.insert(3.0 * (stream.log_ratios[:, 1:] + odds) - odds, 0, 0.0, axis=1)
    distorted = replace(model, holdout_=Holdout.of(wrong, stream.labels))
    assert TemperatureScaling.of(distorted).temperature == pytest.approx(3.0, rel=0.05)
    fresh, held_out = wrong[:1_000], stream.log_ratios[:1_000, 1]
    methods = paper_calibrations(distorted, fresh)
    assert np.abs(methods["temperature"][:, 1] - held_out).max() < 0.5
    own = fit_calibrator(wrong, stream.labels, np.ones(len(wrong)), method="temperature").apply(fresh)
    assert np.abs(own[:, 1] - held_out).max() > 1.0  # obil's temperature cannot undo it: the prior odds were stretched


def test_a_kernel_density_comes_near_the_truth_of_normal_classes() -> None:
    classes = GaussianClasses.spread(2.5, n_features=2)
    rows = classes.draw(np.full(3_000, 0.3), random_state=0)
    fresh = classes.draw(np.full(500, 0.5), random_state=1)
    found = reliability.kernel_log_ratios(rows.features, rows.labels, fresh.features, settings(), 0)
    agreed = reliability.agreement(found, fresh.log_ratios, fresh.labels, 10.0)
    assert agreed["correlation"] > 0.95
    assert agreed["rms"] < 1.0


def test_agreement_weighs_the_classes_alike_and_clips_what_is_far_out() -> None:
    reference = np.array([[0.0, -1.0], [0.0, -1.0], [0.0, -1.0], [0.0, 50.0]])
    estimate = reference + np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 7.0]])
    agreed = reliability.agreement(estimate, reference, np.array([0, 0, 0, 1]), 10.0)
    assert agreed["rms"] == pytest.approx(np.sqrt(0.5))  # 1 on the negatives, 0 beyond ten
    constant = reliability.agreement(np.zeros((4, 2)), reference, np.array([0, 0, 0, 1]), 10.0)
    assert constant["correlation"] == 0.0


def test_at_the_rows_own_prior_a_ratio_twice_too_high_hardly_shows() -> None:
    """Why both priors are on the page: the same fault is .01 at prior .02 and eight times as large at 1/2."""
    stream = GaussianClasses.pair(2.5).draw(np.full(20_000, 0.02), random_state=0)
    wrong = stream.log_ratios + np.array([0.0, np.log(2.0)])
    found = reliability._measures(wrong, stream.labels, np.array([0.98, 0.02]), settings())
    assert found["own_ece"] < 0.02
    assert found["ece"] > 0.05
    assert found["offset"] == pytest.approx(-np.log(2.0), abs=0.3)
    assert np.sum(found["own_bins"][0]) == pytest.approx(1.0)
    assert np.sum(found["even_bins"][0]) == pytest.approx(1.0)


def test_a_cell_of_normal_classes_runs_and_becomes_a_page() -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    own = settings() | {"known_rows": 900, "known_prior": 0.1, "networks": [["cross_entropy", "original"]]}
    result = reliability.run({"data": "known", "seed": 0}, own)
    results = [({"data": data, "seed": 0}, result) for data in ("mammography", "known")]
    record = {"figures": reliability.figures(results, own), "series": reliability.series(results, own), "settings": own}
    assert record["figures"]["known/cross_entropy/original/none/correlation"] > 0.7
    assert record["figures"]["known/exact/rms"] == 0.0
    page = reliability_page.table(record["figures"], own)
    assert "| 0.023 |" in page  # the paper's figure stands beside ours
    with style():
        assert set(reliability_page.plots(record)) == {"reliability"}
