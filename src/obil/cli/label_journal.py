"""Keep labels in a file beside the state of a stream, which takes them in: neither overwrites the other."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from obil.cli.appended_file import AppendedFile
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision_ids import SMALLEST_PROPENSITY

READ_BYTES = 1 << 22  # at a time


class Label(NamedTuple):
    """The true class of a decision."""

    id: str
    label: str
    propensity: float = 1.0
    key: str = ""  # of its stream, where there is one for each key


def journal_of(state: Path) -> Path:
    """Return where the labels of a stream with this state are."""
    return state.with_name(f"{state.name}.labels")


def append_labels(path: Path, labels: Sequence[Label]) -> None:
    """Append labels, a line each; they outlast a crash once this returns."""
    with closing(AppendedFile(path, permissions=0o600, writer="obil label")) as file:
        file.open()
        file.n_bytes = _whole_lines(path)  # a command that was killed left part of a line
        file.cut_back()
        file.append("".join(json.dumps(label) + "\n" for label in labels).encode())
        file.sync()


class LabelJournal:
    """The labels that a stream has still to take in.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "today.state.labels"
    ...     append_labels(path, [Label("17", "yes")])
    ...     journal = LabelJournal(path)
    ...     journal.take(), journal.take()
    ([Label(id='17', label='yes', propensity=1.0, key='')], [])
    """

    def __init__(self, path: Path, n_bytes: int = 0) -> None:
        self.path = path
        self.n_bytes = n_bytes  # taken in

    def check(self) -> None:
        """Refuse a journal that is shorter than what was taken from it."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < self.n_bytes:
            raise InvalidStateError(
                f"{self.path} has {size} bytes and the state needs {self.n_bytes}: put the right file back"
            )

    def take(self) -> list[Label]:
        """Return the labels that came since the last time."""
        if not self.path.exists() or self.path.stat().st_size == self.n_bytes:
            return []
        labels: list[Label] = []
        with self.path.open("rb") as file:
            file.seek(self.n_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                labels.append(self._read(line))
                self.n_bytes += len(line)
        return labels

    def _read(self, line: bytes) -> Label:
        try:
            decision, label, propensity, key = json.loads(line)
            one = Label(_text(decision), _text(label), float(propensity), _text(key))
            if SMALLEST_PROPENSITY <= one.propensity <= 1.0:
                return one
        except (ValueError, TypeError, RecursionError):
            pass
        raise InvalidStateError(f"{self.path} is damaged at byte {self.n_bytes}: {line[:60]!r} is no label")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def require_new(path: Path, *, overwrite: bool) -> None:
    """Refuse labels of another stream, whose rows had the same numbers."""
    if path.exists() and path.stat().st_size and not overwrite:
        raise InvalidInputError(f"{path} exists and no state belongs to it: remove it, or --overwrite")


def _whole_lines(path: Path) -> int:
    """Return how many bytes of a file are whole lines."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        while end:
            start = max(end - READ_BYTES, 0)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
