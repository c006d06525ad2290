"""Folds have every class, are even, and never split a group."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, StratifiedKFold

from obil.calibration.cross_fit import choose_splits, deal_folds
from obil.errors import InvalidInputError


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=60), st.integers(2, 6), st.integers(0, 5))
def test_single_rows_are_dealt_evenly_whatever_the_classes(labels: list[int], n_folds: int, seed: int) -> None:
    numbers = np.array([0, 0, 1, 1, 2, 2, *labels])
    folds = deal_folds(numbers, n_folds=n_folds, n_classes=3, random_state=seed)
    used = min(n_folds, int(np.bincount(numbers).min()))
    assert set(folds.tolist()) == set(range(used))
    for k in range(3):
        counts = np.bincount(folds[numbers == k], minlength=used)
        assert counts.min() >= 1
        assert counts.max() - counts.min() <= 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 11)), min_size=4, max_size=80),
    st.integers(2, 5),
    st.integers(0, 5),
)
def test_groups_stay_whole_and_every_fold_trains_on_every_class(
    rows: list[tuple[int, int]], n_folds: int, seed: int
) -> None:
    numbers, groups = (np.array(column) for column in zip(*rows, strict=True))
    holders = [len(set(groups[numbers == k].tolist())) for k in range(2)]
    if min(holders) < 2:
        with pytest.raises(InvalidInputError, match="at least 2 rows"):
            deal_folds(numbers, n_folds=n_folds, n_classes=2, groups=groups, random_state=seed)
        return
    folds = deal_folds(numbers, n_folds=n_folds, n_classes=2, groups=groups, random_state=seed)
    for group in set(groups.tolist()):
        assert len(set(folds[groups == group].tolist())) == 1
    assert folds.min() >= 0
    assert folds.max() < n_folds
    for fold in set(folds.tolist()):
        assert set(numbers[folds != fold].tolist()) == {0, 1}


@settings(max_examples=100, deadline=None)
@given(st.integers(5, 12), st.integers(20, 60), st.integers(2, 5), st.integers(0, 20))
def test_every_fold_has_the_rare_class_when_its_groups_can_be_shared_out(
    n_patients: int, n_healthy: int, n_folds: int, seed: int
) -> None:
    """Each ill patient has one to three rows, some of them of the common class; healthy rows are single."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, n_patients)
    groups = np.concatenate([np.repeat(np.arange(n_patients), sizes), n_patients + np.arange(n_healthy)])
    labels = np.zeros(len(groups), dtype=np.int64)
    labels[np.unique(groups[: sizes.sum()], return_index=True)[1]] = 1  # one positive row a patient
    folds = deal_folds(labels, n_folds=n_folds, n_classes=2, groups=groups, random_state=seed)
    positives = np.bincount(folds[labels == 1], minlength=n_folds)
    assert positives.min() >= 1
    assert positives.max() - positives.min() <= 1
    sizes_of_folds = np.bincount(folds, minlength=n_folds)
    assert sizes_of_folds.max() - sizes_of_folds.min() <= 2  # one for each class


def test_the_same_seed_deals_the_same_folds_and_another_does_not() -> None:
    labels = np.arange(200) % 2
    first, again, other = (deal_folds(labels, n_folds=5, n_classes=2, random_state=seed) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_five_positives_make_no_more_than_five_folds() -> None:
    labels = np.repeat([0, 1], [100, 5])
    folds = deal_folds(labels, n_folds=10, n_classes=2, random_state=0)
    assert np.bincount(folds[labels == 1]).tolist() == [1] * 5


def splits_of(cv: Any, n: int = 60, **given: Any) -> list[tuple[Any, Any]]:
    labels = np.arange(n) % 3 // 2
    rows = np.arange(float(n))[:, None]
    settings: dict[str, Any] = {"groups": None, "time": None, "random_state": 0} | given
    return choose_splits(cv, rows, labels, labels, **settings)


def test_every_row_is_tested_once_and_never_trained_on_then() -> None:
    splits = splits_of(5)
    assert sorted(np.concatenate([test for _, test in splits]).tolist()) == list(range(60))
    assert all(not set(train.tolist()) & set(test.tolist()) for train, test in splits)


def test_equal_rows_are_dealt_like_any_others() -> None:
    """New rows repeat as the training rows do: a fold's model has seen as many of either."""
    labels = np.arange(60) % 3 // 2
    rows = (np.arange(60.0) // 30)[:, None]
    for same, other in zip(
        choose_splits(5, rows, labels, labels, groups=None, time=None, random_state=0), splits_of(5), strict=True
    ):
        np.testing.assert_array_equal(same[0], other[0])
        np.testing.assert_array_equal(same[1], other[1])
        assert set(rows[same[1], 0].tolist()) == {0.0, 1.0}


def test_time_makes_blocks_and_leaves_every_other_row_to_learn_from() -> None:
    time = np.random.default_rng(0).permutation(60)
    for train, test in splits_of(5, time=time):
        assert np.ptp(time[test]) == 11
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(60))


def test_splitters_and_pairs_are_taken_as_they_are() -> None:
    pairs = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    for cv, n_splits in ((StratifiedKFold(3), 3), (pairs, 2), (iter(pairs), 2)):
        assert len(splits_of(cv)) == n_splits
    groups = np.arange(60) // 10
    for train, test in splits_of(GroupKFold(3), groups=groups):
        assert not set(groups[train].tolist()) & set(groups[test].tolist())


@pytest.mark.parametrize(
    ("cv", "given", "message"),
    [
        (1, {}, "at least 2 folds"),
        (2.5, {}, "cv must be a number"),
        (5, {"groups": [0, 1]}, "groups must have one value per row"),
        (5, {"time": [0, 1]}, "time must have one value per row"),
    ],
)
def test_what_makes_no_folds_is_refused(cv: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        splits_of(cv, **given)
