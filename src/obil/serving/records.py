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

# marks of fields: an array whose values stand in the JSON, an estimator and a graph, each in a file of its own
JSON, SKOPS, ONNX = "json", "skops", "onnx"
JsonFloats: TypeAlias = Annotated[FloatArray, JSON]
# the kinds of scorers and calibrators: the name in a file, and the class
_KINDS = {
    "trees": "trees.TreeScorer",
    "layers": "networks.layers.LayerScorer",
    "preprocessed": "preprocessing.PreprocessedScorer",
    "network": "networks.dense_network.DenseScorer",
    "ensemble": "ensemble.EnsembleScorer",
    "onnx": "networks.onnx_scorer.OnnxScorer",
    "estimator": "scorers.EstimatorScorer",
    "column": "scorers.ColumnScorer",
    "folds": "folds.FoldScorer",
    "linear": "calibrators.LinearCalibrator",
    "vector": "centred_calibrators.VectorCalibrator",
    "matrix": "centred_calibrators.MatrixCalibrator",
    "monotone": "calibrators.MonotoneCalibrator",
    "bins": "binned_calibrator.BinnedCalibrator",
    "mixed": "binned_calibrator.MixedCalibrator",
}
_KIND_OF = {f"obil.serving.{home}": kind for kind, home in _KINDS.items()}


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


def write_record(record: Any, into: Written, name: str = "", kind: str | None = None) -> dict[str, Any]:
    """Return what JSON keeps of a record; `name` is its path from the model."""
    if kind is None and id(record) in into.names:
        return {"same_as": into.names[id(record)]}
    into.names[id(record)] = name
    saved: dict[str, Any] = {} if kind is None else {"kind": kind}
    cls: Any = type(record)
    for own, hint in _hints(cls).items():
        value, key = getattr(record, own), own.rstrip("_")
        mark = _mark(hint)
        if mark == SKOPS:
            from obil.serving.estimator_file import write_estimator  # noqa: PLC0415  # skops, for wrapped estimators

            saved[key] = f"{name}.{SKOPS}"
            into.files[saved[key]] = write_estimator(value)
        elif mark == ONNX:
            saved[key] = f"{name}.{ONNX}"
            into.files[saved[key]] = value
        else:
            saved[key] = value.tolist() if mark == JSON else _write(hint, value, into, f"{name}.{key}".lstrip("."))
    return saved


def read_record(cls: Any, saved: Mapping[str, Any], source: Stored, name: str = "") -> Any:
    """Return the record that `write_record` told of, checked by its own `require_sound` where it has one.

    Arrays and files must have the names that follow from where they belong, so that none is read twice.
    """
    values = {}
    for own, hint in _hints(cls).items():
        key = own.rstrip("_")
        if key not in saved:
            raise InvalidInputError(f"{name or 'the manifest'} lacks {key!r}: save the model again with this version")
        told, mark = saved[key], _mark(hint)
        if mark == SKOPS:
            from obil.serving.estimator_file import read_estimator  # noqa: PLC0415  # skops, for wrapped estimators

            values[own] = read_estimator(source.path(_own(told, f"{name}.{SKOPS}")), trusted=source.trusted)
        elif mark == ONNX:
            from obil.serving.networks.onnx_file import read_onnx  # noqa: PLC0415  # only for a graph

            values[own] = read_onnx(source.path(_own(told, f"{name}.{ONNX}")))
        else:
            values[own] = _read(hint, told, source, f"{name}.{key}".lstrip("."))
    record = source.parts[name] = cls(**values)
    if hasattr(record, "require_sound"):
        record.require_sound()
    return record


@cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: hints[each.name] for each in fields(cls) if each.init}


def _mark(hint: Any) -> Any:
    """Return what a field is annotated with: JSON, SKOPS, ONNX or the type of an array of structures."""
    return hint.__metadata__[0] if get_origin(hint) is Annotated else None


def _present(hint: Any) -> Any:
    """Return the type of a field where it is not None."""
    return get_args(hint)[0] if get_origin(hint) is UnionType and NoneType in get_args(hint) else hint


def _write(hint: Any, value: Any, into: Written, path: str) -> Any:
    if isinstance(value, np.ndarray):  # one of structures is stored field by field
        into.arrays |= {f"{path}.{part}": value[part] for part in value.dtype.names or ()} or {path: value}
        return path
    hint = _present(hint)
    if isinstance(value, tuple):
        return [_write(get_args(hint)[0], each, into, f"{path}{place}") for place, each in enumerate(value)]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if is_dataclass(hint):
        return write_record(value, into, path)
    kind = _KIND_OF.get(f"{type(value).__module__}.{type(value).__qualname__}")
    if kind is None:
        raise ModelFileError(f"a model with a {type(value).__name__} cannot be saved: it has no file format")
    return write_record(value, into, path, kind)


def _read(hint: Any, saved: Any, source: Stored, path: str) -> Any:  # noqa: PLR0911  # one for each type
    if saved is None and _present(hint) is not hint:
        return None
    hint, mark = _present(hint), _mark(hint)
    if mark == JSON:
        return np.array(saved, dtype=None if get_args(hint)[0] == npt.NDArray[Any] else np.float64)
    if mark is not None:
        name = _own(saved, path)
        return pack(mark, **{part: _array(mark[part], f"{name}.{part}", source) for part in mark.names})
    if get_origin(hint) is np.ndarray:
        return _array(np.dtype(get_args(get_args(hint)[1])[0]), _own(saved, path), source)
    if get_origin(hint) is tuple:
        if type(saved) is not list:
            _refuse(path, "a list", saved)
        return tuple(_read(get_args(hint)[0], each, source, f"{path}{place}") for place, each in enumerate(saved))
    if hint in (str, bool, int, float):
        if type(saved) is not hint and not (hint is float and type(saved) is int):
            _refuse(path, hint.__name__, saved)
        return hint(saved)
    if type(saved) is not dict:
        _refuse(path, "a record", saved)
    if is_dataclass(hint):
        if "same_as" not in saved:
            return read_record(hint, saved, source, path)
        shared = source.parts.get(saved["same_as"])
        return shared if type(shared) is hint else _refuse(path, "a part of that kind", saved["same_as"])
    kind = saved.get("kind")
    if kind not in _KINDS:
        raise ModelFileError(f"{path} is of the kind {kind!r:.40}, which this version does not know: update obil")
    module, name = _KINDS[kind].rsplit(".", 1)
    cls = getattr(import_module(f"obil.serving.{module}"), name)
    record = read_record(cls, saved, source, path)
    allowed = get_args(hint) or (hint,)
    return record if isinstance(record, allowed) else _refuse(path, f"a {allowed[0].__name__}", name)


def _own(saved: Any, name: str) -> str:
    """Return the name of an array or a file, which follows from the place of its field."""
    return name if saved == name else _refuse(name, f"stored as {name!r}", saved)


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
