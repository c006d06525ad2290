"""Frozen layers and preprocessing read from a file are checked: a kernel reads their tables without asking."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.errors import InvalidInputError
from obil.serving.networks.layers import LayerScorer
from obil.serving.preprocessing import COLUMN, PreprocessedScorer, Preprocessing
from obil.serving.scorers import ColumnScorer
from tests.serving.stored import arrays_of, described, rebuilt

PRIOR = np.array([0.5, 0.5])


def linear(width: int = 3) -> LayerScorer:
    return LayerScorer((np.ones((width, 1)),), (np.zeros(1),), "identity", "logit", PRIOR, 1e-6)


def pipeline() -> PreprocessedScorer:
    """Return a scaled number, whether it is missing, and the code of a category: 5 -> 1, 7 -> 2, others 0."""
    columns = np.array(
        [
            (1.0, 2.0, 3.0, 4.0, np.inf, 9.0, 0, 0, 0),
            (0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0, 0, 0),
            (0.0, 0.0, 1.0, 0.0, 0.0, np.inf, 1, 0, 2),
        ],
        dtype=COLUMN,
    )
    return PreprocessedScorer(Preprocessing(columns, np.array([[5.0, 7.0], [1.0, 2.0]]), 2), linear())


def test_columns_become_what_the_table_says() -> None:
    made = pipeline().preprocessing.transform([[5.0, 7.0], [np.nan, 5.0], [1.0, 6.0]])
    assert made.tolist() == [[10.0, 0.0, 2.0], [9.0, 1.0, 1.0], [4.0, 0.0, 0.0]]


def test_what_would_become_infinite_is_refused_by_the_number_of_its_feature() -> None:
    with pytest.raises(InvalidInputError, match="feature 1 must be"):
        pipeline().scores([[1.0, np.nan]])
    with pytest.raises(InvalidInputError, match="feature 0 must be"):
        pipeline().scores([[np.inf, 5.0]])


def test_a_pipeline_comes_back_to_the_last_bit() -> None:
    rows = np.random.default_rng(0).integers(4, 8, (50, 2)).astype(float)
    again = rebuilt(PreprocessedScorer, described(pipeline()), arrays_of(pipeline()))
    assert again.scores(rows).tobytes() == pipeline().scores(rows).tobytes()


def field(name: str, place: int, value: float) -> dict[str, Any]:
    values = pipeline().preprocessing.columns[name].copy()
    values[place] = value
    return {f"preprocessing.columns.{name}": values}


ARRAYS: dict[str, dict[str, Any]] = {
    "a source beyond the row": field("source", 1, 2),
    "a source before the row": field("source", 1, -1),
    "a key beyond the table": field("last", 2, 3),
    "a key before the table": field("first", 2, -1),
    "keys that end before they start": field("first", 2, 3),
    "a divisor that is not a number": field("divisor", 0, np.nan),
    "an infinite shift": field("shift", 0, np.inf),
    "a column too few": {"preprocessing.columns.source": np.zeros(2, dtype=np.int32)},
    "columns as a table": {"preprocessing.columns.source": np.zeros((3, 1), dtype=np.int32)},
    "a table of keys alone": {"preprocessing.table": np.zeros((1, 2))},
    "a table in a row": {"preprocessing.table": np.zeros(2)},
    "a layer too wide": {"scorer.weights0": np.ones((4, 1))},
    "weights that are not finite": {"scorer.weights0": np.full((3, 1), np.nan)},
    "biases of another number": {"scorer.biases0": np.zeros(2)},
    "outputs of three classes": {"scorer.weights0": np.ones((3, 3)), "scorer.biases0": np.zeros(3)},
    "no output": {"scorer.weights0": np.ones((3, 0)), "scorer.biases0": np.zeros(0)},
}


@pytest.mark.parametrize("damage", ARRAYS)
def test_damaged_arrays_are_refused(damage: str) -> None:
    with pytest.raises(InvalidInputError, match="damaged"):
        rebuilt(PreprocessedScorer, described(pipeline()), arrays_of(pipeline()) | ARRAYS[damage])


@pytest.mark.parametrize("gone", arrays_of(pipeline()))
def test_a_pipeline_without_one_of_its_arrays_is_refused(gone: str) -> None:
    left = {name: array for name, array in arrays_of(pipeline()).items() if name != gone}
    with pytest.raises((InvalidInputError, KeyError)):  # `load` makes a ModelFileError of either
        rebuilt(PreprocessedScorer, described(pipeline()), left)


@pytest.mark.parametrize(
    "change",
    [
        {"preprocessing": described(pipeline().preprocessing) | {"n_features": 1}},
        {"preprocessing": described(pipeline().preprocessing) | {"n_features": 2.0}},
        {"scorer": described(pipeline()) | {"kind": "preprocessed"}},
        {"scorer": described(ColumnScorer("margin", np.array([0.5, 0.5]))) | {"kind": "column"}},
        {"scorer": described(pipeline())["scorer"] | {"activation": "step"}},
        {"scorer": described(pipeline())["scorer"] | {"link": "probit"}},
        {"scorer": described(pipeline())["scorer"] | {"floor": 0.7}},
        {"scorer": described(pipeline())["scorer"] | {"training_prior": [0.5, 0.3, 0.2]}},
    ],
)
def test_a_description_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        rebuilt(PreprocessedScorer, described(pipeline()) | change, arrays_of(pipeline()))


@given(st.data())
def test_whatever_the_table_says_a_transform_ends_or_is_refused(data: st.DataObject) -> None:
    """Random sources and keys: what is rebuilt never reads beyond its arrays."""
    numbers = st.lists(st.integers(-2, 4), min_size=3, max_size=3)
    arrays = arrays_of(pipeline()) | {
        f"preprocessing.columns.{name}": np.array(data.draw(numbers), dtype=np.int32)
        for name in ("source", "first", "last")
    }
    try:
        read = rebuilt(PreprocessedScorer, described(pipeline()), arrays)
    except InvalidInputError:
        return
    assert np.isfinite(read.preprocessing.transform([[1.0, 2.0], [5.0, 7.0]])).all()


@pytest.mark.parametrize("rows", [[[np.nan, 0.0, 0.0]], [[np.inf, 0.0, 0.0]], [[0.0, 0.0]], [["a", 0.0, 0.0]]])
def test_a_linear_model_refuses_rows_that_it_cannot_score(rows: Any) -> None:
    with pytest.raises(InvalidInputError):
        linear().scores(rows)


def test_outputs_that_overflow_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        linear().scores([[1e308, 1e308, 1e308]])
