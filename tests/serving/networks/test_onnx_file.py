"""An ONNX file is refused before it is loaded unless it is one plain graph of standard operators."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("onnx", reason="the extra 'torch', which brings onnx, is not installed")
from google.protobuf.message import DecodeError

from obil.errors import ModelFileError
from obil.serving.networks import onnx_file
from obil.serving.networks.onnx_file import read_onnx, require_standard
from obil.serving.networks.onnx_scorer import OnnxNetwork
from tests.serving.onnx_models import helper, linear, onnx, with_labels, with_zipmap

from onnx import TensorProto  # isort: skip

CONTENT = linear().SerializeToString()


def external(tensor: Any) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")


def node(op: str, domain: str = "", **attributes: Any) -> Callable[[Any], None]:
    made = helper.make_node(op, ["z"], ["extra"], domain=domain, **attributes)
    return lambda model: model.graph.node.append(made)


def in_a_branch(inner: Any) -> Callable[[Any], None]:
    """Put a node into the body of an If inside the body of an If."""

    def change(model: Any) -> None:
        held = inner
        for _ in range(2):
            branch = helper.make_graph([held], "branch", [], [])
            held = helper.make_node("If", ["z"], ["extra"], then_branch=branch, else_branch=branch)
        model.graph.node.append(held)

    return change


def function(model: Any) -> None:
    made = helper.make_node("Relu", ["a"], ["b"])
    model.functions.append(helper.make_function("ai.onnx", "Own", ["a"], ["b"], [made], [helper.make_opsetid("", 17)]))


def constant(model: Any) -> None:
    held = helper.make_tensor("held", TensorProto.FLOAT, [1], [0.0])
    external(held)
    model.graph.node.append(helper.make_node("Constant", [], ["extra"], value=held))


def sparse(model: Any) -> None:
    external(model.graph.sparse_initializer.add().values)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an old IR": (lambda model: setattr(model, "ir_version", 3), "IR version 3: 4 to 13 can be read"),
    "an IR of the future": (lambda model: setattr(model, "ir_version", 99), "IR version 99"),
    "no IR version": (lambda model: model.ClearField("ir_version"), "IR version 0"),
    "an old opset": (lambda model: setattr(model.opset_import[0], "version", 8), "opset 8 of ai.onnx: 9 to 26"),
    "an opset of the future": (lambda model: setattr(model.opset_import[0], "version", 99), "opset 99 of ai.onnx"),
    "an ml opset of the future": (lambda model: setattr(model.opset_import[1], "version", 9), "9 of ai.onnx.ml"),
    "no opset": (lambda model: model.ClearField("opset_import"), "names no operator set"),
    "a foreign opset": (lambda model: model.opset_import.add(domain="evil", version=1), "operators of 'evil'"),
    "a custom operator": (node("Run", "evil"), "operators of 'evil'"),
    "a contributed operator": (node("Inverse", "com.microsoft"), "operators of 'com.microsoft'"),
    "a custom operator in a branch": (in_a_branch(helper.make_node("Run", [], ["a"], domain="evil")), "of 'evil'"),
    "a function": (function, "functions of its own"),
    "training": (lambda model: model.training_info.add().algorithm.node.add(op_type="Relu"), "steps of training"),
    "weights in another file": (lambda model: external(model.graph.initializer[0]), "tensors in other files"),
    "a constant in another file": (constant, "tensors in other files"),
    "sparse weights in another file": (sparse, "tensors in other files"),
}  # fmt: skip


@pytest.mark.parametrize("make", [linear, with_labels, with_zipmap])
def test_a_plain_graph_passes(make: Callable[[], Any], tmp_path: Path) -> None:
    content = make().SerializeToString()
    (tmp_path / "model.onnx").write_bytes(content)
    assert read_onnx(tmp_path / "model.onnx") == content
    require_standard(content)


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused_with_the_reason(name: str) -> None:
    change, message = REFUSED[name]
    model = linear()
    change(model)
    with pytest.raises(ModelFileError, match=message):
        require_standard(model.SerializeToString())


@pytest.mark.parametrize(
    "content", [b"", b"\x08", b"\x0b", CONTENT[:-3], CONTENT + b"\x12", b"\xff" * 12, b"PK\x03\x04"]
)
def test_what_is_no_onnx_file_is_refused(content: bytes) -> None:
    with pytest.raises(ModelFileError, match="the ONNX file"):
        require_standard(content)


def test_a_second_graph_that_a_parser_would_merge_is_looked_into() -> None:
    hidden = linear()
    node("Run", "evil")(hidden)
    with pytest.raises(ModelFileError, match="operators of 'evil'"):
        require_standard(CONTENT + hidden.SerializeToString())


def test_files_that_are_too_large_too_many_or_missing_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(ModelFileError, match=r"cannot read .*model\.onnx"):
        read_onnx(path)
    path.write_bytes(CONTENT)
    monkeypatch.setattr(onnx_file, "MOST_FIELDS", 10)
    with pytest.raises(ModelFileError, match="more than 10 fields"):
        OnnxNetwork.read(path)
    monkeypatch.setattr(onnx_file, "LARGEST_FILE", 100)
    with pytest.raises(ModelFileError, match=r"model\.onnx is too large, \d+ bytes: .* at most 100"):
        read_onnx(path)


def domains(message: Any) -> set[str]:
    """Every domain named anywhere in a message, by the onnx package's own parser: the oracle."""
    found = set()
    for descriptor, value in message.ListFields():
        if descriptor.name == "domain" and message.DESCRIPTOR.name in ("NodeProto", "OperatorSetIdProto"):
            found.add(value)
        elif descriptor.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                found |= domains(part)
    return found


@given(st.integers(0, len(CONTENT) - 1), st.binary(max_size=4), st.integers(0, 4))
def test_whatever_is_damaged_it_is_refused_or_standard(place: int, written: bytes, cut: int) -> None:
    damaged = CONTENT[:place] + written + CONTENT[place + cut :]
    try:
        require_standard(damaged)
        model = onnx.ModelProto.FromString(damaged)
    except (ModelFileError, DecodeError):
        return
    assert domains(model) <= {"", "ai.onnx", "ai.onnx.ml"}
    assert not model.functions
    assert not any(tensor.external_data for tensor in model.graph.initializer)
