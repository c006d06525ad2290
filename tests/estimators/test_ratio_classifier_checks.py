"""scikit-learn's own checks: no expected failures."""

from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from obil.estimators.ratio_classifier import RatioClassifier


@parametrize_with_checks(
    [
        RatioClassifier(LogisticRegression(), random_state=0),
        RatioClassifier(LinearSVC(), cv=3, calibration="vector", random_state=0),
    ]
)
def test_scikit_learn_finds_nothing_wrong(estimator: Any, check: Any) -> None:
    check(estimator)
