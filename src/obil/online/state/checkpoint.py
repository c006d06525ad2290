"""Keep where a stream stands in one small file that is always whole: written aside, synced, renamed."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from obil.arrays import is_count
from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.packed_state import refuse_constant
from obil.serving.ratio_model import RatioModel

FORMAT = 2
# the parts of a state that are taken from the file; all others are settings, which must be the stream's own
COUNTED = (
    *("rows", "tally", "monitor", "labels", "history"),
    *("labels_since_alarm", "model_since", "monitoring_runs", "one_class_labels"),
)
KIND = "obil_stream"
LARGEST_FILE = 64_000_000  # bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything the next run needs to continue as if there had been no break."""

    model: str  # sha256 of the model's manifest
    header: list[str]  # of the output
    online: dict[str, Any]  # OnlineClassifier.state()
    decided: list[int]  # (K,) how many rows were given each class
    last_row: str  # sha256 of the last input row that was decided, "" if none was
    out_bytes: int  # of the output, those that belong to the decided rows
    last_line_bytes: int  # of these, those of the last line
    last_line: str  # their sha256

    def __post_init__(self) -> None:
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("model", "last_row", "last_line"):
            _require(isinstance(values[name], str), name)
        for name in ("out_bytes", "last_line_bytes"):
            _require(is_count(values[name]), name)
        for name, holds in (("header", lambda item: isinstance(item, str)), ("decided", is_count)):
            _require(isinstance(values[name], list) and all(map(holds, values[name])), name)
        _require(isinstance(values["online"], dict) and is_count(values["online"].get("rows")), "online")
        _require(self.last_line_bytes <= self.out_bytes, "last_line_bytes")
        _require(sum(self.decided) == self.online["rows"], "decided")

    @property
    def n_rows(self) -> int:
        """How many rows were decided."""
        return int(self.online["rows"])


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file at `path`: at any moment, a crash included, it is the old one or the new one."""
    record = {"kind": KIND, "format": FORMAT} | {one.name: getattr(checkpoint, one.name) for one in fields(checkpoint)}
    text = _text(record)
    text = f'{text[:-1]}, "checksum": "{_sha256(text)}"}}\n'
    aside = path.with_name(path.name + ".tmp")  # always the same name, so that a crash leaves at most one behind
    with aside.open("wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint; whatever is wrong with the file is said in one `InvalidStateError`."""
    if path.stat().st_size > LARGEST_FILE:
        raise InvalidStateError(f"{path} is larger than any state of a stream")
    try:
        record = json.loads(path.read_bytes().decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidStateError(f"{path} is damaged: it is no JSON") from None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise InvalidStateError(f"{path} is not the state of an obil stream")
    if record.get("format") != FORMAT or isinstance(record["format"], bool):
        raise InvalidStateError(f"{path} has format {record.get('format')!r:.20}, this version reads {FORMAT}")
    checksum = record.pop("checksum", None)
    try:
        if checksum != _sha256(_text(record)):
            raise InvalidStateError("its checksum is wrong")
        names = [field.name for field in fields(Checkpoint)]
        if set(record) != {"kind", "format", *names}:
            raise InvalidStateError("its fields are not those of a state")
        return Checkpoint(**{name: record[name] for name in names})
    except (InvalidStateError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidStateError(f"{path} is damaged: {error}") from None


def resumed(model: RatioModel, fresh: OnlineClassifier, saved: Mapping[str, Any], *, name: str) -> OnlineClassifier:
    """Return a classifier with the settings of `fresh` that continues where `saved` stopped.

    Only what was counted and remembered is taken from the file, and checked where it is read; everything else has to be
    what `fresh` was made with, so that a hostile file has nothing to choose.
    """
    own = json.loads(json.dumps(fresh.state()))
    tracker = saved.get("tracker")
    if not isinstance(tracker, Mapping) or not isinstance(tracker.get("memory"), Mapping):
        raise InvalidStateError(f"{name} is damaged: it holds no tracker")
    for part, meaning in (("classes", "set of classes"), ("positive", "positive class")):
        if saved.get(part) != own[part]:
            raise InvalidStateError(
                f"{name} belongs to another {meaning}: {saved.get(part)!r:.60}, not {own[part]!r:.60}"
            )
    settings = tracker.get("settings")
    if tracker.get("tracker") != own["tracker"]["tracker"]:
        raise InvalidStateError(f"{name} belongs to a stream with another tracker: {tracker.get('tracker')!r:.40}")
    if settings != own["tracker"]["settings"]:
        start = settings.get("prior") if isinstance(settings, Mapping) else None
        ours = own["tracker"]["settings"]["prior"]
        raise InvalidStateError(f"{name} belongs to a stream with another start prior: {start!r:.60}, not {ours}")
    for part, names in (("monitor", ("settings",)), ("labels", ("horizon", "unlabeled_as"))):
        given, ours = saved.get(part), own[part]
        if (given is None) != (ours is None) or (
            given is not None and (not isinstance(given, Mapping) or any(given.get(n) != ours[n] for n in names))
        ):
            raise InvalidStateError(f"{name} belongs to a stream with other settings of its {part}")
    known = own | {part: saved[part] for part in COUNTED if part in saved}
    known["tracker"] = own["tracker"] | {"memory": dict(tracker["memory"])}
    try:
        return OnlineClassifier.from_state(model, known)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
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


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, allow_nan=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise InvalidStateError(f"its field {name!r} is wrong")
