"""Append decisions to a file line by line, and cut it back to the last checkpoint."""

import csv
import hashlib
import io
import json
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from obil.cli.appended_file import AppendedFile
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision import Decisions
from obil.online.state.checkpoint import Checkpoint

COLUMNS = ("row", "label", "posterior", "effective_prior", "log_ratio", "threshold", "trusted", "reachable")

JSON_LINES = "json lines"  # in front of the names, where the output is no CSV


def header_of(classes: Sequence[Any], keep: Sequence[str]) -> list[str]:
    """Return the names of the output's columns; more than two classes have a posterior, prior and ratio each.

    >>> header_of(["a", "b", "c"], ["id"])[2:6]
    ['posterior_a', 'posterior_b', 'posterior_c', 'effective_prior_a']
    """
    header: list[str] = []
    for name in COLUMNS:
        by_class = len(classes) > 2 and name in {"posterior", "effective_prior", "log_ratio"}
        header += [f"{name}_{label}" for label in classes] if by_class else [name]
    return [*header, *(f"{name}_kept" if name in header else name for name in keep)]


def numbers_of(
    header: Sequence[str], kept: Sequence[str], classes: npt.NDArray[Any]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return which columns of the output are numbers, and which are whole ones; the others are text.

    >>> import numpy as np
    >>> numbers_of(header_of([0, 1], ["id"]), ["id"], np.array([0, 1]))[1]
    ['row', 'trusted', 'reachable', 'label']
    """
    whole = ["row", "trusted", "reachable", *(["label"] if classes.dtype.kind in "iu" else [])]
    own = header[: len(header) - len(kept)]
    return [name for name in own if name not in (*whole, "label")], whole


def columns_of(decisions: Decisions, rows: range, kept: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the columns of decisions of rows, kept ones last; numbers are written so that they read back exactly.

    Two classes show the positive one, so that `log_ratio > threshold` is the alert.
    """
    posteriors, priors, ratios = decisions.posteriors, decisions.effective_priors, decisions.log_ratios
    if ratios.shape[1] == 2:
        shown = 1 if decisions.positive is None else decisions.positive
        posteriors, priors = posteriors[:, [shown]], priors[:, [shown]]
        ratios = ratios[:, [1]] if shown == 1 else -ratios[:, [1]]
    thresholds = decisions.thresholds
    return [
        rows,
        decisions.labels.tolist(),
        *(posteriors + 0.0).T.tolist(),  # -0.0 has a sign without a meaning
        *map(_texts, (priors + 0.0).T.tolist()),
        *(ratios + 0.0).T.tolist(),
        [""] * len(decisions) if thresholds is None else _texts((thresholds + 0.0).tolist()),
        decisions.trusted.astype(int).tolist(),
        decisions.reachable.astype(int).tolist(),
        *(list(map(kept_cell, cells)) for cells in kept),
    ]


def kept_cell(value: Any) -> Any:
    """Return a kept cell as it was read: missing ones empty, whole numbers without a point."""
    if not isinstance(value, float):
        return value
    if value != value:  # noqa: PLR0124  # NaN
        return ""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


class DecisionLog:
    """The output of one stream: a file that ends where the checkpoint says, or standard output."""

    def __init__(self, path: Path | None, header: list[str], *, json_lines: bool = False) -> None:
        self.path = path
        self.header = [JSON_LINES, *header] if json_lines else header  # what a checkpoint knows the output by
        self._names, self._json_lines = header, json_lines
        self._start = b'{"row": 0, ' if json_lines else csv_text([header])
        self.n_bytes = 0
        self.last_line = b""
        self._file = None if path is None else AppendedFile(path)

    def check(self, checkpoint: Checkpoint | None, *, overwrite: bool) -> None:
        """Refuse, changing nothing, an output that is not the one of the checkpoint."""
        if checkpoint is not None and checkpoint.header != self.header:
            raise InvalidStateError(
                f"the state belongs to an output with the columns {','.join(checkpoint.header)!r:.300}: --keep the same"
            )
        if self.path is None:
            self.n_bytes = 0 if checkpoint is None else checkpoint.out_bytes
            return
        found = self.path.stat() if self.path.exists() else None
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise InvalidInputError(f"--out must be a file, got {self.path}; - is standard output")
        size = 0 if found is None else found.st_size
        if checkpoint is None:
            if size and not overwrite:
                raise InvalidInputError(f"{self.path} exists and no state belongs to it: remove it, or --overwrite")
            return
        if size < checkpoint.out_bytes:
            raise InvalidStateError(
                f"{self.path} has {size} bytes and the state needs {checkpoint.out_bytes}: put the right file "
                "back, or remove both and start again"
            )
        if checkpoint.out_bytes == 0:
            ours = b"" if size == 0 else _part(self.path, 0, len(self._start))
            if not self._start.startswith(ours) and not overwrite:
                raise InvalidInputError(f"{self.path} holds something else than decisions: remove it, or --overwrite")
            return
        line = _part(self.path, checkpoint.out_bytes - checkpoint.last_line_bytes, checkpoint.last_line_bytes)
        if digest(line) != checkpoint.last_line:
            raise InvalidStateError(f"{self.path} is not the output that the state belongs to, or was changed")
        self.n_bytes, self.last_line = checkpoint.out_bytes, line

    def open(self) -> None:
        """Become the only writer of the file, changing nothing in it."""
        if self._file is not None:
            self._file.open()

    def cut_back(self) -> int:
        """Drop what was written after the checkpoint, and return its lines; start a new output with its header."""
        n_lines = 0
        if self._file is not None:
            self._file.n_bytes = self.n_bytes
            n_lines = self._file.cut_back()
        if self.n_bytes == 0 and not self._json_lines:
            self._write(self._start, self._start)
        return n_lines

    def append(self, columns: Sequence[Sequence[Any]]) -> None:
        """Write lines, of which these are the columns, and let readers see them."""
        # a line at a time: a million tuples would keep the collector busy
        rows = zip(*columns, strict=True)
        last = [[cells[-1] for cells in columns]]
        if self._json_lines:
            self._write(_json_text(self._names, rows), _json_text(self._names, last))
        else:
            self._write(csv_text(rows), csv_text(last))

    def _write(self, text: bytes, last_line: bytes) -> None:
        if self._file is None:
            _write_out(text)
        else:
            self._file.append(text)
        self.n_bytes += len(text)
        self.last_line = last_line

    def sync(self) -> None:
        """Make what was written outlast a crash: only then may a checkpoint count it."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Let the file go; standard output stays open."""
        if self._file is not None:
            self._file.close()


def digest(data: bytes) -> str:
    """Return the sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def csv_text(lines: Iterable[Sequence[Any]]) -> bytes:
    """Return lines of CSV, from their cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _json_text(names: Sequence[str], lines: Iterable[Sequence[Any]]) -> bytes:
    """Return a JSON object for each line, with null for what is not a number that JSON has."""
    flags = {"trusted": ("false", "true"), "reachable": ("false", "true")}
    n_own = next((place for place, name in enumerate(names) if name == "reachable"), 0) + 1
    texts: list[str] = []
    for line in lines:
        fields = []
        for place, (name, cell) in enumerate(zip(names, line, strict=True)):
            if name in flags and place < n_own:
                value = flags[name][cell]
            elif name == "label" or place >= n_own:
                value = "null" if cell == "" else json.dumps(cell, ensure_ascii=False)
            else:
                value = "null" if str(cell) in ("", "inf", "-inf") else str(cell)
            fields.append(f"{json.dumps(name)}: {value}")
        texts.append(f"{{{', '.join(fields)}}}\n")
    return "".join(texts).encode()


def _texts(numbers: list[float]) -> list[str]:
    """Return numbers as they are written, each found once: a prior rests for many rows."""
    texts = {number: repr(number) for number in set(numbers)}
    return [texts[number] for number in numbers]


def _part(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _write_out(text: bytes) -> None:
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None
