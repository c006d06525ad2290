"""scikit-learn's own checks: no expected failures."""

import importlib.util
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from obil import OBILClassifier

HAS_TORCH = importlib.util.find_spec("torch") is not None
# with one part held out, or two folds, and few members the same code runs, in a tenth of the time
QUICK = [
    OBILClassifier(member=LogisticRegression(), n_members=3, cv=2, random_state=0),
    *([OBILClassifier(member="mlp", n_members=2, random_state=0)] if HAS_TORCH else []),
]
DEFAULT = OBILClassifier(member="tabular" if HAS_TORCH else "trees", n_members=1, cv=0.3, random_state=0)


@parametrize_with_checks(QUICK)
def test_scikit_learn_finds_nothing_wrong(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([DEFAULT])
def test_scikit_learn_finds_nothing_wrong_with_the_default(estimator: Any, check: Any) -> None:
    check(estimator)
