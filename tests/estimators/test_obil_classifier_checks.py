"""scikit-learn's own estimator checks, none of them expected to fail."""

import importlib.util

from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from obil import OBILClassifier

HAS_TORCH = importlib.util.find_spec("torch") is not None
ESTIMATORS = [
    OBILClassifier(member="trees", random_state=0),
    OBILClassifier(member=LogisticRegression(), n_members=3, random_state=0),
    *([OBILClassifier(random_state=0), OBILClassifier(member="mlp", random_state=0)] if HAS_TORCH else []),
]


@parametrize_with_checks(ESTIMATORS)
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
