"""Run one stream: rows in, lines out, and checkpoints from which it resumes exactly."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.cli.arriving import ArrivingBytes, Stopped, is_parquet
from obil.cli.decision_log import DecisionLog, columns_of, digest, kept_cell
from obil.cli.label_column import LabelColumn
from obil.cli.label_journal import Label, LabelJournal
from obil.cli.left_out import LeftOut, Numbered
from obil.cli.stream_times import times_of
from obil.cli.unusual_rows import UnusualRows
from obil.datasets.table_stream import Chunk, Columns, ColumnType, iter_chunks
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.batch_invariant_scores import batch_invariant_scores
from obil.online.decision_ids import LONGEST_ID
from obil.online.state.checkpoint import Checkpoint
from obil.serving.ratio_model import Scores, class_named

if TYPE_CHECKING:
    from obil.cli.stream_keyed import KeyedStreams
    from obil.cli.stream_single import SingleStream

READ_ROWS = 8_192  # at a time, where so many have arrived


@dataclass(slots=True)
class StreamRun:
    """One run of the command: rows in, lines out, states in between."""

    streams: "SingleStream | KeyedStreams"
    log: DecisionLog
    left_out: LeftOut
    journal: LabelJournal | None  # None where there is no state beside which it is
    fingerprint: str
    keep: list[str]
    decided: list[int]  # (K,)
    every: int
    at: str | None = None  # the column that says when a row came
    id_column: str | None = None  # that decisions are known by; None for the row's number
    horizon: int = 0  # rows that are remembered for labels
    labels: LabelColumn | None = None  # in the rows
    json_lines: bool = False  # instead of CSV
    unusual: UnusualRows | None = None  # None where the model does not know what is usual
    last_row: str = ""
    n_before: int = 0  # rows decided by earlier runs
    saved_rows: int = -1  # rows decided in the last state written, -1 if there is none
    saved_left_out: int = 0  # rows left out in it
    saved_labels: int = 0  # bytes of the journal that it has taken in
    opened: bool = False
    names: Sequence[str] = ()  # of the columns of the input
    labels_from: int = 0  # as many rows must have been decided before labels are taken in
    n_labels: int = 0  # of this run
    n_unknown_labels: int = 0  # of these, those whose decision is not remembered

    def resume(self, saved: Checkpoint, *, change_policy: bool) -> None:
        """Resume from a state; refuse one that was made with something else."""
        if saved.model != self.fingerprint:
            raise InvalidStateError(f"{self.streams.path} belongs to another model: take that one, or another --state")
        if len(saved.decided) != len(self.decided):
            raise InvalidStateError(f"{self.streams.path} is damaged: its field 'decided' is wrong")
        if saved.id_column != self.id_column:
            raise InvalidStateError(
                f"{self.streams.path} belongs to a stream with --id {saved.id_column}, not {self.id_column}: give that"
            )
        if self.labels is not None:
            self.labels.due = list(saved.labels_due)
        if self.journal is not None:
            self.journal.n_bytes = self.saved_labels = saved.labels_bytes
            self.journal.check()
        self.streams.resume(saved, change_policy=change_policy)
        self.decided, self.last_row = list(saved.decided), saved.last_row
        self.n_before = self.saved_rows = saved.n_rows
        self.saved_left_out = saved.n_left_out

    def go(self, table: Path, types: dict[str, ColumnType], *, live: bool, quiet: bool) -> int:
        """Decide everything that comes; return the signal that stopped it, or 0 at the end of the input."""
        done = self.n_before + self.left_out.n_before  # rows of the input
        to_skip, n_read = (0, done) if live else (done, 0)
        last: Columns = {}  # the last row that was passed over and could be read
        with _source(table, types, self._pause) as source, _progress(self, source, quiet=quiet) as show:
            # rows to pass over are parsed all the same: what the first numbers say about decimal marks, and
            # so which later row is a bad one, must not depend on where a run started
            chunks = iter_chunks(
                cast("IO[bytes]", source), chunk_rows=READ_ROWS, types=types, json_lines=self.json_lines
            )
            try:
                for chunk in chunks:
                    self.names = chunk.names
                    passed = int(np.searchsorted(chunk.places, to_skip - n_read))
                    if passed:
                        last = _part(chunk.columns, passed - 1, passed)
                    if n_read < to_skip <= n_read + len(chunk.lines):
                        self._require_last_row(last, table)
                    self._take(chunk, passed, n_read, to_skip, table)
                    n_read += len(chunk.lines)
                    show()
            except Stopped as stopped:
                self._pause()
                return stopped.signal_number
            except InvalidInputError:
                self.checkpoint()
                raise
        if n_read < to_skip:
            raise InvalidInputError(
                f"the state is behind row {to_skip} and {table} has only {n_read}: give the same input, "
                "or --live if it continues where it stopped"
            )
        if self.streams.n_rows == 0 and (error := self.left_out.first_waiting) is not None:
            raise error  # no row is good: nothing shows that only some are bad
        self._open()
        self.labels_from = 0
        self._pause()
        return 0

    def checkpoint(self) -> None:
        """Write the state, after the output that it counts is safe."""
        if not self.opened or self.streams.path is None:
            return
        if sum(self.decided) != self.streams.n_rows:
            return  # rows that updated a tracker were not written: the last state is the one to resume from
        self._take_labels()
        now = (self.streams.n_rows, self.left_out.n_rows, 0 if self.journal is None else self.journal.n_bytes)
        if (self.saved_rows, self.saved_left_out, self.saved_labels) == now:
            return
        self.log.sync()
        if self.left_out.file is not None:
            self.left_out.file.sync()
        self.streams.write(self._state())
        self.saved_rows, self.saved_left_out, self.saved_labels = now

    def summary(self, stopped: int) -> dict[str, Any]:
        """Return what happened so far, earlier runs included."""
        streams, names = self.streams, self.streams.model.classes_.tolist()
        return {
            "rows": streams.n_rows,
            "rows_this_run": streams.n_rows - self.n_before,
            "left_out": self.left_out.n_rows,
            "left_out_this_run": self.left_out.n_rows - self.left_out.n_before,
            "first_left_out": self.left_out.first or None,
            "quarantine": None if self.left_out.file is None else str(self.left_out.file.path),
            "positive": streams.positive,
            "alerts": None if streams.positive is None else self.decided[names.index(streams.positive)],
            "decided": dict(zip(names, self.decided, strict=True)),
            **streams.summary(),
            "unusual": None if self.unusual is None else self.unusual.to_json(),
            "labels_this_run": self.n_labels,
            "unknown_labels_this_run": self.n_unknown_labels,
            "out": "-" if self.log.path is None else str(self.log.path),
            "state": None if streams.path is None else str(streams.path),
            "stopped_by_signal": stopped or None,
        }

    def _take_labels(self) -> None:
        """Learn the labels that have come, between two rows."""
        if self.journal is None or self.streams.n_rows < self.labels_from:
            return
        classes = self.streams.model.classes_
        for label in self.journal.take():
            self._learn(label, class_named(label.label, classes))

    def _learn(self, label: Label, number: int) -> None:
        decision = label.id if self.id_column is not None else int(label.id)
        known = self.streams.feedback(label, decision, number)
        self.n_labels += 1
        self.n_unknown_labels += not known

    def _take(self, chunk: Chunk, passed: int, first: int, to_skip: int, table: Path) -> None:
        """Decide the rows of a chunk behind those that are passed over; `first` is the number of its first row.

        It goes in parts so that no two states are further apart than was asked for.
        """
        bad = iter([Numbered(first + row.place, row) for row in chunk.bad if first + row.place >= to_skip])
        waiting = next(bad, None)
        start, n_good = passed, len(chunk.places)
        while start < n_good:
            room = self.every - self._rows_since_state() if self.streams.path else n_good
            if self.labels is not None:
                room = min(room, self.labels.block - self.streams.n_rows % self.labels.block)
            stop = min(start + room, n_good)
            before: list[Numbered] = []
            while waiting is not None and waiting.row.place < chunk.places[stop - 1]:
                before.append(waiting)
                waiting = next(bad, None)
            self._decide_part(chunk, slice(start, stop), before, first, table)
            if self._rows_since_state() >= self.every:
                self.checkpoint()
            start = stop
        self._stop_at(self.left_out.refuse([] if waiting is None else [waiting, *bad]))

    def _rows_since_state(self) -> int:
        return self.streams.n_rows - max(self.saved_rows, 0)

    def _decide_part(self, chunk: Chunk, part: slice, bad: list[Numbered], first: int, table: Path) -> None:
        """Decide good rows, up to the first bad one that is not left out; `bad` are those that could not be read."""
        places = chunk.places[part]
        rows = {name: values[part] for name, values in chunk.columns.items()}
        unscorable: list[int] = []
        scores: Scores | None
        try:
            scores = self._score(rows)
        except InvalidInputError:
            scores = None
            refused = self.left_out.refuse(merge(bad, self._unscorable(chunk, rows, places, first, table, unscorable)))
        else:
            refused = self.left_out.refuse(bad)
        if scores is None or refused is not None:
            end = len(places) if refused is None else int(np.searchsorted(places, refused[0] - first))
            good = np.setdiff1d(np.arange(end), unscorable)
            places, rows = places[good], {name: values[good] for name, values in rows.items()}
            scores = self._score(rows) if len(good) else None
        if scores is not None:
            self._open()
            self._leave_out(before=first + int(places[-1]))
            self._decide(rows, scores)
        self._stop_at(refused)

    def _unscorable(
        self, chunk: Chunk, rows: Columns, places: IntArray, first: int, table: Path, found: list[int]
    ) -> Iterator[Numbered]:
        """Yield the rows that cannot be scored, in their order; `found` gets their places in the part."""
        for place, error in self._failing(rows, 0, len(places)):
            found.append(place)
            number = first + int(places[place])
            reason = str(error).removesuffix(" in row 0")
            named = InvalidInputError(f"row {number} (from 0) of {_name(table)}: {reason}")
            digest = _last_row_digest(_part(rows, place, place + 1))
            yield Numbered(number, chunk.bad_row(int(places[place]), named), digest)

    def _failing(self, rows: Columns, start: int, stop: int) -> Iterator[tuple[int, InvalidInputError]]:
        """Yield the places of the rows that cannot be scored, found by halves."""
        try:
            self._score(_part(rows, start, stop))
        except InvalidInputError as error:
            if stop - start == 1:
                yield start, error
                return
            middle = (start + stop) // 2
            yield from self._failing(rows, start, middle)
            yield from self._failing(rows, middle, stop)

    def _stop_at(self, refused: tuple[int, InvalidInputError] | None) -> None:
        if refused is not None:
            raise refused[1] from None

    def _leave_out(self, *, before: int) -> None:
        self.last_row = self.left_out.flush(self.names, before=before) or self.last_row

    def _pause(self) -> None:
        """Write the state, with the bad rows that no good one follows yet."""
        if self.opened:
            self._leave_out(before=sys.maxsize)
        self.checkpoint()

    def _score(self, rows: Columns) -> Scores:
        self.streams.require_keys(rows)
        if self.labels is not None:
            self.labels.numbers(rows, self.streams.model)
        self._require_ids(rows)
        first = self.streams.n_rows
        return batch_invariant_scores(self.streams.model, rows, first_row=first, at=self._times(rows))

    def _require_ids(self, rows: Columns) -> None:
        if self.id_column is None:
            return
        for row, cell in enumerate(map(kept_cell, rows[self.id_column].tolist())):
            if not 1 <= len(str(cell)) <= LONGEST_ID:
                raise InvalidInputError(
                    f"column {self.id_column!r:.60} must hold an id of at most {LONGEST_ID:,} characters, got "
                    f"{str(cell)[:40]!r} in row {row}"
                )

    def _times(self, rows: Columns) -> FloatArray | None:
        return None if self.at is None else times_of(rows[self.at], self.at)

    def _decide(self, rows: Columns, scores: Scores) -> None:
        first = self.streams.n_rows
        ids = None if self.id_column is None else [str(kept_cell(cell)) for cell in rows[self.id_column].tolist()]
        decisions = self.streams.decide(rows, scores, ids)
        if self.unusual is not None:
            self.unusual.count(rows)
        if self.labels is not None:
            self.labels.due += self.labels.numbers(rows, self.streams.model)
            for label, number in self.labels.take(self.streams.n_rows):
                self._learn(label, number)
        numbers = range(first, self.streams.n_rows)
        self.log.append(columns_of(decisions, numbers, [rows[name].tolist() for name in self.keep]))
        counts = np.bincount(decisions.numbers, minlength=len(self.decided))
        self.decided = (np.array(self.decided) + counts).tolist()
        self.last_row = _last_row_digest(rows)

    def _open(self) -> None:
        """Take the output when there is something to write; before that, nothing on disk is changed."""
        if self.opened:
            return
        self.log.open()
        if self.left_out.file is not None:
            self.left_out.file.open()
        if self.streams.path is not None:
            self.streams.open()
            # the output is ours from here on; what was read before may have been another run's by now
            saved = self.streams.read()
            if (-1 if saved is None else saved.n_rows) != self.saved_rows:
                raise InvalidInputError(f"another obil stream has just written {self.streams.path}: run this again")
        if self.streams.path is not None and self.saved_rows < 0:
            if self.journal is not None:
                self.journal.path.unlink(missing_ok=True)  # of another stream, whose output is overwritten
            # the state comes first: killed before the next one, the same command knows the output as its own
            self.streams.write(self._state())
        # labels may be of rows that an earlier run decided after its last state: they are decided again first
        self.labels_from = self.streams.n_rows + self.log.cut_back()
        if self.left_out.file is not None:
            self.left_out.file.cut_back()
        self.opened = True
        self._take_labels()

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
            n_left_out=self.left_out.n_rows,
            left_out_bytes=self.left_out.n_bytes,
            classes=[str(name) for name in self.streams.model.classes_.tolist()],
            horizon=self.horizon,
            id_column=self.id_column,
            labels_due=[] if self.labels is None else self.labels.due,
            labels_bytes=0 if self.journal is None else self.journal.n_bytes,
        )

    def _require_last_row(self, rows: Columns, table: Path) -> None:
        if not rows or _last_row_digest(rows) != self.last_row:
            number = self.n_before + self.left_out.n_before - 1
            raise InvalidInputError(
                f"row {number} (from 0) of {_name(table)} is not the one that was decided: give the same "
                "input, or --live if it continues where it stopped"
            )


def _source(table: Path, types: dict[str, ColumnType], on_pause: Callable[[], None]) -> ArrivingBytes:
    if is_parquet(table):
        from obil.cli.parquet_rows import ParquetLines

        return ParquetLines(table, wanted=list(types), on_pause=on_pause)
    return ArrivingBytes(table, on_pause=on_pause)


@contextmanager
def _progress(run: StreamRun, source: ArrivingBytes, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Give a function that shows how far the run is, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    start = time.monotonic()
    with Console(stderr=True).status("Waiting for rows...") as status:
        yield lambda: status.update(
            progress_text(
                run.streams.n_rows, run.streams.n_rows - run.n_before, time.monotonic() - start, source.part_read
            )
        )


def progress_text(n_rows: int, n_here: int, seconds: float, part: float | None) -> str:
    """Return how far a run is that decided `n_here` rows in so many seconds, and read this part of its input.

    >>> progress_text(60_000, 50_000, 2.0, 0.25)
    '60,000 rows decided, 25,000 per second, 25 % read, 6 s left'
    """
    text = f"{n_rows:,} rows decided, {n_here / max(seconds, 1e-9):,.0f} per second"
    if part is None:
        return text
    left = seconds * (1.0 - part) / part if part > 0.0 else 0.0
    return f"{text}, {100 * part:.0f} % read, {left:.0f} s left"


def _part(rows: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in rows.items()}


def _last_row_digest(rows: Columns) -> str:
    last = [values[-1] for values in rows.values()]
    return digest(repr([value if isinstance(value, str) else float(value) for value in last]).encode())


def _name(table: Path) -> str:
    return "standard input" if str(table) == "-" else str(table)
