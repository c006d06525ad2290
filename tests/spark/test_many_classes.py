import numpy as np
import pytest

from obil.bayes.posterior import posterior
from obil.spark.prevalence import LEAST_START, start_from_posteriors
from tests.online.cases import triangle_model, triangle_scores


def test_the_mean_posterior_is_corrected_to_a_start_near_the_truth() -> None:
    model, truth = triangle_model(), [0.2, 0.2, 0.6]
    means = posterior(model.log_ratios(triangle_scores(20_000, truth, 1)), model.prior_).mean(axis=0)
    start = start_from_posteriors(model, means)
    assert abs(means - truth).max() > 0.05  # as it is, it leans to the training prior
    np.testing.assert_allclose(start, truth, atol=0.03)  # what 2,000 held-out rows leave open


def test_no_class_is_absent_from_the_start() -> None:
    start = start_from_posteriors(triangle_model(), [0.99, 0.01, 0.0])
    assert start.sum() == pytest.approx(1.0)
    assert start.min() > LEAST_START / 2.0
