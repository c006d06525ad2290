"""Frozen forests and boosters score as scikit-learn's own do, gaps included, and say no to what they cannot keep."""

import copy
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from obil.arrays import FloatArray, IntArray
from obil.calibration.freeze_trees import freeze_trees
from obil.errors import InvalidInputError
from obil.serving.scorers import EstimatorScorer, scores_of_margins
from obil.serving.trees import CHUNK_ROWS, TreeScorer

FORESTS = {
    "forest": lambda **k: RandomForestClassifier(12, random_state=0, **k),
    "extra trees": lambda **k: ExtraTreesClassifier(12, random_state=0, **k),
    "shallow forest": lambda **k: RandomForestClassifier(5, max_depth=2, random_state=0, **k),
    "stumps without a split": lambda **k: RandomForestClassifier(3, min_samples_leaf=10_000, random_state=0, **k),
}
BOOSTERS = {
    "booster": lambda **k: HistGradientBoostingClassifier(max_iter=15, random_state=0, **k),
    "booster of stumps": lambda **k: HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=2, **k),
    "booster without a split": lambda **k: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=10_000, **k),
}


def labelled(n: int, n_classes: int, *, gaps: bool, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Return rows of which two features tell the class and one has many ties; with `gaps` a fifth of cells missing."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(n_classes, n, p=np.array([6, 3, 1][:n_classes]) / sum([6, 3, 1][:n_classes]))
    rows = rng.normal(size=(n, 4)) * [1.0, 1e5, 1e-5, 1.0]
    rows[:, 0] += labels
    rows[:, 1] -= 1e5 * (labels == n_classes - 1)
    rows[:, 3] = rows[:, 3].round()
    if gaps:
        rows[rng.random(rows.shape) < 0.2] = np.nan
        rows[labels == 1, 2] = np.where(rng.random((labels == 1).sum()) < 0.5, np.nan, rows[labels == 1, 2])
    return rows, labels


def shares(labels: IntArray) -> FloatArray:
    return np.bincount(labels) / len(labels)


def fresh_rows(fitted_on: FloatArray, *, gaps: bool) -> FloatArray:
    """Return unseen rows, the training rows, and rows that lie on the thresholds' side of every tie."""
    return np.concatenate([labelled(300, 2, gaps=gaps, seed=1)[0], fitted_on[:200], 1e30 * np.sign(fitted_on[:20])])


def probabilities_to_scores(probabilities: FloatArray, training_prior: FloatArray, floor: float) -> FloatArray:
    logs = np.log(np.maximum(probabilities, floor) / training_prior)
    return logs - logs[:, :1]


def weighing(labels: IntArray, how: str) -> tuple[dict[str, Any], FloatArray | None]:
    if how == "class weights":
        return {"class_weight": "balanced"}, None
    if how == "sample weights":
        return {}, np.random.default_rng(3).integers(0, 4, len(labels)).astype(float)
    return {}, None


@pytest.mark.parametrize("how", ["plain", "class weights", "sample weights"])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", FORESTS)
def test_a_forest_scores_as_scikit_learns_own(kind: str, n_classes: int, gaps: bool, how: str) -> None:
    """Log probabilities agree to 1e-12: trees are added in the same order, only the division may round."""
    X, y = labelled(400, n_classes, gaps=gaps)
    settings, weights = weighing(y, how)
    fitted = FORESTS[kind](**settings).fit(X, y, weights)
    frozen = freeze_trees(fitted, training_prior=shares(y), floor=1e-3)
    assert frozen is not None
    rows = fresh_rows(X, gaps=gaps)
    expected = probabilities_to_scores(fitted.predict_proba(rows), shares(y), 1e-3)
    np.testing.assert_allclose(frozen.scores(rows), expected, rtol=0.0, atol=1e-12)
    by_estimator = EstimatorScorer(fitted, "predict_proba", shares(y), 1e-3, 4)
    np.testing.assert_allclose(frozen.scores(rows), by_estimator.scores(rows), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("how", ["plain", "class weights", "sample weights"])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", BOOSTERS)
def test_a_booster_scores_as_scikit_learns_own(kind: str, n_classes: int, gaps: bool, how: str) -> None:
    X, y = labelled(400, n_classes, gaps=gaps)
    settings, weights = weighing(y, how)
    fitted = BOOSTERS[kind](**settings).fit(X, y, weights)
    training_prior = shares(y)
    frozen = freeze_trees(fitted, training_prior=training_prior)
    assert frozen is not None
    rows = fresh_rows(X, gaps=gaps)
    log_prior = np.log(training_prior / training_prior[0])
    expected = scores_of_margins(fitted.decision_function(rows), n_classes) - log_prior
    np.testing.assert_allclose(frozen.scores(rows), expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("kind", [*FORESTS, *BOOSTERS])
def test_a_gap_that_training_never_saw_goes_where_scikit_learn_sends_it(kind: str) -> None:
    X, y = labelled(400, 2, gaps=False)
    fitted = (FORESTS | BOOSTERS)[kind]().fit(X, y)
    frozen = freeze_trees(fitted, training_prior=np.array([0.5, 0.5]), floor=1e-3)
    assert frozen is not None
    rows = labelled(200, 2, gaps=True, seed=5)[0]
    expected = (
        probabilities_to_scores(fitted.predict_proba(rows), np.array([0.5, 0.5]), 1e-3)[:, 1]
        if kind in FORESTS
        else fitted.decision_function(rows)
    )
    np.testing.assert_allclose(frozen.scores(rows)[:, 1], expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["forest", "booster"])
def test_a_row_scores_alike_to_the_bit_alone_and_across_chunks(kind: str) -> None:
    X, y = labelled(CHUNK_ROWS + 1, 3, gaps=True)
    frozen = freeze_trees((FORESTS | BOOSTERS)[kind]().fit(X, y), training_prior=shares(y), floor=1e-3)
    assert frozen is not None
    together = frozen.scores(X)
    for n in (CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1):
        assert frozen.scores(X[:n]).tobytes() == together[:n].tobytes()
    places = [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS]
    assert np.concatenate([frozen.scores(X[[i]]) for i in places]).tobytes() == together[places].tobytes()


@pytest.mark.parametrize("kind", ["forest", "extra trees", "booster"])
def test_frozen_trees_come_back_to_the_last_bit(kind: str) -> None:
    X, y = labelled(300, 3, gaps=True)
    frozen = freeze_trees((FORESTS | BOOSTERS)[kind]().fit(X, y), training_prior=shares(y), floor=1e-3)
    assert frozen is not None
    again = TreeScorer.rebuild(frozen.describe(), frozen.arrays())
    assert again.scores(X).tobytes() == frozen.scores(X).tobytes()


def test_a_forest_sees_numbers_in_float32_as_scikit_learn_does() -> None:
    """Rows a hair apart in float64 are one row in float32, and fall on one side of a threshold."""
    X = np.array([[1.0], [1.0 + 1e-12], [2.0], [2.0 - 1e-12]] * 10)
    y = np.array([0, 1, 1, 0] * 10)
    fitted = RandomForestClassifier(3, random_state=0).fit(X, y)
    frozen = freeze_trees(fitted, training_prior=np.array([0.5, 0.5]), floor=1e-3)
    assert frozen is not None
    expected = probabilities_to_scores(fitted.predict_proba(X), np.array([0.5, 0.5]), 1e-3)
    np.testing.assert_allclose(frozen.scores(X), expected, atol=1e-12)


def categorical() -> Any:
    X, y = labelled(200, 2, gaps=False)
    return HistGradientBoostingClassifier(max_iter=3, categorical_features=[3]).fit(np.abs(X) % 5, y)


def several_outputs() -> Any:
    X, y = labelled(200, 2, gaps=False)
    return RandomForestClassifier(3, random_state=0).fit(X, np.c_[y, 1 - y])


class OwnForest(RandomForestClassifier):
    """A forest that may do anything in predict_proba."""


def other(estimator: Any) -> Any:
    return estimator.fit(*labelled(200, 2, gaps=False))


@pytest.mark.parametrize(
    "make",
    [
        categorical,
        several_outputs,
        lambda: other(OwnForest(3)),
        lambda: other(DecisionTreeClassifier()),
        lambda: other(GradientBoostingClassifier(n_estimators=2)),
        lambda: other(HistGradientBoostingRegressor(max_iter=2)),
        lambda: other(GaussianNB()),
        lambda: other(make_pipeline(StandardScaler(), RandomForestClassifier(3))),
        lambda: None,
    ],
)
def test_what_has_no_frozen_form_gives_none(make: Any) -> None:
    assert freeze_trees(make(), training_prior=np.array([0.5, 0.5])) is None


@pytest.mark.parametrize("kind", ["forest", "booster"])
def test_a_balance_of_other_classes_gives_none(kind: str) -> None:
    fitted = (FORESTS | BOOSTERS)[kind]().fit(*labelled(200, 3, gaps=False))
    assert freeze_trees(fitted, training_prior=np.array([0.5, 0.5])) is None


def test_freezing_changes_nothing_in_the_estimator() -> None:
    X, y = labelled(200, 2, gaps=True)
    fitted = HistGradientBoostingClassifier(max_iter=4).fit(X, y)
    before = copy.deepcopy(fitted).predict_proba(X)
    freeze_trees(fitted, training_prior=np.array([0.5, 0.5]))
    assert fitted.predict_proba(X).tobytes() == before.tobytes()


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 3])
def test_infinity_and_rows_of_another_width_are_refused(bad: float, n: int) -> None:
    X, y = labelled(100, 2, gaps=False)
    frozen = freeze_trees(BOOSTERS["booster of stumps"]().fit(X, y), training_prior=shares(y))
    assert frozen is not None
    rows = X[:n].copy()
    rows[-1, -1] = bad
    with pytest.raises(InvalidInputError, match="infinity"):
        frozen.scores(rows)
    for width in (3, 5):
        with pytest.raises(InvalidInputError, match="4 features"):
            frozen.scores(np.zeros((n, width)))
