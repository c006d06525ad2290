"""Small ONNX files made by hand: what a user, or an attacker, might bring."""

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra 'torch' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from onnx import TensorProto, helper, numpy_helper

WEIGHT = np.array([[1.0, -2.0], [0.5, 1.0], [0.0, 0.25]], dtype=np.float32)  # three features, two outputs
BIAS = np.array([0.5, -0.5], dtype=np.float32)


def linear(
    weight: np.ndarray = WEIGHT,
    bias: np.ndarray = BIAS,
    *,
    end: str | None = None,
    rows: Any = "n",
    dtype: int = TensorProto.FLOAT,
    extra: tuple[Any, ...] = (),
    outputs: tuple[Any, ...] = (),
    opset: int = 17,
    ir_version: int = 8,
) -> Any:
    """Return x W + b as a model, `end` (Sigmoid, Softmax) applied; `extra` nodes and `outputs` stand beside it."""
    nodes = [helper.make_node("Gemm", ["x", "weight", "bias"], ["z"])]
    if dtype != TensorProto.FLOAT:
        nodes = [
            helper.make_node("Cast", ["x"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Gemm", ["floats", "weight", "bias"], ["z"]),
        ]
    if end is not None:
        nodes.append(helper.make_node(end, ["z"], ["p"]))
    graph = helper.make_graph(
        [*nodes, *extra],
        "graph",
        [helper.make_tensor_value_info("x", dtype, [rows, len(weight)])],
        [
            *outputs,
            helper.make_tensor_value_info("z" if end is None else "p", TensorProto.FLOAT, [rows, weight.shape[1]]),
        ],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def with_labels() -> Any:
    """Return a classifier as scikit-learn exports look: the predicted label beside the probabilities."""
    return linear(
        end="Softmax",
        extra=(helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),),
        outputs=(helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),),
    )


def with_zipmap() -> Any:
    """Return a classifier whose probabilities are dictionaries."""
    model = with_labels()
    zipmap = helper.make_node("ZipMap", ["p"], ["zipped"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    model.graph.node.append(zipmap)
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    del model.graph.output[1]
    model.graph.output.append(helper.make_value_info("zipped", helper.make_sequence_type_proto(kind)))
    return model
