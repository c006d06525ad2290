"""What the two experiments on safety measure is what their pages say, on cases that can be done by hand."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import safety, wild
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier

FOLDER = Path(wild.__file__).parent


def settings_of(name: str) -> dict[str, Any]:
    config = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    return config["settings"] | config["quick"]


def test_measures_are_log_loss_and_three_costs() -> None:
    measures = wild._measures(np.array([0.9, 0.4, 0.1, 0.2]), np.array([1, 1, 0, 0]))
    assert measures["log_loss"] == pytest.approx(-np.log([0.9, 0.4, 0.9, 0.8]).mean())
    assert measures["cost"] == 0.25  # the second is missed
    assert measures["cost_5"] == 0.25  # the last is alerted without need, the second is not missed
    assert measures["cost_1_5"] == 0.25  # the second is missed, for a false alarm would cost five


def test_late_labels_reach_the_classifier_only_when_they_are_due() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(300) < 0.3).astype(np.int64)
    scores = 2.0 * (rng.normal(size=300) + 2.0 * labels) - 2.0
    classifier = RatioClassifier.from_scores(scores, labels, kind="margin")
    log_ratios = classifier.log_ratios(scores)
    deployed = wild.Deployed(classifier, log_ratios, log_ratios[:, None], scores[:, None], labels, scores, labels)
    asked = np.arange(0, 300, 10)
    late, never = OnlineClassifier(classifier), OnlineClassifier(classifier)
    posteriors = wild._with_labels(late, deployed, asked, 0.1, 50)
    static = never.decide_log_ratios(log_ratios).posteriors[:, 1]
    assert (posteriors[:51] == static[:51]).all()  # the first label is due after row 50
    assert (posteriors[51:] != static[51:]).any()
    assert late.label_counts.labelled == 25
    assert late.label_counts.unknown == 0


def test_retraining_uses_no_label_before_it_is_due() -> None:
    rows = np.arange(400.0)[:, None]
    labels = (np.arange(400) % 2).astype(np.int64)
    deployed = wild.Deployed(
        RatioClassifier(), np.empty((400, 2)), np.empty((400, 1, 2)), rows, labels, rows[:100], labels[:100]
    )
    nothing_due = wild._retrained(deployed, np.arange(400), 10_000, 2)
    no_labels = wild._retrained(deployed, np.arange(0), 0, 2)
    np.testing.assert_array_equal(nothing_due, no_labels)


def test_figures_are_relative_to_static_and_to_the_oracles_gain() -> None:
    settings = {
        "sets": ["s", "t"], "labels": [[0.05, 500]], "retrain_at": [[0.05, 500]], "most_harm": 1.005,
        "most_harm_with_labels": 1.002,
    }  # fmt: skip
    known = {"rows": 1, "training_prior": 0.1, "prior": 0.2, "alarm_row": 0, "diagnosis": {"hindsight": 0.5}}
    windows = {"windows": 4.0, "answered": 2.0, "held": 1.0}
    known["performance"] = {f"{one}.{key}": value for one in wild.QUANTITIES for key, value in windows.items()}
    results: list[Any] = []
    for name, safe, factors in (("s", 1.5, {"1": 1.5, "3": 1.8}), ("t", 2.1, {"1": 2.1, "3": 2.0})):
        measures = {
            "static": dict.fromkeys(wild.MEASURES, 2.0),
            wild.ORACLE: dict.fromkeys(wild.MEASURES, 1.0),
            "safe": dict.fromkeys(wild.MEASURES, safe),
        }
        labelled = {"ways": {"safe": dict.fromkeys(wild.MEASURES, 1.4)}, "unadapted": {"0.5": 1.4, "0.9": 1.6}}
        results += [
            ({"set": name, "rate": 0.0, "delay": 0}, {"ways": measures, "factors": factors, **known}),
            ({"set": name, "rate": 0.05, "delay": 500}, labelled),
            ({"set": name, "shuffled": True}, {"log_loss": safe, "jump_gain": 0.5 * safe}),
        ]
    found = wild.figures(results, settings)
    assert found["s.safe.gain"] == pytest.approx(0.5)
    assert found["s.0.05.500.safe.gain"] == pytest.approx(0.6)
    assert found["all.safe.log_loss.worst"] == pytest.approx(1.05)
    assert found["all.safe.log_loss.mean"] == pytest.approx(np.sqrt(0.75 * 1.05))
    # with the factor 1 the second stream is harmed, so that the first is left with 3; the first alone would take 1
    assert (found["s.left_out.factor"], found["t.left_out.factor"]) == (3.0, 1.0)
    assert found["t.left_out.log_loss"] == pytest.approx(1.05)
    assert (found["s.labels_left_out.unadapted"], found["s.labels_left_out.log_loss"]) == (0.5, pytest.approx(0.7))
    assert found["all.recalibrated.least"] == pytest.approx(0.6)  # .3 of the .5 that hindsight gains
    assert (found["all.shuffled.worst"], found["all.jump.least"]) == (2.1, 0.75)
    assert found["all.performance.recall.held_by_stream"] == found["all.performance.recall.unknown"] == 0.5


def test_a_jump_leaves_rows_out_until_the_odds_are_four_times_as_large() -> None:
    labels = (np.random.default_rng(0).random(50_000) < 0.1).astype(np.int64)
    rows = wild.with_jump(labels, quiet_rows=3_000, prior=0.1, seed=0)
    assert (rows[:3_000] == np.arange(3_000)).all()
    assert (np.diff(rows) > 0).all()
    later = labels[rows[3_000:]]
    assert later.sum() == labels[3_000:].sum()  # of the negatives only
    assert later.mean() == pytest.approx((4 / 9) / (1 + 4 / 9), abs=0.01)


def test_safety_measures_its_parts_in_a_short_run() -> None:
    settings = settings_of("safety") | {"biased_streams": 3, "biased_rows": 600, "null_streams": 6, "power_streams": 2}
    cells = safety.cells(settings)
    parts = {"scenario", "jump", "prevalence", "null", "power", "performance", "biased"}
    assert {cell["part"] for cell in cells} == parts
    excess = safety.run({"part": "scenario", "scenario": ".1", "seed": 0}, settings | {"n_rows": 6_000})
    assert excess["bank.before"] < excess["slow bank.before"]
    jump = {"part": "jump", "separation": 2.5, "before": 0.02, "after": 0.1}
    reached = safety.run(jump, settings | {"n_rows": 2_000})
    assert len(reached["safe"]) == settings["jump_seeds"]
    assert max(reached["bank"]) < 2_000
    found = safety.run({"part": "power", "change": "shift 0.5"}, settings)
    assert len(found["rows"]) == 2
    assert np.isfinite(found["rows"]).all()
    assert safety.run({"part": "null", "batch": 0}, settings | {"n_rows": 1_000})["alarms"] == 0
    biased = safety.run({"part": "biased"}, settings)
    assert biased["naive_bias"] > 0.2
    assert abs(biased["bias"]) < 0.1


def test_the_truth_of_now_is_that_of_the_two_normal_classes() -> None:
    from experiments.gaussian_pair import GaussianPair
    from obil.bayes.costs import Costs

    truth = safety._truth_now(GaussianPair(2.0), 0.0, 0.5, Costs(false_positive=1.0, false_negative=1.0))
    assert truth["recall"] == pytest.approx(0.8413, abs=1e-4)
    assert truth["precision"] == pytest.approx(0.8413, abs=1e-4)
    assert truth["cost"] == pytest.approx(0.1587, abs=1e-4)
