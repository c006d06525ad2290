"""ONNX Runtime gives what torch gives, the same for one row as for many, and refuses what is no classifier."""

import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from obil.errors import InvalidInputError, ModelFileError
from obil.serving.files import load, save
from obil.serving.networks.heads import scores_of_outputs
from obil.serving.networks.onnx_scorer import CHUNK_ROWS, OnnxNetwork, OnnxScorer
from tests.serving.ensembles import as_model
from tests.serving.onnx_models import BIAS, WEIGHT, TensorProto, helper, linear, with_labels, with_zipmap

NAMES = ["mlp", "ConvNet", "TextTransformer", "GraphConvNet", "backbone", "torch's encoder", "recurrent"]
RNG = np.random.default_rng(0)
PRIOR = np.array([0.8, 0.2])


def network(model: Any = None) -> OnnxNetwork:
    return OnnxNetwork((linear() if model is None else model).SerializeToString())


@pytest.mark.parametrize("name", NAMES)
def test_a_torch_module_is_served_as_torch_computes_it_whatever_the_batch(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    import torch

    from tests.serving.torch_networks import exported

    module, exported_network, rows = exported(name)
    with torch.no_grad():
        expected = module(torch.from_numpy(rows)).numpy()
    whole = exported_network.outputs(rows)
    np.testing.assert_allclose(whole, expected, rtol=2e-6, atol=2e-6)
    for size in (1, 2, 7, 64):
        parts = [exported_network.outputs(rows[start : start + size]) for start in range(0, len(rows), size)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    prior = PRIOR if whole.ndim == 1 or whole.shape[1] < 3 else np.full(whole.shape[1], 1.0 / whole.shape[1])
    head = "tanh" if whole.ndim == 1 or whole.shape[1] == 1 else "softmax"
    scorer = OnnxScorer(exported_network, head, prior)
    assert scorer.scores(rows).tobytes() == scores_of_outputs(whole, head=head, training_prior=prior).tobytes()
    if len(prior) == 2:
        save(as_model(scorer), tmp_path / "model")
        assert load(tmp_path / "model").scorer.scores(rows).tobytes() == scorer.scores(rows).tobytes()


def test_outputs_are_those_of_the_graph_a_chunk_at_a_time() -> None:
    rows = RNG.normal(size=(2 * CHUNK_ROWS + 1, 3)).astype(np.float32)
    np.testing.assert_allclose(network().outputs(rows), rows @ WEIGHT + BIAS, rtol=1e-5, atol=1e-6)
    assert network().outputs(np.empty((0, 3))).shape == (0, 2)


def test_rows_are_taken_as_lists_integers_and_tables() -> None:
    expected = network().outputs(np.array([[1.0, 2.0, 3.0]]))
    for rows in ([[1, 2, 3]], pd.DataFrame([[1, 2, 3]]), np.array([[1, 2, 3]], dtype=object), [[True, 2, 3]]):
        np.testing.assert_array_equal(network().outputs(rows), expected)


@pytest.mark.parametrize(
    "rows",
    [[1.0, 2.0, 3.0], [[1.0]], [[[1.0, 2.0, 3.0]]], 3.0, [["a", "b", "c"]], [[1.0], [1.0, 2.0]], [[1j] * 3], None],
)
def test_rows_of_another_shape_or_type_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidInputError, match="rows must"):
        network().outputs(rows)


def test_a_network_of_integers_takes_whole_numbers_only() -> None:
    integers = network(linear(dtype=TensorProto.INT64))
    np.testing.assert_array_equal(integers.outputs([[1.0, 2.0, -3.0]]), integers.outputs([[1, 2, -3]]))
    for wrong in (0.5, np.nan, np.inf, 2.0**60):
        with pytest.raises(InvalidInputError, match="whole numbers"):
            integers.outputs([[wrong, 1.0, 1.0]])


def test_what_the_runtime_refuses_is_said_in_one_line() -> None:
    lookup = linear(extra=(helper.make_node("Gather", ["weight", "places"], ["row"], axis=0),))
    lookup.graph.node.insert(0, helper.make_node("Cast", ["x"], ["places"], to=TensorProto.INT64))
    lookup.graph.node.append(helper.make_node("ReduceSum", ["row", "axes"], ["sums"], keepdims=0))
    lookup.graph.initializer.append(helper.make_tensor("axes", TensorProto.INT64, [1], [2]))
    del lookup.graph.output[:]
    lookup.graph.output.append(helper.make_tensor_value_info("sums", TensorProto.FLOAT, ["n", 3]))
    assert network(lookup).outputs([[0.0, 1.0, 2.0]]).shape == (1, 3)
    with pytest.raises(InvalidInputError, match=r"cannot score these rows: .*out of (data )?bounds") as refused:
        network(lookup).outputs([[0.0, 1.0, 7.0]])
    assert "\n" not in str(refused.value)


def fixed() -> Any:
    return linear(rows=1)


def two_scores() -> Any:
    copied = helper.make_tensor_value_info("copy", TensorProto.FLOAT, ["n", 2])
    return linear(extra=(helper.make_node("Identity", ["z"], ["copy"]),), outputs=(copied,))


def two_inputs() -> Any:
    model = linear(extra=(helper.make_node("Identity", ["more"], ["copy"]),))
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.INT64, ["n", 2]))
    model.graph.output.append(helper.make_tensor_value_info("copy", TensorProto.INT64, ["n", 2]))
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (with_zipmap, r"as dictionaries \(label.*without ZipMap.*options=\{'zipmap': False\}"),
        (fixed, "batches of 1 rows only: export it with a dynamic first axis"),
        (two_scores, "one tensor of scores or probabilities, got copy"),
        (two_inputs, "one tensor of rows, float32 or int64, got x.*more"),
        (lambda: linear(dtype=TensorProto.DOUBLE), "one tensor of rows, float32 or int64"),
        (lambda: linear(end="NoSuchOperator"), "ONNX Runtime cannot load the model: .*NoSuchOperator"),
    ],
)
def test_a_graph_that_is_no_classifier_is_refused_with_the_remedy(make: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        network(make())


def test_labels_beside_the_probabilities_are_left_out() -> None:
    rows = RNG.normal(size=(9, 3)).astype(np.float32)
    np.testing.assert_allclose(network(with_labels()).outputs(rows), softmax(rows @ WEIGHT + BIAS, axis=1), rtol=1e-5)


def test_probabilities_and_margins_are_divided_by_the_training_prior() -> None:
    rows = RNG.normal(size=(50, 3)).astype(np.float32)
    logits = (rows @ WEIGHT + BIAS).astype(np.float64)
    expected = logits[:, 1] - logits[:, 0] - np.log(PRIOR[1] / PRIOR[0])
    for head, model in (("softmax", linear()), ("probability", with_labels())):
        scores = OnnxScorer(network(model), head, PRIOR).scores(rows)
        np.testing.assert_allclose(scores[:, 1], expected, rtol=1e-4, atol=1e-4)
    margins = OnnxScorer(network(), "margin", PRIOR).scores(rows)[:, 1]
    np.testing.assert_allclose(margins, logits[:, 1] - logits[:, 0], rtol=1e-4, atol=1e-4)


def test_a_head_that_does_not_fit_the_outputs_is_refused() -> None:
    for head, prior in (("tanh", PRIOR), ("softmax", np.full(3, 1 / 3)), ("margin", np.full(3, 1 / 3))):
        with pytest.raises(InvalidInputError, match="2 outputs per row"):
            OnnxScorer(network(), head, prior)
    with pytest.raises(InvalidInputError, match="head must be one of"):
        OnnxScorer(network(), "argmax", PRIOR)


def test_a_network_is_pickled_as_its_file_and_scores_from_many_threads() -> None:
    scorer = OnnxScorer(network(), "softmax", PRIOR)
    rows = RNG.normal(size=(300, 3))
    expected = scorer.scores(rows).tobytes()
    assert pickle.loads(pickle.dumps(scorer)).scores(rows).tobytes() == expected
    with ThreadPoolExecutor(4) as pool:
        assert {scores.tobytes() for scores in pool.map(scorer.scores, [rows] * 16)} == {expected}


def test_without_onnx_runtime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    save(as_model(OnnxScorer(network(), "softmax", PRIOR)), tmp_path / "model")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelFileError, match=r"not installed: pip install 'obil\[onnx\]'"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "argmax"}, "head must be one of"),
        ({"head": "tanh"}, "2 outputs per row"),
        ({"training_prior": [0.2, 0.3, 0.5]}, "classes"),
        ({"floor": 2.0}, "floor"),
        ({"network": {"content": "../other.onnx"}}, "stored as"),
    ],
)
def test_a_changed_description_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    save(as_model(OnnxScorer(network(), "softmax", PRIOR)), tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    manifest["scorer"] |= change
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model")


def test_a_hostile_graph_is_refused_though_its_hash_is_right(tmp_path: Path) -> None:
    save(as_model(OnnxScorer(network(), "softmax", PRIOR)), tmp_path / "model")
    path = tmp_path / "model" / "scorer.network.onnx"
    hostile = linear(extra=(helper.make_node("Run", ["z"], ["out"], domain="evil"),)).SerializeToString()
    path.write_bytes(hostile)
    with pytest.raises(ModelFileError, match="was changed"):
        load(tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    manifest["files"][path.name] = sha256(hostile).hexdigest()
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="operators of 'evil'"):
        load(tmp_path / "model")
