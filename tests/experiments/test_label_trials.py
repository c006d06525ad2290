"""The trial's mixture is the tracker's, its inputs are what they are called, and its figures are those of the page."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from scipy.special import expit

from experiments import label_trials
from experiments.label_inputs import encoded, fitted, leading, season, segments
from experiments.label_mixture import Unlabelled, posteriors_with
from experiments.wild import _with_labels
from experiments.wild_streams import Deployed
from obil.datasets.named_set import NamedSet
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.trackers import BayesBank, SafeTracker

FOLDER = Path(label_trials.__file__).parent


def settings_of(*, quick: bool) -> dict[str, Any]:
    config = tomllib.loads((FOLDER / "label_trials.toml").read_text())
    return config["settings"] | (config["quick"] if quick else {})


@pytest.mark.parametrize(("delay", "tolerance"), [(0, 1e-9), (100, 0.02)])
def test_without_more_experts_the_mixture_is_the_trackers(delay: int, tolerance: float) -> None:
    """At once it is the same; of late labels the tracker remembers what its advice was some rows before."""
    rng = np.random.default_rng(0)
    labels = (rng.random(3_000) < np.where(np.arange(3_000) < 1_500, 0.1, 0.4)).astype(np.int64)
    scores = rng.normal(size=3_000) + 2.0 * labels
    classifier = RatioClassifier.from_scores(2.0 * scores - 2.0, labels, kind="margin")
    log_ratios = classifier.log_ratios(2.0 * scores - 2.0)
    deployed = Deployed(classifier, log_ratios, log_ratios[:, None], scores[:, None], labels, scores, labels)
    asked = np.flatnonzero(rng.random(3_000) < 0.1)
    start = classifier.prior_
    rows = Unlabelled(
        log_ratios[:, 1],
        SafeTracker.for_model(classifier.model_).start(start).update_many(log_ratios)[:, 1],
        BayesBank(start).path(log_ratios)[:-1, 1],
        float(start[1]),
    )
    found = posteriors_with(rows, np.empty((3_000, 0)), labels, asked, delay, memories=[], weight=0.005, input_sd=0.3)
    known = _with_labels(OnlineClassifier(classifier), deployed, asked, 0.1, delay)
    np.testing.assert_allclose(found, known, atol=tolerance)


def test_an_expert_that_sees_what_changed_gains_and_one_that_sees_noise_does_no_harm() -> None:
    rng = np.random.default_rng(0)
    feature, other = rng.normal(size=(2, 20_000))
    log_ratios, half = rng.normal(size=20_000), np.full(20_000, 0.5)
    labels = (rng.random(20_000) < expit(log_ratios + feature)).astype(np.int64)
    asked = np.arange(0, 20_000, 20)
    rows = Unlabelled(log_ratios, half, half, 0.5)

    def loss(inputs: Any, memories: list[float]) -> float:
        found = posteriors_with(rows, inputs, labels, asked, 500, memories=memories, weight=0.005, input_sd=0.3)
        return float(-np.log(np.where(labels == 1, found, 1.0 - found)).mean())

    plain = loss(np.empty((20_000, 0)), [])
    assert loss(feature[:, None], [1_000.0, np.inf]) < 0.92 * plain
    assert loss(other[:, None], [1_000.0, np.inf]) < 1.002 * plain


def test_the_leading_feature_is_the_one_whose_effect_changed() -> None:
    rng = np.random.default_rng(0)
    features, base = rng.normal(size=(8_000, 4)), rng.normal(size=8_000)
    drift = np.where(np.arange(8_000) < 4_000, 0.0, 0.6)
    steady = features[:, 0]  # the held-out scores lack it, as much in both halves
    labels = (rng.random(8_000) < expit(base + steady + drift * features[:, 2])).astype(np.int64)
    assert leading([features[:, [i]] for i in range(4)], base, labels, 1) == [2]
    assert sorted(leading([features[:, [i]] for i in range(4)], base, labels, 9)) == [0, 1, 2, 3]
    theta = fitted(base, features, labels, input_sd=1.0)
    np.testing.assert_allclose(theta, [1.0, 0.0, 1.0, 0.0, 0.3, 0.0], atol=0.12)  # about 4 standard errors


def test_categories_fifths_and_seasons_become_inputs() -> None:
    codes = np.repeat(np.arange(12.0), np.arange(1, 13))
    assert encoded(codes, codes, categorical=True).shape == (78, 10)  # the two rarest have no input
    np.testing.assert_allclose(encoded(codes, codes, categorical=True).mean(axis=0), 0.0, atol=1e-12)
    assert encoded(np.array([np.nan]), codes, categorical=True)[0] == pytest.approx(-np.arange(12, 2, -1) / 78.0)
    assert segments(np.array([0.0, 99.0, np.nan]), np.arange(100.0)).tolist() == [0.0, 4.0, -1.0]
    data = NamedSet("s", None, np.zeros(12), True, None, (), "", "")  # type: ignore[arg-type]
    waves = season(data, [["row", 4]])
    assert waves.shape == (12, 3)  # the second sine is 0 in every row
    np.testing.assert_allclose(waves[:4], waves[4:8], atol=1e-12)


def test_others_choose_for_the_stream_that_is_left_out() -> None:
    settings = {"labels": [[0.05, 500]], "weights": [0.01], "trials": {"x": []}, "most_harm": 1.002, "sets": ["s", "t"],
                "seasons": {}, "input_sd": 0.3}  # fmt: skip
    results: list[Any] = []
    for name, own in (("s", {"default": 0.9, "x": 0.8}), ("t", {"default": 0.9, "x": 1.01})):
        losses = {f"0.05.500.0.01.{trial}": loss for trial, loss in own.items()}
        results += [({"set": name}, {"losses": losses, "hindsight": {"x": 0.5}, "tracker": 0.9})]
        results += [({"set": name, "shuffled": True}, {"losses": losses})]
    found = label_trials.figures(results, settings)
    assert (found["s.left_out.log_loss"], found["t.left_out.log_loss"]) == (0.9, 1.01)  # t is harmed by x, s is not
    assert found["all.0.05.500.0.01.x.mean"] == pytest.approx(np.sqrt(0.8 * 1.01))
    assert found["all.0.05.500.0.01.x.most_over_default"] == pytest.approx(1.01 / 0.9)
    assert "default at 0.01 for 1, x at 0.01 for 1" in label_trials.table(found, settings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:rows resemble those just before them:UserWarning")
def test_a_short_run_measures_every_trial() -> None:
    settings = settings_of(quick=True) | {"sets": ["online_shoppers"]}
    reason = label_trials.missing(settings)
    if reason is not None:
        pytest.skip(reason)
    cells = label_trials.cells(settings)
    results = [(cell, json.loads(json.dumps(label_trials.run(cell, settings)))) for cell in cells]
    found = label_trials.figures(results, settings)
    # the plain replay has the nine experts without inputs; the tracker has one with them, too, which gains here
    nine, tracker = found["online_shoppers.0.05.500.0.005.default"], found["online_shoppers.tracker"]
    assert 0.95 * nine < tracker < 0.99 * nine
    assert all(f"all.0.05.500.0.02.{trial}.mean" in found for trial in settings["trials"])
