"""Score rows with ONNX Runtime: networks that torch trained, and classifiers that are only an ONNX file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats, as_prior
from obil.errors import InvalidInputError, ModelFileError
from obil.serving.networks.heads import HEADS, as_training_prior, scores_of_outputs
from obil.serving.networks.onnx_file import read_onnx, require_standard
from obil.serving.records import ONNX, JsonFloats
from obil.serving.scorers import SMALLEST_FLOOR, ColumnScorer, OutputScorer

CHUNK_ROWS = 256
INPUT_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
OUTPUT_TYPES = ("tensor(float)", "tensor(double)")
ROUNDING = 1e-6  # how far a float32 probability may lie outside [0, 1]
READINGS = (*HEADS, "probability", "margin")


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNetwork:
    """An ONNX graph with one input of rows and one output of numbers, run on one thread. Thread safe."""

    content: Annotated[bytes, ONNX] = field(repr=False)  # of the file
    session: Any = field(init=False, repr=False)
    input_name: str = field(init=False)
    input_type: str = field(init=False)  # a key of INPUT_DTYPES
    input_shape: tuple[int | None, ...] = field(init=False)  # of one row; None where any length is taken
    output_name: str = field(init=False)
    output_shape: tuple[int | None, ...] = field(init=False)  # of one row

    def __post_init__(self) -> None:
        require_standard(self.content)
        session = _session(self.content)
        inputs, output = session.get_inputs(), _only_output(session.get_outputs())
        if len(inputs) != 1 or inputs[0].type not in INPUT_DTYPES or len(inputs[0].shape) < 2:
            told = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in inputs)
            raise ModelFileError(f"an ONNX model takes one tensor of rows, float32 or int64, got {told:.200}")
        if isinstance(inputs[0].shape[0], int) or (output.shape and isinstance(output.shape[0], int)):
            raise ModelFileError(
                f"the ONNX model takes batches of {inputs[0].shape[0]} rows only: export it with a dynamic first axis"
            )
        for name, value in (
            ("session", session),
            ("input_name", inputs[0].name),
            ("input_type", inputs[0].type),
            ("input_shape", _lengths(inputs[0].shape)),
            ("output_name", output.name),
            ("output_shape", _lengths(output.shape)),
        ):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return OnnxNetwork, (self.content,)  # a session stays in its process

    @classmethod
    def read(cls, path: Path) -> "OnnxNetwork":
        """Return the network of an ONNX file, refused where it is not safe to load."""
        return cls(read_onnx(path))

    def outputs(self, X: Any) -> npt.NDArray[Any]:
        """Return the outputs of rows, (n,) or (n, outputs), a chunk at a time."""
        rows = self._as_rows(X)
        starts = range(0, max(len(rows), 1), CHUNK_ROWS)
        return np.concatenate([self._run(rows[start : start + CHUNK_ROWS]) for start in starts])

    def _run(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # one row alone takes other kernels, and so other bits, than the same row among others
        batch = rows if len(rows) > 1 else np.resize(rows, (2, *rows.shape[1:]))
        try:
            (outputs,) = self.session.run([self.output_name], {self.input_name: batch})
        except Exception as error:  # ONNX Runtime has no common error
            reason = str(error).split(" : ", 2)[-1].splitlines()[0]
            raise InvalidInputError(f"the ONNX model cannot score these rows: {reason:.300}") from None
        if outputs.ndim not in (1, 2) or len(outputs) != len(batch):
            raise InvalidInputError(f"an ONNX model gives one output per row, got {outputs.shape} for {batch.shape}")
        answers: npt.NDArray[Any] = outputs[: len(rows)]
        return answers

    def _as_rows(self, X: Any) -> npt.NDArray[Any]:
        wanted = ", ".join("any" if length is None else str(length) for length in self.input_shape)
        try:
            rows = np.asarray(X)
        except ValueError:
            raise InvalidInputError(f"rows must have shape (n, {wanted}), got ragged ones") from None
        if rows.ndim != 1 + len(self.input_shape) or any(
            length not in (None, own) for length, own in zip(self.input_shape, rows.shape[1:], strict=True)
        ):
            raise InvalidInputError(f"rows must have shape (n, {wanted}), got {rows.shape}")
        if rows.dtype.kind == "O":
            rows = as_floats(rows, "rows")
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError(f"rows must be numbers, got dtype {rows.dtype}")
        dtype = INPUT_DTYPES[self.input_type]
        if dtype is np.int64 and rows.dtype.kind == "f" and not _are_whole(rows):
            raise InvalidInputError("rows must be whole numbers: this network takes integers")
        with np.errstate(over="ignore"):  # an infinity shows in the outputs
            return np.ascontiguousarray(rows, dtype=dtype)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxScorer(OutputScorer):
    """The raw scores of an ONNX network: its outputs, read by kind, with the training prior divided out."""

    network: OnnxNetwork
    head: str  # as in `obil.serving.networks.heads`, or "probability" or "margin"
    training_prior: JsonFloats  # (K,)
    floor: float = SMALLEST_FLOOR  # of probabilities

    def __post_init__(self) -> None:
        if self.head in HEADS:
            prior = as_training_prior(self.training_prior, head=self.head)
            widths: tuple[int, ...] = (1 if self.head == "tanh" else prior.size,)
        elif self.head in READINGS:
            prior = as_prior(self.training_prior)
            widths = (1, prior.size) if prior.size == 2 else (prior.size,)
        else:
            raise InvalidInputError(f"head must be one of {', '.join(READINGS)}, got {self.head!r:.40}")
        object.__setattr__(self, "training_prior", prior)
        width = (*self.network.output_shape, 1)[0]
        if width is not None and width not in widths:
            raise InvalidInputError(
                f"the model gives {width} outputs per row: {prior.size} classes and a {self.head} head need "
                f"{' or '.join(map(str, widths))}"
            )

    @property
    def n_features(self) -> int | None:
        """The width of a row; None where rows are no vectors: the network checks their shape itself."""
        shape = self.network.input_shape
        return shape[0] if len(shape) == 1 else None

    def scores(self, X: Any) -> FloatArray:
        """Return raw scores of rows, (n, K)."""
        outputs = self.network.outputs(X)
        if self.head in HEADS:
            return scores_of_outputs(outputs, head=self.head, training_prior=self.training_prior)
        if self.head == "probability":
            outputs = within_rounding(outputs)
        return ColumnScorer(self.head, self.training_prior, self.floor).scores(outputs)


def within_rounding(outputs: npt.ArrayLike) -> FloatArray:
    """Return probabilities with those put back that rounding to float32 moved out of [0, 1].

    >>> within_rounding([0.5, 1.0000001, 3.0]).tolist()
    [0.5, 1.0, 3.0]
    """
    values = np.asarray(outputs, dtype=np.float64)
    near = (values >= -ROUNDING) & (values <= 1.0 + ROUNDING)
    return np.where(near, values.clip(0.0, 1.0), values)


def class_outputs(network: OnnxNetwork, X: Any, kind: str) -> tuple[FloatArray, str]:
    """Return a classifier's outputs of rows and their kind; "auto" takes what lies in [0, 1] for probabilities."""
    outputs = np.asarray(network.outputs(X), dtype=np.float64)
    probabilities = within_rounding(outputs)
    if kind == "auto":
        kind = "probability" if ((probabilities >= 0.0) & (probabilities <= 1.0)).all() else "margin"
    return (probabilities if kind == "probability" else outputs), kind


