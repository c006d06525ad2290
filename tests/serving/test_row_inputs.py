"""The inputs of a row against numpy, for matrices, tables and single rows; and what a damaged file could hold."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.columns import Column, ColumnEncoder
from obil.serving.row_inputs import RowInputs
from obil.serving.season import season_of


def some_inputs() -> RowInputs:
    """Return the inputs of a number in column 2 and of a category with three codes in column 0."""
    effects = np.array([[0.0, 0.0, 0.0], [-0.5, 0.25, 9.0]])
    return RowInputs((2, 0), np.array([10.0, 0.0]), np.array([4.0, 1.0]), (0, 3), effects)


ROWS = np.array(
    [[0.0, 7.0, 10.0], [1.0, 7.0, 14.0], [2.0, 7.0, 0.0], [3.0, 7.0, np.nan], [np.nan, 7.0, 1e300], [-1.0, 7.0, 8.0]]
)
EXPECTED = np.array([[0.0, -0.5], [1.0, 0.25], [-2.5, 3.0], [0.0, 0.0], [3.0, 0.0], [-0.5, 0.0]])


def written(inputs: RowInputs, matrix: Any, at: Any = None, *, n_folds: int = 2, first: int = 3) -> FloatArray:
    evidence = np.full((len(matrix), n_folds, first + inputs.size, 2), 5.0)
    inputs.write(matrix, at, evidence, first)
    assert (evidence[:, :, :first] == 5.0).all()  # what others wrote
    return evidence[:, :, first:]


@pytest.mark.parametrize(
    "matrix",
    [ROWS, np.asfortranarray(ROWS), ROWS[:, :].astype(object), pd.DataFrame(ROWS, columns=["a", "b", "c"])],
    ids=["matrix", "by columns", "objects", "table"],
)
def test_numbers_are_standardised_and_categories_have_the_effect_of_their_code(matrix: Any) -> None:
    found = written(some_inputs(), matrix)
    assert not found[..., 0].any()
    for fold in range(2):
        np.testing.assert_allclose(found[:, fold, :2, 1], EXPECTED, rtol=1e-12)
    assert not found[:, :, 2:].any()  # no time


def test_the_season_stands_behind_the_features() -> None:
    at = [datetime(2024, 1, 1, hour) for hour in range(6)]
    found = written(some_inputs(), ROWS, at)
    np.testing.assert_array_equal(found[:, 1, 2:, 1], season_of(at, 6))
    assert not found[..., 0].any()


def test_a_table_with_strings_is_encoded_by_columns_of_its_own() -> None:
    columns = ColumnEncoder((Column("amount"), Column("ward", ("A", "B"))))
    table = pd.DataFrame({"ward": ["A", "B", "Z", None], "other": "x", "amount": [10.0, 14.0, None, 0.0]})
    found = written(replace(some_inputs(), columns=columns), table)
    np.testing.assert_allclose(found[:, 0, :2, 1], [[0.0, -0.5], [1.0, 0.25], [0.0, 3.0], [-2.5, 0.0]], rtol=1e-12)


def test_one_row_has_the_bits_it_has_among_many() -> None:
    together = written(some_inputs(), ROWS, 1e9)
    for i in range(len(ROWS)):
        np.testing.assert_array_equal(written(some_inputs(), ROWS[i : i + 1], 1e9)[0], together[i])


def test_without_features_there_is_the_season_alone() -> None:
    none = RowInputs((), np.empty(0), np.empty(0), (), np.empty((0, 0)))
    none.require_sound()
    assert written(none, ROWS, 1e9).shape == (6, 2, 8, 2)


@pytest.mark.parametrize(
    "damage",
    [
        {"features": (2, 2)},
        {"features": (-1, 0)},
        {"features": tuple(range(9))},
        {"centres": np.zeros(3)},
        {"centres": np.array([np.nan, 0.0])},
        {"scales": np.array([0.0, 1.0])},
        {"scales": np.array([np.inf, 1.0])},
        {"n_levels": (0, 4)},
        {"n_levels": (0, -1)},
        {"n_levels": (0,)},
        {"effects": np.zeros((1, 3))},
        {"effects": np.full((2, 3), np.inf)},
        {"effects": np.zeros(2)},
        {"columns": ColumnEncoder((Column("a"),))},
    ],
    ids=str,
)
def test_what_a_damaged_file_could_hold_is_refused(damage: dict[str, Any]) -> None:
    some_inputs().require_sound()
    with pytest.raises(InvalidInputError, match="inputs of a model"):
        replace(some_inputs(), **damage).require_sound()
