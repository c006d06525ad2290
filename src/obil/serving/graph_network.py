"""Run a trained network as a list of plain steps in numpy: what torch trained is served without it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import as_floats
from obil.errors import InvalidInputError, ModelFileError
from obil.serving.operations import OPERATIONS, settled
from obil.serving.step_arguments import DTYPES, LARGEST_ARRAY, Array, require_arguments

INPUT = "input"  # the name of the rows among the values that steps refer to
INPUT_DTYPES = ("float32", "int64")
LARGEST_GRAPH = 20_000  # steps
CHUNK_ELEMENTS = 2**19  # of the largest array of a chunk of rows: small enough for the cache
LARGEST_CHUNK = 16_384  # rows

Reference = str | tuple[str | int | None, ...]  # a value's name; or a list in which texts are names
Attribute = None | bool | int | float | str | tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: the name of its result, the values it takes, and its fixed settings."""

    name: str
    op: str
    inputs: Mapping[str, Reference]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def references(self) -> Iterator[str]:
        """Give the name of every value that the step takes."""
        for reference in self.inputs.values():
            for part in (reference,) if isinstance(reference, str) else reference:
                if isinstance(part, str):
                    yield part

    def compute(self, values: Mapping[str, Any], *, checked: bool = True) -> Any:
        """Return the result, given the values computed before; with `checked` off, check the arguments first."""
        function = OPERATIONS[self.op]
        arguments: dict[str, Any] = dict(self.attributes)
        for name, reference in self.inputs.items():
            if isinstance(reference, str):
                arguments[name] = values[reference]
            else:
                arguments[name] = [values[part] if isinstance(part, str) else part for part in reference]
        if not checked:
            require_arguments(function, arguments)
        return settled(function(**arguments))


