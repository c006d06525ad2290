"""Every row is scored by a model that has not seen it, and weights reach whoever takes them."""

from typing import Any
from zlib import crc32

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, RepeatedKFold, TimeSeriesSplit, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from obil.calibration.cross_fit import (
    averages,
    choose_splits,
    cross_fit,
    fit_estimator,
    held_out_once,
    outputs_of,
    score_method,
    spare_rows,
)
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
    splits = list(folds.split(rows))
    found = cross_fit(estimator, rows, labels, None, splits, classes=np.unique(labels), n_jobs=n_jobs)
    expected = cross_val_predict(estimator, rows, labels, cv=folds, method=method)
    np.testing.assert_array_equal(found.outputs, expected[found.held_out.rows])
    assert len(found.folds) == 3
    assert len(found.held_out.first) == len(found.second) == 0
    for fitted, (train, test) in zip(found.folds, splits, strict=True):
        own = clone(estimator).fit(rows[train], labels[train])
        np.testing.assert_array_equal(getattr(fitted, method)(rows[test]), getattr(own, method)(rows[test]))


class Memory(ClassifierMixin, BaseEstimator):
    """Gives away which rows it has seen."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)
        self.seen_ = {row.tobytes() for row in X}
        return self

    def predict_proba(self, X: Any) -> Any:
        seen = np.array([row.tobytes() in self.seen_ for row in X], dtype=np.float64)
        return np.stack([1.0 - seen, seen], axis=1)


SPLITTERS = {
    "three folds": KFold(3),
    "folds again and again": RepeatedKFold(n_splits=4, n_repeats=3, random_state=0),
    "windows that grow": TimeSeriesSplit(4),
    "a number of folds": 5,
    "many folds": 10,
}


def splits_of(cv: Any, rows: np.ndarray, labels: np.ndarray, **given: Any) -> list[tuple[Any, Any]]:
    settings: dict[str, Any] = {"groups": None, "time": None, "random_state": 0} | given
    return choose_splits(cv, rows, labels, labels, **settings)


@pytest.mark.parametrize("name", SPLITTERS)
def test_no_row_is_scored_by_a_model_that_has_seen_it(name: str) -> None:
    rows, labels = rows_and_labels()
    splits = splits_of(SPLITTERS[name], rows, labels)
    found = cross_fit(Memory(), rows, labels, None, splits, classes=np.array([0, 1]), n_jobs=None)
    assert not found.outputs[:, 1].any()
    assert not found.second[:, 1].any()
    tested = {int(row) for _, test in splits for row in test}
    assert sorted(found.held_out.rows.tolist()) == sorted(tested)


def signature(rows: set[bytes]) -> float:
    return float(crc32(b"".join(sorted(rows))))


class Signed(Memory):
    """Gives a number that its training rows determine, different for each fold, and the row."""

    def predict_proba(self, X: Any) -> Any:
        return np.stack([np.full(len(X), signature(self.seen_)), np.asarray(X)[:, 0]], axis=1)


@pytest.mark.parametrize("name", SPLITTERS)
def test_pairs_are_scores_of_the_same_row_by_two_different_folds(name: str) -> None:
    rows, labels = rows_and_labels(300)
    splits = splits_of(SPLITTERS[name], rows, labels)
    found = cross_fit(Signed(), rows, labels, None, splits, classes=np.array([0, 1]), n_jobs=None)
    np.testing.assert_array_equal(found.outputs[:, 1], rows[found.held_out.rows, 0])
    np.testing.assert_array_equal(found.second[:, 1], rows[found.held_out.rows[found.held_out.first], 0])
    assert (found.second[:, 0] != found.outputs[found.held_out.first, 0]).all()
    folds = [signature({row.tobytes() for row in rows[train]}) for train, _ in splits]
    assert len(set(folds)) == len(splits)
    for output, row in zip(found.outputs, found.held_out.rows, strict=True):
        assert row in splits[folds.index(output[0])][1]  # its own score is that of a fold which tests it
    assert [folds.index(one) for one in found.outputs[:, 0]] == found.held_out.folds.tolist()
    assert [folds.index(one) for one in found.second[:, 0]] == found.held_out.second_folds.tolist()
    assert bool(len(found.held_out.first)) == (name != "three folds")


def second_folds(splits: list[tuple[Any, Any]], n_rows: int) -> np.ndarray:
    """Return how many folds have not learned from each row, besides the one that tests it."""
    unseen = np.zeros(n_rows, dtype=np.int64)
    for spare in spare_rows(splits):
        unseen[spare] += 1
    return unseen


@pytest.mark.parametrize("n_folds", [5, 8, 10])
@pytest.mark.parametrize("seed", [0, 1, None])
def test_a_tenth_of_each_class_is_unseen_by_two_folds(n_folds: int, seed: int | None) -> None:
    labels = np.repeat([0, 1, 2], [700, 250, 50])
    splits = splits_of(n_folds, labels[:, None], labels, random_state=seed)
    unseen = second_folds(splits, len(labels))
    assert set(unseen.tolist()) == {0, 1}
    assert np.bincount(labels, weights=unseen).tolist() == [70.0, 25.0, 5.0]
    for (train, test), spare in zip(splits, spare_rows(splits), strict=True):
        assert sorted([*train, *test, *spare]) == list(range(len(labels)))


def test_spare_rows_are_spread_over_the_folds() -> None:
    """2,000 rows over 10 folds, 200 each: 6 standard deviations of a binomial are 80."""
    labels = np.arange(20_000) % 2
    sizes = [len(spare) for spare in spare_rows(splits_of(10, labels[:, None], labels))]
    assert sum(sizes) == 2_000
    assert max(abs(size - 200) for size in sizes) < 80


@pytest.mark.parametrize("n_folds", [2, 3, 4])
def test_few_folds_spare_no_rows(n_folds: int) -> None:
    """They have little to learn from as it is."""
    labels = np.arange(200) % 2
    assert not second_folds(splits_of(n_folds, labels[:, None], labels), 200).any()


def test_blocks_of_time_spare_no_rows() -> None:
    labels = np.arange(200) % 2
    assert not second_folds(splits_of(10, labels[:, None], labels, time=np.arange(200)), 200).any()


def test_spare_rows_depend_on_the_seed_alone() -> None:
    labels = np.arange(400) % 2
    first, again, other = (splits_of(5, labels[:, None], labels, random_state=seed) for seed in (3, 3, 4))
    assert [spare.tolist() for spare in spare_rows(first)] == [spare.tolist() for spare in spare_rows(again)]
    assert [spare.tolist() for spare in spare_rows(first)] != [spare.tolist() for spare in spare_rows(other)]


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_spared_together(seed: int) -> None:
    """A fold that has not seen one row of a patient has seen none of them; a tenth of each class's patients."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(200), rng.integers(1, 6, 200)))
    labels = (groups % 4 == 0).astype(np.int64)
    splits = splits_of(5, labels[:, None], labels, groups=groups, random_state=seed)
    spared = spare_rows(splits)
    for (train, test), spare in zip(splits, spared, strict=True):
        sides = [set(groups[side].tolist()) for side in (train, test, spare)]
        assert len(sides[0] | sides[1] | sides[2]) == sum(map(len, sides)) == 200
    patients = [{group for spare in spared for group in groups[spare] if (group % 4 == 0) == k} for k in (False, True)]
    assert [len(each) for each in patients] == [15, 5]


