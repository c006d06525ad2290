"""Drift of the rate of positives is found on held-out rows in their order, beyond chance and whatever the weights."""

import numpy as np
import pytest

from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.reports.calibration_drift import ALARM_GROWTH, GROWTH, START_SD, drift_of_rates
from obil.serving.ratio_model import RatioModel, as_ratio_model

N = 40_000


def model(drift: float = 0.0, *, weight: float | None = None) -> RatioModel:
    """Return a model whose held-out log ratios are off by +-drift, in turn, over blocks of 2,000 rows."""
    drawn = GaussianClasses.pair(2.0).draw(np.full(N, 0.2), random_state=0)
    scores = drawn.log_ratios[:, 1] + drift * np.where(np.arange(N) // 2_000 % 2 == 0, 1.0, -1.0)
    weights = None if weight is None else np.where(drawn.labels == 0, weight, 1.0)
    return as_ratio_model(RatioClassifier.from_scores(scores, drawn.labels, kind="margin", sample_weight=weights))


def test_without_drift_little_is_left_of_what_is_believed_at_first() -> None:
    assert (drift_of_rates(model(), 0.0, 1, doubted=False) < 0.7 * GROWTH * START_SD).all()


def test_drift_from_block_to_block_is_found_and_grows_where_it_is_doubted() -> None:
    found = drift_of_rates(model(0.8), 0.0, 1, doubted=False)
    assert (found > 0.5 * GROWTH).all()
    np.testing.assert_allclose(drift_of_rates(model(0.8), 0.0, 1, doubted=True), ALARM_GROWTH * found)


@pytest.mark.parametrize("weight", [0.1, 20.0])
def test_weights_of_the_fit_are_no_drift(weight: float) -> None:
    assert (drift_of_rates(model(weight=weight), 0.0, 1, doubted=False) < 0.7 * GROWTH * START_SD).all()
