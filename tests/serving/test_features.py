"""A feature map is numpy's interpolation, separates missing from unknown values, and gives a network no infinity."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from obil.errors import InvalidInputError
from obil.serving.features import FeatureMap
from obil.serving.networks.network_kernels import LARGEST_INPUT
from tests.serving.ensembles import N_INPUTS, WIDTH, feature_map, rows
from tests.serving.stored import arrays_of, described, rebuilt

NUMBERS = st.floats(allow_infinity=False)  # NaN is a gap
KNOTS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True).map(sorted)


def one_curve(knots: Any, values: Any, *, straight: bool, missing: bool = False) -> FeatureMap:
    return FeatureMap.of_columns(
        [[(np.array(knots), np.array(values))]], straight=straight, missing=(0,) if missing else ()
    )


def rng_for(n: int) -> np.random.Generator:
    return np.random.default_rng(n)


@pytest.mark.parametrize("n_knots", [2, 3, 7, 100])
def test_a_curve_is_numpys_interpolation(n_knots: int) -> None:
    rng = rng_for(n_knots)
    knots, values = np.sort(rng.normal(size=n_knots)), rng.normal(size=n_knots)
    x = np.concatenate([rng.normal(0.0, 2.0, 500), knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf)])
    encoded = one_curve(knots, values, straight=False).encode(x[:, None])
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded[:, 0], np.interp(x, knots, values), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n_knots", [2, 3, 7])
def test_a_straight_curve_goes_on_beyond_its_ends(n_knots: int) -> None:
    rng = rng_for(n_knots)
    knots, values = np.sort(rng.normal(size=n_knots)), rng.normal(size=n_knots)
    slopes = np.diff(values) / np.diff(knots)
    x = rng.normal(0.0, 3.0, 500)
    expected = np.interp(x, knots, values)
    expected += np.minimum(x - knots[0], 0.0) * slopes[0] + np.maximum(x - knots[-1], 0.0) * slopes[-1]
    encoded = one_curve(knots, values, straight=True).encode(x[:, None])[:, 0]
    np.testing.assert_allclose(encoded, np.clip(expected, -LARGEST_INPUT, LARGEST_INPUT), rtol=1e-6, atol=1e-6)


def test_knots_too_close_for_a_slope_give_the_lower_value() -> None:
    encoded = one_curve([0.0, 5e-324], [1.0, 2.0], straight=False).encode(np.array([[-1.0], [0.0], [5e-324], [1.0]]))
    np.testing.assert_array_equal(encoded[:, 0], [1.0, 1.0, 1.0, 1.0])


@given(KNOTS, st.data())
def test_any_curve_is_numpys_interpolation(knots: list[float], data: st.DataObject) -> None:
    assume(min(np.diff(knots), default=1.0) > 1e-300)  # where a slope is a number
    values = data.draw(st.lists(st.floats(-50, 50), min_size=len(knots), max_size=len(knots)))
    x = np.array(data.draw(st.lists(st.floats(-2e6, 2e6), min_size=1, max_size=5)))
    encoded = one_curve(knots, values, straight=False).encode(x[:, None])[:, 0]
    np.testing.assert_allclose(encoded, np.interp(x, knots, values), rtol=1e-6, atol=1e-5)


def test_the_inputs_stand_in_the_order_of_the_columns() -> None:
    encoded = feature_map().encode([[0.0, 0.5, 2.0, 0.5], [1.0, -1.0, 0.0, np.nan]])
    expected = [[-0.2, 0.0, 0.5, 0.0, 0.0, 1.0, 0.1, 0.0], [0.4, 1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(encoded, expected, atol=1e-7)


@pytest.mark.parametrize("straight", [True, False])
def test_what_is_missing_is_0_and_says_so_where_training_had_missing_values(straight: bool) -> None:
    values = [5.0, 7.0]  # of a curve that is nowhere 0, so that 0 can only mean missing
    with_missing = one_curve([0.0, 1.0], values, straight=straight, missing=True)
    assert with_missing.encode([[np.nan], [0.0]]).tolist() == [[0.0, 1.0], [5.0, 0.0]]
    assert one_curve([0.0, 1.0], values, straight=straight).encode([[np.nan]]).tolist() == [[0.0]]


def test_a_code_that_training_did_not_see_is_0_in_every_level() -> None:
    codes = FeatureMap.of_columns([np.array([1.0, 4.0])], straight=False, missing=(0,))
    encoded = codes.encode([[1.0], [4.0], [2.0], [-1.0], [1.5], [np.nan]])
    assert encoded.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("nothing", [[], np.array([])])
def test_a_column_that_tells_nothing_takes_no_input(nothing: Any) -> None:
    empty = FeatureMap.of_columns([nothing, np.array([2.0])], straight=False, missing=(0,))
    assert (empty.n_features, empty.n_inputs) == (2, 2)
    assert empty.encode([[3.0, 2.0], [np.nan, 1.0]]).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(InvalidInputError, match="infinity"):  # it tells nothing, but must still be a number
        empty.encode([[np.inf, 2.0]])


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("column", range(WIDTH))
@pytest.mark.parametrize("row", [0, 4])
def test_infinity_is_refused_in_any_column_and_row(bad: float, column: int, row: int) -> None:
    matrix = rows(5)
    matrix[row, column] = bad
    with pytest.raises(InvalidInputError, match="infinity"):
        feature_map().encode(matrix)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 5), (2, 4, 1), ()])
def test_rows_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="4 features"):
        feature_map().encode(np.zeros(shape))


def test_no_rows_give_no_inputs() -> None:
    assert feature_map().encode(np.empty((0, WIDTH))).shape == (0, N_INPUTS)


@pytest.mark.parametrize("huge", [1e39, 1e200, np.finfo(float).max])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_huge_numbers_stay_finite_in_float32(huge: float, sign: float) -> None:
    straight = one_curve([0.0, 1e-300], [0.0, 1.0], straight=True)
    assert straight.encode([[sign * huge]]).tolist() == [[sign * LARGEST_INPUT]]
    assert feature_map().encode([[sign * huge, sign * huge, 0.0, 0.0]])[0, :3].tolist() == pytest.approx(
        [1.6, 1.0, 1.0] if sign > 0 else [-1.5, 0.0, -1.0]
    )


@pytest.mark.parametrize("straight", [True, False])
def test_knots_at_both_ends_of_float64_give_a_finite_input(straight: bool) -> None:
    end = np.finfo(float).max
    encoded = one_curve([-end, end], [-1.0, 1.0], straight=straight).encode([[-end], [0.0], [end]])
    np.testing.assert_allclose(encoded[:, 0], [-1.0, 0.0, 1.0], atol=1e-6)


@given(arrays(np.float64, (3, WIDTH), elements=NUMBERS), st.booleans())
def test_any_finite_or_missing_row_becomes_finite_inputs(matrix: np.ndarray, straight: bool) -> None:
    encoded = feature_map(straight=straight).encode(matrix)
    assert np.isfinite(encoded).all()
    assert (abs(encoded) <= LARGEST_INPUT).all()


@given(arrays(np.float64, (3, WIDTH), elements=NUMBERS))
def test_a_row_is_encoded_alike_alone_and_among_others(matrix: np.ndarray) -> None:
    together = feature_map().encode(matrix)
    alone = np.concatenate([feature_map().encode(matrix[[i]]) for i in range(3)])
    assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize("straight", [True, False])
def test_a_map_comes_back_to_the_last_bit(straight: bool) -> None:
    made = feature_map(straight=straight)
    again = rebuilt(FeatureMap, described(made), arrays_of(made))
    assert (again.n_features, again.n_inputs, again.straight) == (WIDTH, N_INPUTS, straight)
    assert again.encode(rows(50)).tobytes() == made.encode(rows(50)).tobytes()


def layout_with(row: int, column: int, value: float) -> dict[str, Any]:
    layout = feature_map().layout.copy()
    layout[row, column] = value
    return {"layout": layout}


def curves_with(place: int, value: float, *, line: int = 0) -> dict[str, Any]:
    curves = feature_map().curves.copy()
    curves[line, place] = value
    return {"curves": curves}


SMALLEST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
# of each input in turn: curve, curve, curve, level, level, level, curve, gap; of each: column, kind, first, past last
DAMAGE: dict[str, dict[str, Any]] = {
    "a column before the first": layout_with(0, 0, -1),
    "a column beyond the last": layout_with(7, 0, WIDTH),
    "a column far beyond": layout_with(7, 0, LARGEST),
    "a kind that does not exist": layout_with(0, 1, 3),
    "a negative kind": layout_with(0, 1, -1),
    "a first knot before the first": layout_with(0, 2, -1),
    "a first knot at the end of int64": layout_with(0, 2, LARGEST),
    "a last knot beyond the last": layout_with(6, 3, 15),
    "a last knot far beyond": layout_with(6, 3, LARGEST),
    "a last knot before the first": layout_with(6, 3, 10),
    "a last knot that wraps round int64": {"layout": np.array([[0, 0, 1, SMALLEST]])},
    "a level that wraps round int64": {"layout": np.array([[0, 1, 14, SMALLEST]])},
    "a level beyond the last knot that wraps round int64": {"layout": np.array([[0, 1, LARGEST, -2]])},
    "a first knot that wraps round int64": {"layout": np.array([[0, 0, LARGEST, 1]])},
    "a curve with one knot": layout_with(2, 3, 7),
    "a curve with no knot": layout_with(2, 3, 6),
    "a level without a code": layout_with(3, 3, 8),
    "no inputs": {"layout": np.empty((0, 4), dtype=np.int64)},
    "a layout of three columns": {"layout": feature_map().layout[:, :3]},
    "a layout of five columns": {"layout": np.zeros((4, 5), dtype=np.int64)},
    "a flat layout": {"layout": feature_map().layout.ravel()},
    "one row of curves": {"curves": feature_map().curves[:1]},
    "three rows of curves": {"curves": np.zeros((3, 14))},
    "flat curves": {"curves": feature_map().curves.ravel()},
    "curves cut short": {"curves": feature_map().curves[:, :-1]},
    "a knot that is not a number": curves_with(0, np.nan),
    "an infinite knot": curves_with(3, np.inf),
    "an infinite value": curves_with(0, -np.inf, line=1),
    "equal knots": curves_with(1, -2.0),
    "falling knots": curves_with(1, 7.0),
    "no layout at all": {"layout": np.empty((0,))},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_map_is_refused(damage: str) -> None:
    """A kernel follows these numbers without asking: what slips through reads foreign memory."""
    made = feature_map()
    with pytest.raises(InvalidInputError, match="damaged"):
        rebuilt(FeatureMap, described(made), arrays_of(made) | DAMAGE[damage])


@pytest.mark.parametrize("straight", [None, 1, "yes", [True]])
def test_a_map_that_is_neither_straight_nor_flat_is_refused(straight: Any) -> None:
    with pytest.raises(InvalidInputError, match="damaged"):
        rebuilt(FeatureMap, described(feature_map()) | {"straight": straight}, arrays_of(feature_map()))


@pytest.mark.parametrize("n_features", [None, "4", 4.0, True, 0, -1, WIDTH - 1])
def test_a_width_that_the_inputs_do_not_fit_is_refused(n_features: Any) -> None:
    with pytest.raises(InvalidInputError, match="damaged"):
        rebuilt(FeatureMap, described(feature_map()) | {"n_features": n_features}, arrays_of(feature_map()))


@pytest.mark.parametrize("gone", ["layout", "curves"])
def test_a_map_without_one_of_its_arrays_is_refused(gone: str) -> None:
    arrays = arrays_of(feature_map())
    del arrays[gone]
    with pytest.raises((InvalidInputError, KeyError)):  # `load` makes a ModelFileError of either
        rebuilt(FeatureMap, described(feature_map()), arrays)
