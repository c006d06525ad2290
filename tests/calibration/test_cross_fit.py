"""Every row is scored by a model that has not seen it, and weights reach whoever takes them."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from obil.calibration.cross_fit import cross_fit, fit_estimator, outputs_of, score_method
from obil.errors import InvalidInputError


def rows_and_labels(n: int = 90, n_classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    return rng.standard_normal((n, 2)) + labels[:, None], labels


@pytest.mark.parametrize(
    ("estimator", "method"),
    [(LogisticRegression(), "predict_proba"), (LinearSVC(random_state=0), "decision_function")],
)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_agrees_with_scikit_learns_own_cross_prediction(estimator: Any, method: str, n_jobs: int | None) -> None:
    rows, labels = rows_and_labels()
    folds = KFold(3, shuffle=True, random_state=0)
    outputs, order = cross_fit(
        estimator, rows, labels, None, folds.split(rows), classes=np.unique(labels), n_jobs=n_jobs
    )
    expected = cross_val_predict(estimator, rows, labels, cv=folds, method=method)
    np.testing.assert_array_equal(outputs, expected[order])


class Memory(ClassifierMixin, BaseEstimator):
    """Gives away which rows it has seen."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        self.seen_ = {row.tobytes() for row in X}
        return self

    def predict_proba(self, X: Any) -> Any:
        seen = np.array([row.tobytes() in self.seen_ for row in X], dtype=np.float64)
        return np.stack([1.0 - seen, seen], axis=1)


def test_no_row_is_scored_by_a_model_that_has_seen_it() -> None:
    rows, labels = rows_and_labels()
    outputs, order = cross_fit(
        Memory(), rows, labels, None, KFold(3).split(rows), classes=np.array([0, 1]), n_jobs=None
    )
    assert not outputs[:, 1].any()
    assert sorted(order.tolist()) == list(range(len(rows)))


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_weights_reach_the_estimator(in_pipeline: bool) -> None:
    rows, labels = rows_and_labels()
    weights = np.where(labels == 1, 3.0, 1.0)
    estimator = make_pipeline(StandardScaler(), LogisticRegression()) if in_pipeline else LogisticRegression()
    fitted = fit_estimator(estimator, rows, labels, weights)
    name = {"logisticregression__sample_weight": weights} if in_pipeline else {"sample_weight": weights}
    expected = estimator.fit(rows, labels, **name)
    np.testing.assert_array_equal(fitted.predict_proba(rows), expected.predict_proba(rows))
    assert fitted is not expected


def test_an_estimator_without_weights_is_fitted_without_them() -> None:
    rows, labels = rows_and_labels()
    fitted = fit_estimator(KNeighborsClassifier(), rows, labels, np.ones(len(rows)))
    assert fitted.predict(rows).shape == labels.shape


def test_a_pipeline_that_resamples_is_fitted_without_weights() -> None:
    pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
    from imblearn.pipeline import make_pipeline as make_resampling_pipeline
    from imblearn.under_sampling import RandomUnderSampler

    rows, labels = rows_and_labels()
    pipeline = make_resampling_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
    fitted = fit_estimator(pipeline, rows, labels, np.linspace(1.0, 2.0, len(rows)))
    assert fitted.predict_proba(rows).shape == (len(rows), 2)


def test_a_class_missing_from_a_fold_has_probability_0() -> None:
    rows, labels = rows_and_labels(n_classes=3)
    kept = labels != 1
    fitted = LogisticRegression().fit(rows[kept], labels[kept])
    outputs = outputs_of(fitted, rows, np.array([0, 1, 2]))
    assert outputs.shape == (len(rows), 3)
    assert not outputs[:, 1].any()
    np.testing.assert_allclose(outputs.sum(axis=1), 1.0)
    margins = LinearSVC(random_state=0).fit(rows[kept], labels[kept])
    with pytest.raises(InvalidInputError, match="lacks a class"):
        outputs_of(margins, rows, np.array([0, 1, 2]))


def test_an_estimator_without_scores_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no scores"):
        score_method(StandardScaler())
    assert score_method(LogisticRegression()) == "predict_proba"
    assert score_method(LinearSVC()) == "decision_function"
