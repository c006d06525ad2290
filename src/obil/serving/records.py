"""Write a model's records as JSON values, arrays and files, and build them again, every type checked.

A record is a dataclass. JSON holds its fields: of an array, an estimator or an ONNX graph the name under which it is
stored. A part of several records is written once. Only the modules of the kinds that a model has are imported.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError, ModelFileError

JSON = "json"  # marks arrays whose values stand in the JSON
JsonFloats: TypeAlias = Annotated[FloatArray, JSON]
# the kinds of scorers and calibrators: the name in a file, and the class
_KINDS = {
    "trees": "trees.TreeScorer",
    "layers": "layers.LayerScorer",
    "preprocessed": "preprocessing.PreprocessedScorer",
    "network": "dense_network.DenseScorer",
    "ensemble": "ensemble.EnsembleScorer",
    "onnx": "onnx_scorer.OnnxScorer",
    "estimator": "scorers.EstimatorScorer",
    "column": "scorers.ColumnScorer",
    "linear": "calibrators.LinearCalibrator",
    "monotone": "calibrators.MonotoneCalibrator",
}
_KIND_OF = {home.split(".")[1]: kind for kind, home in _KINDS.items()}


@dataclass(slots=True)
class Written:
    """What records put beside their JSON values."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # of the parts that are written, by id


@dataclass(slots=True)
class Stored:
    """What records are built from, beside their JSON values."""

    arrays: Mapping[str, npt.NDArray[Any]]
    folder: Path = Path()
    files: Collection[str] = ()  # whose hashes were checked
    trusted: Collection[str] = ()  # further types of estimators
    parts: dict[str, Any] = field(default_factory=dict)  # that are built, by name

    def path(self, name: str) -> Path:
        """Return the path of a file, refused where its hash was not checked."""
        if name not in self.files:
            raise ModelFileError(
                f"the manifest of a model names only files that it lists with their hash, got {name!r:.60}"
            )
        return self.folder / name


def write_record(record: Any, into: Written, name: str = "") -> dict[str, Any]:
    """Return what JSON keeps of a record; `name` is its path from the model."""
    if not is_dataclass(record):
        raise ModelFileError(f"a scorer of type {type(record).__name__} has no file format")
    kind = _KIND_OF.get(type(record).__name__)
    if kind is None and id(record) in into.names:
        return {"same_as": into.names[id(record)]}
    into.names[id(record)] = name
    saved: dict[str, Any] = {} if kind is None else {"kind": kind}
    cls: Any = type(record)
    for own, hint in _hints(cls).items():
        value, key = getattr(record, own), own.rstrip("_")
        if hint is Any:
            from obil.serving.estimator_file import write_estimator  # noqa: PLC0415  # skops, for wrapped estimators

            saved[key] = f"{name}.skops"
            into.files[saved[key]] = write_estimator(value)
        elif hint is bytes:
            saved[key] = f"{name}.onnx"
            into.files[saved[key]] = value
        else:
            saved[key] = value.tolist() if _is_json(hint) else _write(value, into, f"{name}.{key}".lstrip("."))
    return saved


def read_record(cls: Any, saved: Mapping[str, Any], source: Stored, name: str = "") -> Any:
    """Return the record that `write_record` told of, checked by its own `require_sound` where it has one."""
    if "same_as" in saved:
        shared = source.parts[saved["same_as"]]
        return shared if type(shared) is cls else _refuse(name, cls.__name__, saved)
    values = {}
    for own, hint in _hints(cls).items():
        told = saved[own.rstrip("_")]
        if hint is Any:
            from obil.serving.estimator_file import read_estimator  # noqa: PLC0415  # skops, for wrapped estimators

            values[own] = read_estimator(source.path(told), trusted=source.trusted)
        elif hint is bytes:
            from obil.serving.onnx_file import read_onnx  # noqa: PLC0415  # only for a graph

            values[own] = read_onnx(source.path(told))
        else:
            values[own] = _read(hint, told, source, f"{name}.{own}".strip("._"))
    record = source.parts[name] = cls(**values)
    if hasattr(record, "require_sound"):
        record.require_sound()
    return record


@cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: hints[each.name] for each in fields(cls) if each.init}


def _is_json(hint: Any) -> bool:
    return get_origin(hint) is Annotated and hint.__metadata__[0] is JSON


def _write(value: Any, into: Written, path: str) -> Any:
    if isinstance(value, np.ndarray):  # one of structures is stored field by field
        into.arrays |= {f"{path}.{part}": value[part] for part in value.dtype.names or ()} or {path: value}
        return path
    if isinstance(value, tuple):
        return [_write(each, into, f"{path}{place}") for place, each in enumerate(value)]
    return value if value is None or isinstance(value, str | bool | int | float) else write_record(value, into, path)


def _read(hint: Any, saved: Any, source: Stored, path: str) -> Any:  # noqa: PLR0911  # one for each type
    if get_origin(hint) is UnionType and NoneType in get_args(hint):
        return None if saved is None else _read(get_args(hint)[0], saved, source, path)
    if _is_json(hint):
        return np.array(saved, dtype=None if get_args(hint)[0] == npt.NDArray[Any] else np.float64)
    if get_origin(hint) is Annotated:
        dtype = hint.__metadata__[0]
        return pack(dtype, **{part: _array(dtype[part], f"{saved}.{part}", source) for part in dtype.names})
    if get_origin(hint) is np.ndarray:
        return _array(np.dtype(get_args(get_args(hint)[1])[0]), saved, source)
    if get_origin(hint) is tuple:
        if type(saved) is not list:
            _refuse(path, "a list", saved)
        return tuple(_read(get_args(hint)[0], each, source, f"{path}{place}") for place, each in enumerate(saved))
    if hint in (str, bool, int, float):
        if type(saved) is not hint and not (hint is float and type(saved) is int):
            _refuse(path, hint.__name__, saved)
        return hint(saved)
    if is_dataclass(hint):
        return read_record(hint, saved, source, path)
    if saved["kind"] not in _KINDS:
        raise ModelFileError(
            f"{path} is of the kind {saved['kind']!r:.40}, which this version does not know: update obil"
        )
    module, name = _KINDS[saved["kind"]].split(".")
    record = read_record(getattr(import_module(f"obil.serving.{module}"), name), saved, source, path)
    return record if isinstance(record, hint) else _refuse(path, f"a {hint}", name)


def _array(dtype: np.dtype[Any], name: str, source: Stored) -> npt.NDArray[Any]:
    values = source.arrays[name]
    if values.dtype.kind not in ("fiu" if dtype.kind == "f" else "iu"):
        _refuse(name, f"an array of {dtype}", values.dtype)
    return values.astype(dtype)


def _refuse(path: str, rule: str, found: object) -> Any:
    raise InvalidInputError(f"{path} of the model is damaged: it must be {rule}, got {found!r:.40}")


def pack(dtype: np.dtype[Any], **parts: npt.ArrayLike) -> npt.NDArray[np.void]:
    """Return an array of structures from the arrays of their fields, which have one shape."""
    shapes = {np.shape(values) for values in parts.values()}
    if len(shapes) > 1:
        raise InvalidInputError(f"an array of structures is damaged: its fields have shapes {sorted(shapes)}")
    packed = np.zeros(shapes.pop(), dtype)
    for part, values in parts.items():
        packed[part] = values
    return packed
