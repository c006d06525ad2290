"""A table of knots is the first layer of the encoded row, also at gaps, unknown codes and extremes."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.serving.features import FeatureMap
from obil.serving.networks import network_stack
from obil.serving.networks.network_kernels import LARGEST_INPUT, first_layer_of_rows
from obil.serving.networks.network_stack import knot_table
from tests.serving.ensembles import feature_map, rows, standard_map

LINE = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def layer_of(features: FeatureMap, seed: int = 0, n_units: int = 7) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(features.n_inputs, n_units)).astype(np.float32)
    return weights, rng.normal(size=n_units).astype(np.float32)


def from_table(features: FeatureMap, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rectified units by the table, and by their definition in float64."""
    weights, biases = layer_of(features)
    table = knot_table(features, weights, biases)
    assert table is not None
    outputs = np.empty((len(matrix), len(biases)), dtype=np.float32)
    assert first_layer_of_rows(matrix, *table, outputs)
    exact = features.encode(matrix).astype(np.float64) @ weights.astype(np.float64) + biases
    return outputs, np.maximum(exact, 0.0)


@pytest.mark.parametrize("features", [feature_map(), standard_map()], ids=["curves", "straight"])
def test_units_are_those_of_the_encoded_row(features: FeatureMap) -> None:
    matrix = rows(2_000)
    matrix[::7, 0] = np.nan  # a gap where training had none
    matrix[::11, 2] = np.nan
    outputs, exact = from_table(features, matrix)
    np.testing.assert_allclose(outputs, exact, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("features", [feature_map(), standard_map()], ids=["curves", "straight"])
def test_numbers_of_any_size_stay_exact(features: FeatureMap) -> None:
    sizes = np.array([0.0, 5e-324, 1e-300, 1e-9, 1.0, 30.0, 2.1e4, 1e9, 1e300, 1.7e308])
    matrix = np.full((2 * len(sizes), 4), 1.0)
    matrix[:, 0] = matrix[:, 1] = matrix[:, 3] = np.concatenate([sizes, -sizes])
    outputs, exact = from_table(features, matrix)
    np.testing.assert_allclose(outputs, exact, rtol=1e-5, atol=1e-5)


def test_every_knot_is_met_exactly() -> None:
    features = feature_map()
    knots = np.unique(features.curves[0])
    matrix = np.repeat(knots[:, None], 4, axis=1)
    outputs, exact = from_table(features, matrix)
    np.testing.assert_allclose(outputs, exact, rtol=1e-6, atol=2e-6)


def test_a_column_that_tells_nothing_adds_nothing() -> None:
    features = FeatureMap.of_columns([[], [LINE], []], straight=False, missing=(2,))
    matrix = np.array([[5.0, 0.5, 1.0], [np.nan, 0.5, np.nan], [-5.0, np.nan, 0.0]])
    outputs, exact = from_table(features, matrix)
    np.testing.assert_allclose(outputs, exact, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_told(bad: float) -> None:
    features = feature_map()
    table = knot_table(features, *layer_of(features))
    assert table is not None
    matrix = rows(3)
    matrix[1, 2] = bad
    outputs = np.empty((3, 7), dtype=np.float32)
    assert not first_layer_of_rows(matrix, *table, outputs)


def test_maps_that_no_table_follows_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    steep = (np.array([0.0, 1.0]), np.array([0.0, 2 * LARGEST_INPUT]))
    flat = (np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    for columns, straight in (([[steep]], False), ([[LINE, LINE]], True), ([[flat]], True)):
        features = FeatureMap.of_columns(columns, straight=straight)
        assert knot_table(features, *layer_of(features)) is None
    features = feature_map()
    monkeypatch.setattr(network_stack, "LARGEST_TABLE", 10)
    assert knot_table(features, *layer_of(features)) is None
