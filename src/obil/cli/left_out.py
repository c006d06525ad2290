"""Leave rows out of a stream that cannot be decided, and put them into a file."""

import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from obil.cli.appended_file import AppendedFile
from obil.cli.decision_log import csv_text
from obil.datasets.table_stream import BadRow
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.state.checkpoint import Checkpoint

FEWEST_ROWS = 1_000  # of which the largest part that may be bad is taken: one of the first ten rows is no tenth
MOST_CONSECUTIVE = 100  # with the same bad column: it is then the column that is wrong, not its cells
HEADER = ("obil_line", "obil_error")  # then the columns of the input
PRIVATE = 0o600  # a bad row may hold anything


class Numbered(NamedTuple):
    """A bad row with its number in the input, and its digest where it could be read."""

    number: int
    row: BadRow
    digest: str = ""


@dataclass(slots=True)
class LeftOut:
    """The rows that are not decided because something in them is wrong.

    A row is left out once a good row follows it, or the input ends. Until then it waits, so that a column that is wrong
    from some row on stops the stream in front of that row.
    """

    stop: bool  # at the first bad row
    max_bad: float  # of all rows, beyond which the stream stops
    file: AppendedFile | None  # where they are put
    n_rows: int = 0  # by earlier runs, too
    n_before: int = 0  # by earlier runs
    first: str = ""  # what is wrong with the first of this run
    _waiting: list[Numbered] = field(default_factory=list)
    _last: tuple[int, str | None] = (-2, None)  # the number and the column of the last bad row
    _consecutive: int = 0
    _saved_bytes: int = 0  # of a file that this run may leave alone

    @property
    def n_bytes(self) -> int:
        """How much of the file belongs to the rows left out."""
        return self._saved_bytes if self.file is None else self.file.n_bytes

    def check(self, saved: Checkpoint | None, *, overwrite: bool) -> None:
        """Refuse, changing nothing, a file that is not the one of the checkpoint."""
        if saved is not None:
            self.n_rows = self.n_before = saved.n_left_out
            self._saved_bytes = saved.left_out_bytes
        if self.file is None:
            return
        path = self.file.path
        self.file.n_bytes = self._saved_bytes
        found = path.stat() if path.exists() else None
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise InvalidInputError(f"--on-error quarantine must name a file, got {path}")
        size = 0 if found is None else found.st_size
        if size < self.file.n_bytes:
            raise InvalidStateError(
                f"{path} has {size} bytes and the state needs {self.file.n_bytes}: put the right file back"
            )
        if self.file.n_bytes == 0 and size and not overwrite and not (saved is not None and _is_ours(path)):
            raise InvalidInputError(f"{path} exists and no state belongs to it: remove it, or --overwrite")

    def refuse(self, rows: Iterable[Numbered]) -> tuple[int, InvalidInputError] | None:
        """Take bad rows; return the number of the first that must not be left out, and the error that it stops with."""
        for one in rows:
            number, row = one.number, one.row
            if self.stop:
                return number, row.error
            self._consecutive = self._consecutive + 1 if self._last == (number - 1, row.column) else 1
            self._last = (number, row.column)
            if self._consecutive >= MOST_CONSECUTIVE:
                return number, InvalidInputError(
                    f"{MOST_CONSECUTIVE} consecutive rows are bad, the last because {row.error}"
                )
            n_bad, n_read = self.n_rows + len(self._waiting) + 1, max(number + 1, FEWEST_ROWS)
            if n_bad > self.max_bad * n_read:
                return number, InvalidInputError(
                    f"{n_bad:,} of the first {n_read:,} rows are bad, more than --max-bad {100 * self.max_bad:g}% "
                    f"allows; the last because {row.error}"
                )
            self._waiting.append(one)
        return None

    def flush(self, names: Sequence[str], *, before: int) -> str:
        """Leave out the rows that wait and have a smaller number; return the digest of the last that could be read."""
        rows = [one for one in self._waiting if one.number < before]
        if not rows:
            return ""
        del self._waiting[: len(rows)]
        if self.file is not None:
            lines = [[row.line, row.error, *row.cells] for _, row, _ in rows]
            self.file.append(csv_text([[*HEADER, *names], *lines] if self.file.n_bytes == 0 else lines))
        self.n_rows += len(rows)
        self.first = self.first or str(rows[0].row.error)
        return next((one.digest for one in reversed(rows) if one.digest), "")

    def close(self) -> None:
        """Let the file go."""
        if self.file is not None:
            self.file.close()

    @property
    def first_waiting(self) -> InvalidInputError | None:
        """The error of the first row that waits."""
        return self._waiting[0].row.error if self._waiting else None


def left_out_by(on_error: str, max_bad: str) -> LeftOut:
    """Return what the options ask for.

    >>> left_out_by("skip", "2%").max_bad
    0.02
    """
    part = _part(max_bad)
    kind, equals, name = on_error.partition("=")
    if kind == "quarantine" and name:
        return LeftOut(False, part, AppendedFile(Path(name), permissions=PRIVATE))
    if kind not in ("stop", "skip") or equals:
        raise InvalidInputError(f"--on-error must be stop, skip or quarantine=FILE, got {on_error!r:.60}")
    return LeftOut(kind == "stop", part, None)


def _part(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InvalidInputError(f"--max-bad must be a part of the rows such as 1% or .01, got {text!r:.40}")
    return value


def _is_ours(path: Path) -> bool:
    start = ",".join(HEADER).encode()
    with path.open("rb") as file:
        return start.startswith(found := file.read(len(start))) and found != b""
