"""Check an ONNX file before ONNX Runtime reads it: standard operators only, and nothing outside the file.

The file is a protobuf message. What has to be checked are a few of its fields, read here without the `onnx`
package, which serving does not need.
"""

from collections.abc import Iterator
from pathlib import Path

from obil.errors import ModelFileError

LARGEST_FILE = 2**29  # bytes
MOST_FIELDS = 5_000_000
IR_VERSIONS = range(4, 14)
OPSETS = {"": range(9, 27), "ai.onnx": range(9, 27), "ai.onnx.ml": range(1, 6)}

# onnx.proto: the fields of a message that hold messages to look into, by number
_PARTS = {
    "model": {7: "graph", 8: "opset"},
    "opset": {},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_REFUSED = {
    ("model", 20): "steps of training",
    ("model", 25): "functions of its own",
    ("tensor", 13): "tensors in other files",
    ("tensor", 14): "tensors in other files",  # data_location; 0, inside, may be left out
}

Value = int | memoryview


def read_onnx(path: Path) -> bytes:
    """Return the content of an ONNX file, not yet checked, or say why it cannot be read."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise ModelFileError(f"{path.name} is too large, {size:,} bytes: an ONNX file has at most {LARGEST_FILE:,}")
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}") from None


def require_standard(content: bytes) -> None:
    """Refuse what ONNX Runtime should not be given: other operators, versions, functions or data of other files."""
    ir_version, opsets, n_fields = 0, {}, 0
    pending = [("model", memoryview(content))]
    while pending:
        kind, message = pending.pop()
        domain, version = "", 0
        for number, value in _fields(message):
            n_fields += 1
            if n_fields > MOST_FIELDS:
                raise ModelFileError(f"the ONNX file has more than {MOST_FIELDS:,} fields: store tensors as raw data")
            if (kind, number) in _REFUSED and value != 0:
                raise ModelFileError(f"the ONNX file holds {_REFUSED[kind, number]}: export it as one plain graph")
            if number in _PARTS[kind] and isinstance(value, memoryview):
                pending.append((_PARTS[kind][number], value))
            elif (kind, number) in (("node", 7), ("opset", 1)) and isinstance(value, memoryview):
                domain = bytes(value).decode(errors="replace")
                if domain not in OPSETS:
                    raise ModelFileError(f"the ONNX file uses operators of {domain!r:.60}: only standard ones are run")
            elif (kind, number) == ("opset", 2) and isinstance(value, int):
                version = value
            elif (kind, number) == ("model", 1) and isinstance(value, int):
                ir_version = value
        if kind == "opset":
            opsets[domain] = version
    if ir_version not in IR_VERSIONS:
        raise ModelFileError(f"the ONNX file has IR version {ir_version}: {_between(IR_VERSIONS)} can be read")
    if not opsets:
        raise ModelFileError("the ONNX file names no operator set: it is damaged")
    for domain, version in opsets.items():
        if version not in OPSETS[domain]:
            raise ModelFileError(
                f"the ONNX file has opset {version} of {domain or 'ai.onnx'}: {_between(OPSETS[domain])} can be run"
            )


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Give the number and the value of each field of a protobuf message; a message or text as its bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        value: Value
        if key & 7 == 0:
            value, place = _varint(message, place)
        else:
            size, place = _varint(message, place) if key & 7 == 2 else ({1: 8, 5: 4}.get(key & 7, -1), place)
            value, place = message[place : place + max(size, 0)], place + size
            if size < 0 or place > len(message):
                raise ModelFileError("the ONNX file is damaged: it is no protobuf message")
        yield key >> 3, value


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(message[place : place + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, place + shift + 1
    raise ModelFileError("the ONNX file is damaged: it is cut short")


def _between(versions: range) -> str:
    return f"{versions[0]} to {versions[-1]}"
