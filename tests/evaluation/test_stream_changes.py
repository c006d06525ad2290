"""What changed in a labelled past is found where it is known: nothing, the prior, the calibration, the concept."""

import numpy as np
import pytest

from obil.bayes.local_prior import best_window, local_priors
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.evaluation.stream_changes import StreamChanges, changes_in_held_out, changes_since
from obil.serving.holdout import Holdout
from obil.serving.ratio_model import as_ratio_model
from tests.evaluation.test_adaptation_speed import model

N = 6_000


def later(prior: float, *, offset: float = 0.0, noise: float = 0.0) -> StreamChanges:
    """Draw later rows at another prior, whose log ratios are off by an offset or blurred."""
    classes = GaussianClasses.pair(2.5)
    before = classes.draw(np.full(N, 0.1), random_state=0)
    after = classes.draw(np.full(N, prior), random_state=1)
    log_ratios = after.log_ratios.copy()
    log_ratios[:, 1] += offset + noise * np.random.default_rng(2).normal(size=N)
    local = local_priors(after.labels, n_classes=2, window=best_window(after.labels, n_classes=2))
    held_out = Holdout.of(before.log_ratios, before.labels)
    return changes_since(held_out, log_ratios, after.labels, prior=np.array([0.9, 0.1]), local=local)


@pytest.mark.parametrize(
    ("prior", "offset", "noise", "regime"),
    [
        (0.1, 0.0, 0.0, "nothing"),
        (0.3, 0.0, 0.0, "label shift"),
        (0.02, 0.0, 0.0, "label shift"),
        (0.1, 1.5, 0.0, "calibration drift"),
        (0.1, 0.0, 4.0, "concept drift"),
    ],
)
def test_the_change_is_named(prior: float, offset: float, noise: float, regime: str) -> None:
    found = later(prior, offset=offset, noise=noise)
    assert found.regime == regime
    assert found.to_json()["sentence"] == found.sentence


def test_gains_are_of_the_prior_and_of_the_log_ratio_apart() -> None:
    shifted, drifted = later(0.3), later(0.1, offset=1.5)
    assert shifted.prior_gain > 0.1
    assert shifted.recalibration_gain < 0.01
    assert drifted.recalibration_gain > 0.1
    assert drifted.prior_gain < 0.01


def test_halves_of_held_out_rows_that_stand_still_show_nothing_and_too_few_rows_are_not_judged() -> None:
    fitted = model(2.5)
    found = changes_in_held_out(fitted)
    assert found is not None
    assert found.regime == "nothing"
    drawn = GaussianClasses.pair(2.0).draw(np.full(100, 0.1), random_state=0)
    few = as_ratio_model(RatioClassifier.from_scores(drawn.log_ratios[:, 1], drawn.labels, kind="margin"))
    assert changes_in_held_out(few) is None
