"""Run one stream: rows in, lines out, and checkpoints from which it resumes exactly."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from obil.arrays import FloatArray
from obil.cli.arriving import ArrivingBytes, Stopped
from obil.cli.decision_log import DecisionLog, columns_of, digest
from obil.cli.stream_times import times_of
from obil.datasets.table_stream import Columns, ColumnType, iter_table
from obil.errors import EstimationError, InvalidInputError, InvalidStateError
from obil.online.batch_invariant_scores import batch_invariant_scores
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from obil.online.state.resume import resumed
from obil.serving.ratio_model import Scores

READ_ROWS = 8_192  # at a time, where so many have arrived


@dataclass(slots=True)
class StreamRun:
    """One run of the command: rows in, lines out, states in between."""

    online: OnlineClassifier
    log: DecisionLog
    state_path: Path | None
    fingerprint: str
    keep: list[str]
    decided: list[int]  # (K,)
    every: int
    at: str | None = None  # the column that says when a row came
    last_row: str = ""
    n_before: int = 0  # rows decided by earlier runs
    saved_rows: int = -1  # rows in the last state written, -1 if there is none
    opened: bool = False
    start_prior: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.start_prior = self.online.prior

    def resume(self, saved: Checkpoint, *, change_policy: bool) -> None:
        """Resume from a state; refuse one that was made with something else."""
        if saved.model != self.fingerprint:
            raise InvalidStateError(f"{self.state_path} belongs to another model: take that one, or another --state")
        if len(saved.decided) != len(self.decided):
            raise InvalidStateError(f"{self.state_path} is damaged: its field 'decided' is wrong")
        self.online = resumed(self.online, saved.online, name=str(self.state_path), change_policy=change_policy)
        if self.online.n_rows != saved.n_rows:
            raise InvalidStateError(f"{self.state_path} is damaged: its field 'n_rows' is wrong")
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
        if not self.opened or self.state_path is None or self.saved_rows == self.online.n_rows:
            return
        if sum(self.decided) != self.online.n_rows:
            return  # rows that updated the tracker were not written: the last state is the one to resume from
        self.log.sync()
        write_checkpoint(self.state_path, self._state())
        self.saved_rows = self.online.n_rows

    def summary(self, stopped: int) -> dict[str, Any]:
        """Return what happened so far, earlier runs included."""
        online = self.online
        try:
            interval = online.interval()
        except EstimationError:
            interval = None
        names = online.model.classes_.tolist()
        return {
            "rows": online.n_rows,
            "rows_this_run": online.n_rows - self.n_before,
            "positive": online.positive,
            "alerts": None if online.positive is None else self.decided[names.index(online.positive)],
            "decided": dict(zip(names, self.decided, strict=True)),
            "prior_at_start": dict(zip(names, self.start_prior.tolist(), strict=True)),
            "prior": dict(zip(names, online.prior.tolist(), strict=True)),
            "interval_90": None if interval is None else dict(zip(names, interval.tolist(), strict=True)),
            "log_threshold": online.log_threshold,
            "out": "-" if self.log.path is None else str(self.log.path),
            "state": None if self.state_path is None else str(self.state_path),
            "stopped_by_signal": stopped or None,
        }

    def _take(self, rows: Columns, start: int, end: int, table: Path) -> None:
        """Decide rows, in parts so that no two states are further apart than was asked for."""
        while start < end:
            self._open()
            room = self.every - (self.online.n_rows - max(self.saved_rows, 0)) if self.state_path else end
            stop = min(start + room, end)
            self._decide_all(_part(rows, start, stop), stop - start, table)
            if stop - start == room:
                self.checkpoint()
            start = stop

    def _decide_all(self, rows: Columns, n_rows: int, table: Path) -> None:
        """Decide rows; where one of them cannot be scored, decide those before it and name it."""
        model, first = self.online.model, self.online.n_rows
        try:
            scores = batch_invariant_scores(model, rows, first_row=first, at=self._times(rows))
        except InvalidInputError:
            pass
        else:
            self._decide(rows, scores)
            return
        for place in range(n_rows):
            row = _part(rows, place, place + 1)
            try:
                scores = batch_invariant_scores(model, row, first_row=first + place, at=self._times(row))
            except InvalidInputError as error:
                reason = str(error).removesuffix(" in row 0")
                raise InvalidInputError(f"row {first + place} (from 0) of {_name(table)}: {reason}") from None
            self._decide(row, scores)

    def _times(self, rows: Columns) -> FloatArray | None:
        return None if self.at is None else times_of(rows[self.at], self.at)

    def _decide(self, rows: Columns, scores: Scores) -> None:
        decisions = self.online.decide_scores(scores)
        self.log.append(columns_of(decisions, [rows[name].tolist() for name in self.keep]))
        counts = np.bincount(decisions.numbers, minlength=len(self.decided))
        self.decided = (np.array(self.decided) + counts).tolist()
        self.last_row = _last_row_digest(rows)

    def _open(self) -> None:
        """Take the output when there is something to write; before that, nothing on disk is changed."""
        if self.opened:
            return
        self.log.open()
        if self.state_path is not None:
            # the output is ours from here on; what was read before may have been another run's by now
            now = read_checkpoint(self.state_path).n_rows if self.state_path.exists() else -1
            if now != self.saved_rows:
                raise InvalidInputError(f"another obil stream has just written {self.state_path}: run this again")
        if self.state_path is not None and self.saved_rows < 0:
            # the state comes first: killed before the next one, the same command knows the output as its own
            write_checkpoint(self.state_path, self._state())
        self.log.cut_back()
        self.opened = True

    def _state(self) -> Checkpoint:
        return Checkpoint(
            model=self.fingerprint,
            header=self.log.header,
            n_rows=self.online.n_rows,
            decided=list(self.decided),
            last_row=self.last_row,
            out_bytes=self.log.n_bytes,
            last_line_bytes=len(self.log.last_line),
            last_line=digest(self.log.last_line),
            online=self.online.state(),
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
        yield lambda: status.update(f"{run.online.n_rows:,} rows decided")


def _part(rows: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in rows.items()}


def _last_row_digest(rows: Columns) -> str:
    last = [values[-1] for values in rows.values()]
    return digest(repr([value if isinstance(value, str) else float(value) for value in last]).encode())


def _name(table: Path) -> str:
    return "standard input" if str(table) == "-" else str(table)
