"""Which features are inputs: those whose effect changes, found as an exact search finds them, and cheaply."""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from experiments.label_inputs import leading as leading_exactly
from obil.arrays import FloatArray, IntArray
from obil.estimators.leading_features import fit_row_inputs, leading
from obil.estimators.obil_classifier import OBILClassifier
from obil.estimators.ratio_classifier import RatioClassifier
from obil.estimators.table_fit import fit_table
from obil.serving.ratio_model import RatioModel


def drifting(n_rows: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Return rows of six features; the effect of the fourth turns round after half of them, the second fades."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    late = np.arange(n_rows) >= n_rows // 2
    logits = X[:, 0] + np.where(late, -1.5, 1.5) * X[:, 3] + np.where(late, 0.2, 0.8) * X[:, 1] - 1.0
    return X, (rng.random(n_rows) < expit(logits)).astype(np.int64)


def test_features_whose_effect_changes_come_first() -> None:
    # seed 0: 4,000 rows; a change of 3 in a coefficient is some 60 standard errors, one of .6 some 12
    X, y = drifting(4_000, seed=0)
    fitted = RatioClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert fitted.model_.inputs is not None
    assert fitted.model_.inputs.features[:2] == (3, 1)
    assert set(fitted.model_.inputs.features) == set(range(6))


@pytest.mark.parametrize("seed", range(5))
def test_the_quadratic_search_chooses_what_the_exact_one_does(seed: int) -> None:
    X, y = drifting(3_000, seed)
    base = X[:, 0] - 1.0
    candidates = [np.clip(X[:, i], -3.0, 3.0) for i in range(6)]
    exact = leading_exactly([one[:, None] for one in candidates], base, y, 2)
    assert leading(candidates, base, y, n=2) == exact


def test_an_effect_that_stays_is_no_reason_however_large() -> None:
    # seed 3: the first feature has an effect of 1 that the scores lack, that of the second changes from .4 to -.4
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8_000, 3))
    changing = np.where(np.arange(8_000) < 4_000, 0.4, -0.4) * X[:, 1]
    y = (rng.random(8_000) < expit(X[:, 0] + changing + X[:, 2])).astype(np.int64)
    assert leading([np.clip(X[:, i], -3.0, 3.0) for i in range(2)], X[:, 2], y, n=2) == [1, 0]


def test_rows_are_read_in_the_order_of_time() -> None:
    X, y = drifting(4_000, seed=1)
    mixed = np.random.default_rng(0).permutation(4_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # neighbouring rows depend on each other, and folds are few
        in_time = RatioClassifier(LogisticRegression(), random_state=0).fit(X[mixed], y[mixed], time=mixed)
    assert in_time.model_.inputs is not None
    assert in_time.model_.inputs.features[0] == 3


def inputs_of(model: RatioModel, X: Any) -> FloatArray:
    """Return what rows have as inputs of features, (n, J)."""
    assert model.inputs is not None
    first = 1 + model.n_views
    return model.score(X).evidence[:, 0, first : first + len(model.inputs.features), 1]


def test_a_category_becomes_the_smoothed_log_odds_of_its_rows() -> None:
    # 20 rows at the prior are added to each ward; an unknown one and a missing one are 0
    rng = np.random.default_rng(2)
    ward = rng.choice(["A", "B", "C"], size=900)
    table = pd.DataFrame({"ward": ward, "age": rng.normal(size=900)})
    y = (rng.random(900) < np.where(ward == "A", 0.6, 0.2)).astype(int)
    model = fit_table(table, y, model="logistic").model
    assert model.inputs is not None
    asked = pd.DataFrame({"ward": ["A", "B", "C", "Z", None], "age": [0.0] * 5})
    found = inputs_of(model, asked)[:, model.inputs.features.index(0)]
    prior = y.mean()
    for name, value in zip("ABC", found[:3], strict=True):
        own = y[ward == name]
        odds = (own.sum() + 20 * prior) / (len(own) - own.sum() + 20 * (1 - prior))
        np.testing.assert_allclose(value, np.log(odds) - np.log(prior / (1 - prior)), rtol=1e-9)
    assert found[3] == found[4] == 0.0


def test_strings_that_only_the_users_own_pipeline_reads_are_inputs_too() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"ward": rng.choice(["A", "B"], size=400), "age": rng.normal(size=400)})
    y = ((table["ward"] == "A") & (rng.random(400) < 0.7)).to_numpy().astype(int)
    unknown = FunctionTransformer(_as_given)  # no arrays: the estimator stays wrapped
    steps = (OneHotEncoder(handle_unknown="ignore"), unknown, LogisticRegression())
    fitted = RatioClassifier(make_pipeline(*steps), cv=3, random_state=0).fit(table.round(0), y)
    assert fitted.model_.encoder is None
    assert fitted.model_.inputs is not None
    place = fitted.model_.inputs.features.index(0)
    found = inputs_of(fitted.model_, pd.DataFrame({"ward": ["A", "B"], "age": [0.0, 1.0]}))[:, place]
    assert found[0] > 0.5 > -0.5 > found[1]


def _as_given(X: Any) -> Any:
    return X


def test_a_fitted_estimator_and_an_ensemble_have_inputs_and_sparse_rows_the_season_alone() -> None:
    X, y = drifting(800, seed=4)
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    ensemble = OBILClassifier(member=LogisticRegression(), n_members=2, random_state=0)
    for classifier in (RatioClassifier(frozen, random_state=0), ensemble):
        inputs = classifier.fit(X, y).model_.inputs
        assert inputs is not None
        assert inputs.features[0] == 3
    sparse = RatioClassifier(LogisticRegression(), random_state=0).fit(csr_matrix(X), y)
    assert sparse.model_.inputs is not None
    assert sparse.model_.inputs.features == ()
    assert RatioClassifier.from_scores(X[:, 0], y).model_.inputs is None
    three = RatioClassifier(LogisticRegression(), random_state=0).fit(X, y + (X[:, 5] > 1.0))
    assert three.model_.inputs is None


def test_features_that_are_the_same_in_all_rows_are_left_out() -> None:
    X, y = drifting(600, seed=5)
    X[:, 1] = 4.0
    X[:, 2] = np.where(np.arange(600) % 3, 7.0, np.nan)
    fitted = RatioClassifier(HistGradientBoostingClassifier(max_iter=5), random_state=0).fit(X, y)
    assert fitted.model_.inputs is not None
    assert set(fitted.model_.inputs.features) == {0, 3, 4, 5}


def test_choosing_takes_less_than_a_tenth_of_fitting() -> None:
    X, y = drifting(20_000, seed=6)
    X = np.column_stack([X, np.random.default_rng(7).normal(size=(20_000, 24))])
    started = time.perf_counter()
    fitted = RatioClassifier(random_state=0).fit(X, y)
    fit_seconds = time.perf_counter() - started
    started = time.perf_counter()
    fit_row_inputs(X, fitted.model_, np.arange(20_000))
    assert time.perf_counter() - started < 0.1 * fit_seconds