def _session(content: bytes) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415  # only who serves such a model pays for it
    except ModuleNotFoundError:
        raise ModelFileError(
            "this model is served by ONNX Runtime, which is not installed: pip install 'obil[onnx]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # what goes wrong is raised
    options.add_session_config_entry("session.load_model_format", "ONNX")  # and not its own format, unchecked
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has no common error
        reason = str(error).split(" : ", 2)[-1].splitlines()[0]
        raise ModelFileError(f"ONNX Runtime cannot load the model: {reason:.300}") from None


def _only_output(outputs: Any) -> Any:
    """Return the output that holds numbers; a classifier's predicted labels may stand beside it."""
    numbers = [output for output in outputs if output.type in OUTPUT_TYPES]
    if len(numbers) == 1:
        return numbers[0]
    told = ", ".join(f"{output.name}: {output.type}" for output in outputs)
    if any(output.type.startswith("seq(map") for output in outputs):
        raise ModelFileError(
            f"the ONNX model gives its probabilities as dictionaries ({told:.200}): export it without ZipMap, in "
            "skl2onnx with options={'zipmap': False}"
        )
    raise ModelFileError(f"an ONNX model must give one tensor of scores or probabilities, got {told:.200}")


def _lengths(shape: Any) -> tuple[int | None, ...]:
    return tuple(length if isinstance(length, int) else None for length in shape[1:])


def _are_whole(rows: npt.NDArray[Any]) -> bool:
    return bool((np.isfinite(rows) & (rows == np.floor(rows)) & (np.abs(rows) < 2.0**53)).all())
