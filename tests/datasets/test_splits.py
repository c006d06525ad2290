"""A split keeps the class prior and never cuts a group or a set of equal rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.datasets.splits import Split, duplicate_groups, stratified_split, time_split
from obil.errors import InvalidInputError


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(2, 40))
    labels = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    groups = draw(st.none() | st.lists(st.integers(0, 8), min_size=n, max_size=n))
    rows = draw(
        st.none()
        | st.lists(st.tuples(st.sampled_from([0.0, 1.0, float("nan")]), st.integers(0, 3)), min_size=n, max_size=n)
    )
    return {
        "labels": labels,
        "groups": groups,
        "rows": rows,
        "test_size": draw(st.floats(0.01, 0.99)),
        "random_state": draw(st.integers(0, 2**32 - 1)),
    }


def split_or_one_unit(problem: dict[str, Any]) -> Split | None:
    try:
        return stratified_split(**problem)
    except InvalidInputError:
        with pytest.raises(InvalidInputError, match="at least two groups"):
            stratified_split(**problem)
        return None


@given(problems())
@settings(max_examples=300, deadline=None)
def test_every_row_is_on_exactly_one_side_and_no_group_or_duplicate_is_cut(problem: dict[str, Any]) -> None:
    split = split_or_one_unit(problem)
    if split is None:
        return
    n = len(problem["labels"])
    assert sorted([*split.train, *split.test]) == list(range(n))
    assert split.train.size
    assert split.test.size
    for key in ("groups", "rows"):
        if problem[key] is not None:
            sides = [{repr(problem[key][i]) for i in side} for side in split]
            assert not sides[0] & sides[1]


@given(problems())
@settings(max_examples=100, deadline=None)
def test_every_class_trains_and_the_same_seed_gives_the_same_split(problem: dict[str, Any]) -> None:
    split = split_or_one_unit(problem)
    if split is None:
        return
    again = stratified_split(**problem)
    np.testing.assert_array_equal(split.train, again.train)
    labels = np.array(problem["labels"])
    several = problem["groups"] is None and problem["rows"] is None and np.bincount(labels)[labels].min() >= 2
    if several:
        assert set(labels[split.train]) == set(labels[split.test]) == set(labels)


def test_single_rows_give_each_class_its_exact_fraction() -> None:
    labels = np.repeat([0, 1, 2], [900, 80, 20])
    _, test = stratified_split(labels, test_size=0.3, random_state=1)
    assert np.bincount(labels[test]).tolist() == [270, 24, 6]


def test_two_seeds_give_two_splits() -> None:
    labels = np.repeat([0, 1], [900, 100])
    first, second = (stratified_split(labels, random_state=seed).test for seed in (0, 1))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_many_sizes_still_give_each_class_its_fraction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(300), rng.geometric(0.1, size=300))
    sickness = rng.beta(0.5, 10.0, size=300)  # patients differ
    labels = (rng.random(len(groups)) < sickness[groups]).astype(int)
    _, test = stratified_split(labels, test_size=0.25, random_state=seed, groups=groups)
    fractions = np.bincount(labels[test], minlength=2) / np.bincount(labels)
    np.testing.assert_allclose(fractions, 0.25, atol=0.02)


def test_large_groups_go_to_either_side() -> None:
    groups = np.repeat(np.arange(20), 10)
    labels = np.tile(np.repeat([0, 1], 5), 20)
    tested = {
        int(groups[row])
        for seed in range(40)
        for row in stratified_split(labels, random_state=seed, groups=groups).test
    }
    assert tested == set(range(20))


def test_a_class_that_one_group_holds_trains() -> None:
    labels = [0] * 20 + [1] * 3
    groups = [*range(20), 99, 99, 99]
    for seed in range(20):
        train, test = stratified_split(labels, test_size=0.5, random_state=seed, groups=groups)
        assert {20, 21, 22} <= set(train.tolist())
        assert len(test) == 10


def test_a_class_of_two_rows_is_on_both_sides() -> None:
    train, test = stratified_split([0] * 98 + [1] * 2, test_size=0.1, random_state=0)
    assert {98, 99} & set(train.tolist())
    assert {98, 99} & set(test.tolist())


def test_rows_joined_through_a_group_and_a_duplicate_stay_together() -> None:
    # 0 and 1 share a patient, 1 and 2 are equal: 0, 1 and 2 are one unit
    train, test = stratified_split(
        [0, 1, 0, 1], test_size=0.5, random_state=0, groups=["a", "a", "b", "c"], rows=[[1.0], [2.0], [2.0], [3.0]]
    )
    assert sorted([train.tolist(), test.tolist()]) == [[0, 1, 2], [3]]


def test_duplicates_of_mixed_columns_are_found_whatever_the_types() -> None:
    rows = pd.DataFrame({"age": [1.0, np.nan, 1.0, np.nan], "sex": ["f", None, "f", None], "ward": list("AAAB")})
    assert duplicate_groups(rows).tolist() == [0, 1, 0, 2]


def test_duplicate_groups_are_those_of_numpy() -> None:
    rows = np.random.default_rng(0).integers(0, 3, size=(2_000, 6)).astype(float)
    _, inverse = np.unique(rows, axis=0, return_inverse=True)
    ours = duplicate_groups(rows)
    assert len(set(zip(ours.tolist(), inverse.ravel().tolist(), strict=True))) == len(set(ours.tolist()))


@given(st.lists(st.integers(0, 6), min_size=2, max_size=30), st.floats(0.05, 0.95))
@settings(max_examples=100, deadline=None)
def test_every_training_time_is_before_every_test_time(time: list[int], test_size: float) -> None:
    if len(set(time)) == 1:
        with pytest.raises(InvalidInputError, match="two different values"):
            time_split(time, test_size=test_size)
        return
    train, test = time_split(time, test_size=test_size)
    assert sorted([*train, *test]) == list(range(len(time)))
    assert max(np.array(time)[train]) < min(np.array(time)[test])


def test_rows_in_time_order_are_cut_once() -> None:
    train, test = time_split(1_000, test_size=0.2)
    assert train.tolist() == list(range(800))
    assert test.tolist() == list(range(800, 1_000))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"labels": [0, 1], "test_size": 0.0}, "strictly between 0 and 1"),
        ({"labels": [0, 1], "test_size": float("nan")}, "strictly between 0 and 1"),
        ({"labels": [0]}, "n >= 2"),
        ({"labels": [0.0, float("nan")]}, "must not be missing"),
        ({"labels": [0, 1], "groups": ["a", "a"]}, "at least two groups"),
        ({"labels": [0, 1], "groups": ["a"]}, r"as long as labels \(2\), got 1"),
        ({"labels": [0, 1], "groups": ["a", None]}, "none missing"),
        ({"labels": [0, 1], "rows": [[1.0], [1.0]]}, "at least two groups"),
    ],
)
def test_a_broken_rule_is_stated(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        stratified_split(random_state=0, **arguments)


def test_a_missing_time_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="got 1 rows without one"):
        time_split(np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"))