def test_held_out_rows_come_once_and_in_their_order() -> None:
    splits = [
        (np.array([3, 4]), np.array([2, 0])),
        (np.array([0]), np.array([4, 1])),
        (np.array([1]), np.array([0, 3])),
    ]
    unseen = [np.array([2, 0, 1]), np.array([4, 1, 2]), np.array([0, 3, 2, 4])]
    (rows, folds, first, second_folds), places, second = held_out_once(splits, unseen)
    assert rows.tolist() == [0, 1, 2, 3, 4]
    assert folds.tolist() == [0, 1, 0, 2, 1]  # row 0 is tested twice
    assert sorted(second_folds.tolist()) == [0, 1, 2, 2, 2]
    every = np.concatenate(unseen)
    np.testing.assert_array_equal(every[places], rows)
    np.testing.assert_array_equal(every[second], rows[first])
    assert sorted([*places, *second]) == list(range(10))


def test_folds_are_averaged_where_each_learned_from_most_rows_and_as_many() -> None:
    labels = np.arange(1_000) % 2
    rows = labels[:, None]
    assert averages(splits_of(5, rows, labels), 1_000)
    assert averages(splits_of(10, rows, labels), 1_000)
    assert averages([(np.arange(100), np.arange(100, 1_000))], 1_000)  # a single fold is its own mean
    assert not averages(splits_of(3, rows, labels), 1_000)
    assert not averages(splits_of(TimeSeriesSplit(5), rows, labels), 1_000)
    unequal = [(np.arange(800), np.arange(800, 1_000)), (np.arange(10, 1_000), np.arange(10))]
    assert not averages(unequal, 1_000)


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


@pytest.mark.parametrize("n_rows", [60, 100, 150, 1_000])
def test_chance_does_not_decide_whether_folds_are_averaged(n_rows: int) -> None:
    """Spare rows are dealt at random: whichever fold leaves most of them out, five folds learned from enough rows."""
    labels = (np.arange(n_rows) % 3 == 0).astype(np.int64)
    refused = [
        seed for seed in range(60) if not averages(splits_of(5, labels[:, None], labels, random_state=seed), n_rows)
    ]
    assert refused == []
