"""Run one stream: rows in, lines out, and checkpoints from which it resumes exactly."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from obil.arrays import FloatArray
from obil.cli.arriving import ArrivingBytes, Stopped
from obil.cli.decision_log import DecisionLog, columns_of, digest
from obil.cli.stream_times import times_of
from obil.datasets.table_stream import Columns, ColumnType, iter_table
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.batch_invariant_scores import batch_invariant_scores
from obil.online.state.checkpoint import Checkpoint
from obil.serving.ratio_model import Scores

if TYPE_CHECKING:
    from obil.cli.stream_keyed import KeyedStreams
    from obil.cli.stream_single import SingleStream

READ_ROWS = 8_192  # at a time, where so many have arrived


@dataclass(slots=True)
class StreamRun:
    """One run of the command: rows in, lines out, states in between."""

    streams: "SingleStream | KeyedStreams"
    log: DecisionLog
    fingerprint: str
    keep: list[str]
    decided: list[int]  # (K,)
    every: int
    at: str | None = None  # the column that says when a row came
    last_row: str = ""
    n_before: int = 0  # rows decided by earlier runs
    saved_rows: int = -1  # rows in the last state written, -1 if there is none
    opened: bool = False

    def resume(self, saved: Checkpoint, *, change_policy: bool) -> None:
        """Resume from a state; refuse one that was made with something else."""
        if saved.model != self.fingerprint:
            raise InvalidStateError(f"{self.streams.path} belongs to another model: take that one, or another --state")
        if len(saved.decided) != len(self.decided):
            raise InvalidStateError(f"{self.streams.path} is damaged: its field 'decided' is wrong")
        self.streams.resume(saved, change_policy=change_policy)
        self.decided, self.last_row = list(saved.decided), saved.last_row
        self.n_before = self.saved_rows = saved.n_rows

    def go(self, table: Path, types: dict[str, ColumnType], *, live: bool, quiet: bool) -> int:
        """Decide everything that comes; return the signal that stopped it, or 0 at the end of the input."""
        to_skip = 0 if live else self.n_before
        n_read = 0
        with ArrivingBytes(table, on_pause=self.checkpoint) as source, _progress(self, quiet=quiet) as show:
            # rows to pass over are parsed all the same: what the first numbers say about decimal marks, and
            # so which later row is a bad one, must not depend on where a run started
            chunks = iter_table(cast("IO[bytes]", source), chunk_rows=READ_ROWS, types=types)
            try:
                for rows, n_now in chunks:
                    passed = min(max(to_skip - n_read, 0), n_now - n_read)
                    if passed and n_read + passed == to_skip:
                        self._require_last_row(_part(rows, passed - 1, passed), table)
                    self._take(rows, passed, n_now - n_read, table)
                    n_read = n_now
                    show()
            except Stopped as stopped:
                self.checkpoint()
                return stopped.signal_number
            except InvalidInputError:
                self.checkpoint()
                raise
        if n_read < to_skip:
            raise InvalidInputError(
                f"the state has {to_skip} rows decided and {table} has only {n_read}: give the same input, "
                "or --live if it continues where it stopped"
            )
        self._open()
        self.checkpoint()
        return 0

    def checkpoint(self) -> None:
        """Write the state, after the output that it counts is safe."""
        if not self.opened or self.streams.path is None or self.saved_rows == self.streams.n_rows:
            return
        if sum(self.decided) != self.streams.n_rows:
            return  # rows that updated a tracker were not written: the last state is the one to resume from
        self.log.sync()
        self.streams.write(self._state())
        self.saved_rows = self.streams.n_rows

    def summary(self, stopped: int) -> dict[str, Any]:
        """Return what happened so far, earlier runs included."""
        streams, names = self.streams, self.streams.model.classes_.tolist()
        return {
            "rows": streams.n_rows,
            "rows_this_run": streams.n_rows - self.n_before,
            "positive": streams.positive,
            "alerts": None if streams.positive is None else self.decided[names.index(streams.positive)],
            "decided": dict(zip(names, self.decided, strict=True)),
            **streams.summary(),
            "out": "-" if self.log.path is None else str(self.log.path),
            "state": None if streams.path is None else str(streams.path),
            "stopped_by_signal": stopped or None,
        }

    def _take(self, rows: Columns, start: int, end: int, table: Path) -> None:
        """Decide rows, in parts so that no two states are further apart than was asked for."""
        while start < end:
            self._open()
            room = self.every - (self.streams.n_rows - max(self.saved_rows, 0)) if self.streams.path else end
            stop = min(start + room, end)
            self._decide_all(_part(rows, start, stop), stop - start, table)
            if stop - start == room:
                self.checkpoint()
            start = stop

    def _decide_all(self, rows: Columns, n_rows: int, table: Path) -> None:
        """Decide rows; where one of them cannot be scored, decide those before it and name it."""
        first = self.streams.n_rows
        try:
            scores = self._score(rows, first)
        except InvalidInputError:
            pass
        else:
            self._decide(rows, scores)
            return
        for place in range(n_rows):
            row = _part(rows, place, place + 1)
            try:
                scores = self._score(row, first + place)
            except InvalidInputError as error:
                reason = str(error).removesuffix(" in row 0")
                raise InvalidInputError(f"row {first + place} (from 0) of {_name(table)}: {reason}") from None
            self._decide(row, scores)

    def _score(self, rows: Columns, first: int) -> Scores:
        self.streams.require_keys(rows)
        return batch_invariant_scores(self.streams.model, rows, first_row=first, at=self._times(rows))

    def _times(self, rows: Columns) -> FloatArray | None:
        return None if self.at is None else times_of(rows[self.at], self.at)

    def _decide(self, rows: Columns, scores: Scores) -> None:
        decisions = self.streams.decide(rows, scores)
        self.log.append(columns_of(decisions, [rows[name].tolist() for name in self.keep]))
        counts = np.bincount(decisions.numbers, minlength=len(self.decided))
        self.decided = (np.array(self.decided) + counts).tolist()
        self.last_row = _last_row_digest(rows)

    def _open(self) -> None:
        """Take the output when there is something to write; before that, nothing on disk is changed."""
        if self.opened:
            return
        self.log.open()
        if self.streams.path is not None:
            self.streams.open()
            # the output is ours from here on; what was read before may have been another run's by now
            saved = self.streams.read()
            if (-1 if saved is None else saved.n_rows) != self.saved_rows:
                raise InvalidInputError(f"another obil stream has just written {self.streams.path}: run this again")
        if self.streams.path is not None and self.saved_rows < 0:
            # the state comes first: killed before the next one, the same command knows the output as its own
            self.streams.write(self._state())
        self.log.cut_back()
        self.opened = True

    def _state(self) -> Checkpoint:
        return Checkpoint(
            model=self.fingerprint,
            header=self.log.header,
            n_rows=self.streams.n_rows,
            decided=list(self.decided),
            last_row=self.last_row,
            out_bytes=self.log.n_bytes,
            last_line_bytes=len(self.log.last_line),
            last_line=digest(self.log.last_line),
            online=self.streams.state(),
        )

    def _require_last_row(self, rows: Columns, table: Path) -> None:
        if _last_row_digest(rows) != self.last_row:
            raise InvalidInputError(
                f"row {self.n_before - 1} (from 0) of {_name(table)} is not the one that was decided: give the same "
                "input, or --live if it continues where it stopped"
            )


@contextmanager
def _progress(run: StreamRun, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Give a function that shows how far the run is, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Waiting for rows...") as status:
        yield lambda: status.update(f"{run.streams.n_rows:,} rows decided")


def _part(rows: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in rows.items()}


def _last_row_digest(rows: Columns) -> str:
    last = [values[-1] for values in rows.values()]
    return digest(repr([value if isinstance(value, str) else float(value) for value in last]).encode())


def _name(table: Path) -> str:
    return "standard input" if str(table) == "-" else str(table)
