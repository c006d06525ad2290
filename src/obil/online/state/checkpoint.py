"""Keep where a stream stands in one small file that is always whole: written aside, synced, renamed."""

import hashlib
import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from obil.arrays import is_count
from obil.errors import InvalidStateError

MAGIC = b"obil stream 4\n"  # a line, then the checksum of what follows; a line of JSON; the state
SUM_BYTES = 65
LARGEST_FILE = 64_000_000  # bytes
COUNTS = ("n_rows", "out_bytes", "last_line_bytes", "n_left_out", "left_out_bytes", "horizon", "labels_bytes")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything the next run needs to continue as if there had been no break."""

    model: str  # sha256 of the model's manifest
    header: list[str]  # of the output
    n_rows: int  # how many rows were decided
    decided: list[int]  # (K,) how many rows were given each class
    last_row: str  # sha256 of the last input row that was decided, "" if none was
    out_bytes: int  # of the output, those that belong to the decided rows
    last_line_bytes: int  # of these, those of the last line
    last_line: str  # their sha256
    online: bytes  # OnlineClassifier.state()
    n_left_out: int = 0  # how many rows were bad
    left_out_bytes: int = 0  # of the file of these rows, those that belong to them
    classes: list[str] = field(default_factory=list)  # (K,)
    horizon: int = 0  # rows that are remembered for labels
    id_column: str | None = None  # that decisions are known by; None for the row's number
    labels_bytes: int = 0  # of the journal of labels, those that were taken in
    labels_due: list[int] = field(default_factory=list)  # of the last rows, their class numbers, -1 for none

    def __post_init__(self) -> None:
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("model", "last_row", "last_line"):
            _require(isinstance(values[name], str), name)
        for name in COUNTS:
            _require(is_count(values[name]), name)
        for name, holds in (
            ("header", _is_text),
            ("classes", _is_text),
            ("decided", is_count),
            ("labels_due", self._is_due),
        ):
            _require(isinstance(values[name], list) and all(map(holds, values[name])), name)
        _require(self.id_column is None or isinstance(self.id_column, str), "id_column")
        _require(len(self.labels_due) <= self.n_rows, "labels_due")
        _require(self.last_line_bytes <= self.out_bytes, "last_line_bytes")
        _require(sum(self.decided) == self.n_rows, "decided")

    def _is_due(self, value: Any) -> bool:
        return type(value) is int and -1 <= value < len(self.decided)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file at `path`: at any moment, a crash included, it is the old one or the new one."""
    aside = path.with_name(path.name + ".tmp")  # always the same name, so that a crash leaves at most one behind
    try:
        with aside.open("wb") as file:
            file.write(pack_checkpoint(checkpoint))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:  # a full disk
        aside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
    sync_folder(path.parent)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint; whatever is wrong with the file is said in one `InvalidStateError`."""
    if path.stat().st_size > LARGEST_FILE:
        raise InvalidStateError(f"{path} is larger than any state of a stream")
    return unpack_checkpoint(path.read_bytes(), name=str(path))


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as bytes that show whether they are whole."""
    head = {one.name: getattr(checkpoint, one.name) for one in fields(checkpoint) if one.name != "online"}
    body = json.dumps(head, sort_keys=True).encode() + b"\n" + checkpoint.online
    return MAGIC + _checksum(body) + body


def unpack_checkpoint(data: bytes, *, name: str) -> Checkpoint:
    """Return the checkpoint in some bytes; `name` is what an error calls them."""
    if not data.startswith(MAGIC):
        raise InvalidStateError(f"{name} is not the state of an obil stream, or of another version")
    checksum, body = data[len(MAGIC) : len(MAGIC) + SUM_BYTES], data[len(MAGIC) + SUM_BYTES :]
    try:
        if checksum != _checksum(body):
            raise InvalidStateError("its checksum is wrong")
        line, _, online = body.partition(b"\n")
        head = json.loads(line)
        if not isinstance(head, dict) or set(head) != {one.name for one in fields(Checkpoint)} - {"online"}:
            raise InvalidStateError("its fields are not those of a state")
        return Checkpoint(**head, online=online)
    except (InvalidStateError, RecursionError, ValueError) as error:
        raise InvalidStateError(f"{name} is damaged: {error}") from None


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file outlast a power cut, where the system lets folders be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise InvalidStateError(f"its field {name!r} is wrong")
