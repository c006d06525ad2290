"""Keep with a model what its training table was like: how far each column reached, and digests of the rows."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import typer

from obil.arrays import FloatArray, as_integer
from obil.errors import ModelFileError
from obil.serving.columns import ColumnEncoder
from obil.serving.files import saved_beside
from obil.serving.ratio_model import RatioModel

FILE = "training_table.json"  # beside the model's own
MOST_DIGESTS = 100_000
FEWEST_VALUES = 20  # of a column, in a table whose rows seldom repeat by themselves
REPEATED = 0.01  # of the rows
MIDDLE = (0.01, 0.99)

Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTable:
    """Limits beyond which a number is far outside, and digests of 8 bytes of the rows: no row can be read from them.

    Of a long table every `one_in`-th digest is kept, by its value.

    >>> encoder = ColumnEncoder.fit({"age": np.arange(101.0), "size": np.zeros(101)})
    >>> known = TrainingTable.of({"age": np.arange(101.0), "size": np.zeros(101)}, encoder)
    >>> known.limits
    {'age': (-98.0, 198.0), 'size': (0.0, 0.0)}
    >>> known.n_seen({"age": [5.0, 5.5], "size": [0.0, 0.0]}, encoder)
    1
    """

    limits: Mapping[str, tuple[float, float]]  # of columns of numbers
    digests: Digests  # (n,) in increasing order
    one_in: int = 1

    @classmethod
    def of(cls, table: Any, encoder: ColumnEncoder) -> "TrainingTable":
        """Return what is kept of a table."""
        matrix = encoder.encode(table)
        numbers = [place for place, column in enumerate(encoder.columns) if not column.is_category]
        finite = {place: matrix[np.isfinite(matrix[:, place]), place] for place in numbers}
        limits = {encoder.names[place]: _limits(values) for place, values in finite.items() if values.size}
        repeats_by_itself = len(encoder.columns) == 1 or not any(
            len(np.unique(matrix[:, place])) >= FEWEST_VALUES for place in numbers
        )
        if repeats_by_itself:
            return cls(limits, np.empty(0, dtype=np.uint64))
        one_in = -(-len(matrix) // MOST_DIGESTS)
        return cls(limits, np.unique(_kept(_digests(matrix), one_in)), one_in)

    def n_seen(self, table: Any, encoder: ColumnEncoder) -> int:
        """Return how many rows of a table are rows of this one; about so many where digests were left out."""
        if not self.digests.size:
            return 0
        digests = _digests(encoder.encode(table))
        n_seen = int(np.isin(_kept(digests, self.one_in), self.digests).sum())
        return min(n_seen * self.one_in, len(digests))

    def to_bytes(self) -> bytes:
        """Return the file."""
        digests = base64.b64encode(self.digests.astype("<u8").tobytes()).decode("ascii")
        return json.dumps({"limits": dict(self.limits), "one_in": self.one_in, "digests": digests}).encode()

    @classmethod
    def read(cls, model: Path) -> "TrainingTable | None":
        """Return what a model folder keeps; None where it was not written by `obil fit`."""
        data = saved_beside(model, FILE)
        if data is None:
            return None
        try:
            saved = json.loads(data)
            limits = {str(name): (float(low), float(high)) for name, (low, high) in saved["limits"].items()}
            digests = np.frombuffer(base64.b64decode(saved["digests"], validate=True), dtype="<u8")
            return cls(limits, digests.astype(np.uint64), as_integer("one_in", saved["one_in"], 1))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{model / FILE} is damaged: {error}") from None


def kept_beside(model: Path) -> dict[str, bytes]:
    """Return the file of a model folder, to be saved beside another model of the same training table."""
    data = saved_beside(model, FILE)
    return {} if data is None else {FILE: data}


def warn_of_seen_rows(model: RatioModel, folder: Path, rows: Any, n_rows: int, table: Path) -> None:
    """Say on standard error that rows by which a model is judged were in its training table."""
    known = TrainingTable.read(folder)
    if known is None or model.encoder is None:
        return
    n_seen = known.n_seen(rows, model.encoder)
    if n_seen >= max(REPEATED * n_rows, 2):
        about = "about " if known.one_in > 1 else ""
        typer.echo(
            f"Note: {about}{n_seen:,} of the {n_rows:,} rows of {table} are rows of the training table too, which the "
            "model knows: leave them out, and cut hold-outs before fitting",
            err=True,
        )


def _limits(values: FloatArray) -> tuple[float, float]:
    """Return the extremes of finite numbers, each moved outwards by the width of their middle 98 %."""
    low, high = float(values.min()), float(values.max())
    first, last = np.quantile(values, MIDDLE).tolist()
    width = last - first or high - low
    return low - width, high + width


def _digests(matrix: FloatArray) -> Digests:
    """Return a digest of each row, (n,)."""
    rows = np.ascontiguousarray(matrix) + 0.0  # -0.0 is 0.0
    rows[np.isnan(rows)] = np.nan  # of which there are many
    return np.frombuffer(b"".join(blake2b(row, digest_size=8).digest() for row in rows), dtype="<u8").astype(np.uint64)


def _kept(digests: Digests, one_in: int) -> Digests:
    kept: Digests = digests[digests % np.uint64(one_in) == 0]
    return kept
