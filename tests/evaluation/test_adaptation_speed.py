"""How fast the default follows a jump is measured on streams drawn from the model's own held-out rows."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.evaluation.adaptation_speed import MOST_ROWS, AdaptationSpeed, adaptation_speed
from obil.serving.ratio_model import RatioModel, as_ratio_model


def model(separation: float, *, views: bool = True) -> RatioModel:
    drawn = GaussianClasses.spread(separation, n_features=6).draw(np.full(3_000, 0.1), random_state=0)
    classifier = RatioClassifier(LogisticRegression(), views=views, random_state=0)
    return as_ratio_model(classifier.fit(drawn.features, drawn.labels))


def test_a_strong_model_follows_a_jump_within_some_hundred_rows_and_a_weak_one_does_not() -> None:
    strong, weak = adaptation_speed(model(3.0)), adaptation_speed(model(0.7))
    assert strong.falls is not None
    assert strong.rises is not None
    assert max(strong.falls, strong.rises) < 2_000
    assert weak == AdaptationSpeed(None, None)
    assert f"over {MOST_ROWS:,} when the odds fall" in weak.describe()


def test_the_same_seed_gives_the_same_figures() -> None:
    one = model(3.0)
    assert adaptation_speed(one, random_state=1) == adaptation_speed(one, random_state=1)