@dataclass(frozen=True, slots=True, eq=False)
class GraphNetwork:
    """A network as steps and tensors. Immutable, thread safe, and tried out on rows of zeros when it is made.

    >>> double = Step("doubled", "mul", {"x": "input"}, {"other": 2})
    >>> GraphNetwork((double,), {}, input_shape=(3,), input_dtype="float32", output="doubled").outputs([[1, 2, 3]])
    array([[2., 4., 6.]], dtype=float32)
    """

    steps: tuple[Step, ...]
    tensors: Mapping[str, Array]
    input_shape: tuple[int, ...]  # of one row
    input_dtype: str  # "float32" or "int64"
    output: str  # the name of the value that is the answer
    output_shape: tuple[int, ...] = field(init=False)  # of one row
    rows_at_once: int = field(init=False)
    _spent: tuple[tuple[str, ...], ...] = field(init=False, repr=False)  # values last used by each step

    def __post_init__(self) -> None:
        self._require_types()
        self._require_references()
        object.__setattr__(self, "_spent", self._last_uses())
        # two sizes of batch: the outputs must follow, and the difference tells what a row costs
        shapes, sizes = zip(*(self._try_out(rows) for rows in (2, 3)), strict=True)
        if not all(shape[:1] == (rows,) for shape, rows in zip(shapes, (2, 3), strict=True)) or (
            shapes[0][1:] != shapes[1][1:]
        ):
            raise InvalidInputError(f"a network gives one output a row, got shapes {shapes} for 2 and 3 rows")
        growth = max(third - second for second, third in zip(*sizes, strict=True))
        object.__setattr__(self, "output_shape", shapes[0][1:])
        object.__setattr__(self, "rows_at_once", max(1, min(LARGEST_CHUNK, CHUNK_ELEMENTS // max(growth, 1))))

    def outputs(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the network's outputs, (n, ...) float32, of rows (n, *input_shape), a chunk at a time."""
        rows = self.as_rows(X)
        result = np.empty((len(rows), *self.output_shape), np.float32)
        for start in range(0, len(rows), self.rows_at_once):
            chunk = rows[start : start + self.rows_at_once]
            outputs = self._run(chunk)
            if outputs.shape != (len(chunk), *self.output_shape):
                raise InvalidInputError(f"a network gives one output a row, got {outputs.shape} for {len(chunk)} rows")
            result[start : start + len(chunk)] = outputs
        return result

    def as_rows(self, X: Any) -> Array:
        """Return rows in the shape and type that the network takes, or say what is wrong with them."""
        try:
            rows = np.asarray(X)
        except ValueError:
            raise InvalidInputError(f"rows must have shape (n, {_shown(self.input_shape)}), got ragged ones") from None
        if rows.ndim == 0 or rows.shape[1:] != self.input_shape:
            raise InvalidInputError(f"rows must have shape (n, {_shown(self.input_shape)}), got {rows.shape}")
        if rows.dtype.kind == "O":
            rows = as_floats(rows, "rows")
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError(f"rows must be numbers, got dtype {rows.dtype}")
        if self.input_dtype == "int64" and rows.dtype.kind == "f" and not _are_whole(rows):
            raise InvalidInputError("rows must be whole numbers: this network looks them up")
        with np.errstate(over="ignore"):  # an infinity shows in the outputs
            return np.ascontiguousarray(rows, dtype=DTYPES[self.input_dtype])

    def describe(self) -> dict[str, Any]:
        """Return what a model file's JSON has to keep."""
        return {
            "input_shape": list(self.input_shape),
            "input_dtype": self.input_dtype,
            "output": self.output,
            "steps": [
                {
                    "name": step.name,
                    "op": step.op,
                    "inputs": {name: _listed(reference) for name, reference in step.inputs.items()},
                    "attributes": {name: _to_json(value) for name, value in step.attributes.items()},
                }
                for step in self.steps
            ],
        }

    def arrays(self) -> dict[str, Array]:
        """Return what a model file's tensors have to keep."""
        return dict(self.tensors)

    @classmethod
    def rebuild(cls, described: Any, arrays: Mapping[str, Array]) -> "GraphNetwork":
        """Return the network that `describe` and `arrays` told of, or refuse: a file can hold anything."""
        try:
            steps = [
                Step(
                    name=_text(saved["name"]),
                    op=_text(saved["op"]),
                    inputs={name: _reference(part) for name, part in saved["inputs"].items()},
                    attributes={name: _attribute(value) for name, value in saved["attributes"].items()},
                )
                for saved in described["steps"]
            ]
            return cls(
                steps=tuple(steps),
                tensors=dict(arrays),
                input_shape=tuple(described["input_shape"]),
                input_dtype=described["input_dtype"],
                output=described["output"],
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ModelFileError(f"the description of a network is incomplete: {type(error).__name__}") from None
        except InvalidInputError as error:
            raise ModelFileError(f"this is no network that can be served: {error}") from None

    def _require_types(self) -> None:
        if self.input_dtype not in INPUT_DTYPES:
            raise InvalidInputError(f"rows are of {' or '.join(INPUT_DTYPES)}, got {self.input_dtype!r:.40}")
        lengths = self.input_shape
        if not all(type(length) is int and length > 0 for length in lengths) or math.prod(lengths) > LARGEST_ARRAY:
            raise InvalidInputError(f"the shape of a row must be of positive numbers, got {lengths!r:.60}")
        if not 0 < len(self.steps) <= LARGEST_GRAPH:
            raise InvalidInputError(f"a network has 1 to {LARGEST_GRAPH:,} steps, got {len(self.steps):,}")
        for name, values in self.tensors.items():
            if values.dtype.name not in DTYPES:
                kinds = ", ".join(DTYPES)
                raise InvalidInputError(f"a network's tensors are {kinds}, got {values.dtype} for {name!r:.60}")
            if values.dtype == np.float32 and np.isnan(values).any():
                raise InvalidInputError(f"a network's tensors must be numbers, got NaN in {name!r:.60}")

    def _require_references(self) -> None:
        known = {INPUT, *self.tensors}
        if len(known) != 1 + len(self.tensors):
            raise InvalidInputError(f"no tensor may be called {INPUT!r}: that names the rows")
        for step in self.steps:
            if step.op not in OPERATIONS:
                raise InvalidInputError(f"this version knows no operation {step.op!r:.60}")
            if step.name in known:
                raise InvalidInputError(f"each value of a network has its own name, got {step.name!r:.60} twice")
            for name in step.references():
                if name not in known:
                    raise InvalidInputError(f"step {step.name!r:.60} takes {name!r:.60}, which no step before it gives")
            if set(step.inputs) & set(step.attributes):
                raise InvalidInputError(f"step {step.name!r:.60} states one argument twice")
            known.add(step.name)
        if self.output not in {step.name for step in self.steps}:
            raise InvalidInputError(f"the output must be a step's result, got {self.output!r:.60}")

    def _last_uses(self) -> tuple[tuple[str, ...], ...]:
        last = {step.name: number for number, step in enumerate(self.steps)}
        last |= {name: number for number, step in enumerate(self.steps) for name in step.references()}
        spent: list[list[str]] = [[] for _ in self.steps]
        for name, number in last.items():
            if name != self.output:
                spent[number].append(name)
        return tuple(tuple(names) for names in spent)

    def _try_out(self, n_rows: int) -> tuple[tuple[int, ...], list[int]]:
        sizes: list[int] = []
        result = self._run(np.zeros((n_rows, *self.input_shape), DTYPES[self.input_dtype]), sizes)
        if not isinstance(result, np.ndarray) or result.dtype != np.float32:
            raise InvalidInputError("a network's output must be an array of floats")
        return result.shape, sizes

    def _run(self, rows: Array, sizes: list[int] | None = None) -> Any:
        """Return the output of a batch; `sizes` asks for checked arguments and takes the size of each result."""
        values: dict[str, Any] = {**self.tensors, INPUT: rows}
        with np.errstate(all="ignore"):  # infinities may be meant; what they do shows in the outputs
            for step, spent in zip(self.steps, self._spent, strict=True):
                try:
                    result = step.compute(values, checked=sizes is None)
                except (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError) as error:
                    reason = (str(error).splitlines() or [type(error).__name__])[0]
                    raise InvalidInputError(f"step {step.name!r:.60} ({step.op}) fails: {reason:.200}") from None
                if sizes is not None:
                    sizes.append(result.size if isinstance(result, np.ndarray) else 0)
                values[step.name] = result
                for name in spent:
                    del values[name]
        return values[self.output]


def _are_whole(rows: Array) -> bool:
    return bool((np.isfinite(rows) & (rows == np.floor(rows)) & (np.abs(rows) < 2.0**53)).all())


def _shown(shape: Sequence[int]) -> str:
    return ", ".join(str(length) for length in shape)


def _listed(reference: Reference) -> str | list[str | int | None]:
    return reference if isinstance(reference, str) else list(reference)


def _to_json(value: Attribute) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no infinities
    return list(value) if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"a name must be a text, got {value!r:.40}")
    return value


def _reference(saved: Any) -> Reference:
    if isinstance(saved, list) and all(part is None or type(part) in (str, int) for part in saved):
        return tuple(saved)
    return _text(saved)


def _attribute(saved: Any) -> Attribute:
    if saved is None or type(saved) in (bool, int, float, str):
        plain: Attribute = saved
        return plain
    if isinstance(saved, list) and all(part is None or type(part) is int for part in saved):
        return tuple(saved)
    if isinstance(saved, dict) and saved.get("float") in ("inf", "-inf", "nan"):
        return float(saved["float"])
    raise InvalidInputError(f"a step's setting must be a number, a text or a list of numbers, got {saved!r:.60}")
