"""A monitor of a model compares with the evidence of its held-out rows, within the tolerance it was fitted with."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.monitor import LabelShiftMonitor
from obil.monitor.reference import allowances_of, fingerprint_of, monitor_reference
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import thinned_rows

CLASSES = GaussianClasses.spread(2.0, n_features=5)


@cache
def fitted(blocks: bool = False, seed: int = 0) -> RatioModel:
    """Return a logistic regression on 1,000 rows, with folds that are blocks of time where asked."""
    drawn = CLASSES.draw(np.full(1_000, 0.3), random_state=seed)
    given: dict[str, Any] = {"time": np.arange(1_000)} if blocks else {}
    return RatioClassifier(LogisticRegression(), random_state=0).fit(drawn.features, drawn.labels, **given).model_


def settings_of(monitor: LabelShiftMonitor) -> dict[str, float]:
    return dict(monitor.state()["settings"])


def test_a_model_tells_its_tolerance_and_one_without_evidence_of_its_own_has_none() -> None:
    assert allowances_of(fitted())["tolerance"] == 0.0
    assert allowances_of(fitted(blocks=True))["tolerance"] >= 0.02
    assert allowances_of(replace(fitted(blocks=True), evidence=None))["tolerance"] == 0.0


def test_a_monitor_allows_the_models_tolerance_unless_it_is_told_another() -> None:
    model = fitted(blocks=True)
    assert settings_of(LabelShiftMonitor.for_model(model))["tolerance"] == allowances_of(model)["tolerance"]
    assert settings_of(LabelShiftMonitor.for_model(model, tolerance=0.0))["tolerance"] == 0.0
    assert settings_of(LabelShiftMonitor.for_model(model, tolerance=0.3))["tolerance"] == 0.3
    assert settings_of(LabelShiftMonitor.for_model(fitted()))["tolerance"] == 0.0


def test_streams_of_a_model_have_one_reference_in_common() -> None:
    model = fitted()
    assert monitor_reference(model) is monitor_reference(model)
    default = monitor_reference(model).with_settings({"alpha": 0.005, "delta": 0.005, **allowances_of(model)})
    assert default is monitor_reference(model)


def test_it_compares_with_the_evidence_of_the_held_out_rows_and_not_with_what_decides() -> None:
    model = fitted()
    rows = thinned_rows(model.holdout_.labels, n_classes=2)
    evidence = Holdout(
        model.evidence_holdout.log_ratios[rows], model.holdout_.labels[rows], model.holdout_.weights[rows]
    )
    assert monitor_reference(model).held_out == fingerprint_of(evidence)
    decides = replace(model, evidence=None)
    assert monitor_reference(decides).held_out != fingerprint_of(evidence)


def test_another_model_brings_its_own_tolerance_and_leaves_the_other_settings() -> None:
    old, new = fitted(), fitted(blocks=True)
    monitor = LabelShiftMonitor.for_model(old, alpha=0.01, delta=0.02)
    renewed = monitor.renewed(new, replaced=old)
    assert settings_of(renewed) == {"alpha": 0.01, "delta": 0.02, **allowances_of(new)}
    assert renewed.state()["held_out"] == monitor_reference(new).held_out
    assert settings_of(renewed.renewed(old, replaced=new))["tolerance"] == 0.0


def test_a_tolerance_that_was_set_stays_with_another_model() -> None:
    old, new = fitted(), fitted(blocks=True)
    monitor = LabelShiftMonitor.for_model(old, tolerance=0.3)
    assert settings_of(monitor.renewed(new, replaced=old))["tolerance"] == 0.3


def test_one_fold_per_row_scores_new_rows_as_it_scored_its_held_out_rows_and_their_mean_does_not() -> None:
    """30 streams of deep trees, the prior shifted from .3 to .1, seeds fixed: at most 1 in 100 alarms without cause.

    4 or more false alarms have probability below 3e-4. The mean of the folds, taken for what one of them gives, is
    bolder than the held-out rows show, and is found out.
    """
    trusted = np.zeros(2, dtype=np.int64)
    for seed in range(30):
        training = CLASSES.draw(np.full(2_000, 0.3), random_state=[1, seed])
        tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
        model = RatioClassifier(tree, random_state=0).fit(training.features, training.labels).model_
        assert model.evidence is not None
        scored = model.score(CLASSES.draw(np.full(5_000, 0.1), random_state=[2, seed]).features)
        mean = model.evidence.calibrator.apply(model.calibrator.invert(scored.log_ratios))
        for place, rows in enumerate((scored.evidence_from(0)[:, 0], mean)):
            monitor = LabelShiftMonitor.for_model(model)
            monitor.update_many(rows)
            trusted[place] += monitor.trusted
    assert trusted[0] > 30 - 4
    assert trusted[1] < 3
