"""Read a table in chunks as its lines arrive, so that a slow pipe never holds a row back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.datasets import table_cells, table_text
from obil.datasets.table_json import JsonReader
from obil.datasets.table_records import RecordReader, Records
from obil.datasets.table_text import TableSource
from obil.errors import InvalidInputError

ColumnType: TypeAlias = Literal["number", "text"]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]  # numbers as float64, text as objects with NaN for missing

MOST_TEXTS = 10_000  # of a column that are remembered
_PLAIN = b"0123456789+-.eE"  # of these characters, `float` takes what `table_cells.number` takes


def iter_table(
    source: TableSource,
    *,
    chunk_rows: int,
    types: Mapping[str, ColumnType] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[tuple[Columns, int]]:
    r"""Yield (columns, number of rows read so far) as lines arrive, at most `chunk_rows` rows at a time.

    A chunk is given out as soon as no further line has arrived, full or not. `types` names the columns to keep,
    in this order, as numbers or as text (None: all, as text); other columns are left out. Rows in front of a bad
    line are given out before its error is raised. Without `decimal`, the first decimal point or comma of a column
    states which of them that column uses.

    >>> import io
    >>> rows = io.StringIO("age,ward\n50,A\n60,B\n")
    >>> [(rows["age"].tolist(), n) for rows, n in iter_table(rows, chunk_rows=1, types={"age": "number"})]
    [([50.0], 1), ([60.0], 2)]
    """
    return _good_rows(
        iter_chunks(source, chunk_rows=chunk_rows, types=types, delimiter=delimiter, decimal=decimal, encoding=encoding)
    )


@dataclass(frozen=True, slots=True, eq=False)
class BadRow:
    """A row of a chunk that cannot be read, and why."""

    place: int  # among the rows of the chunk
    line: int
    cells: Sequence[str]  # as they were read
    column: str | None  # whose cell is bad; None where it is the row
    error: InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows that were read together, bad ones apart."""

    columns: Columns  # of the good rows
    places: IntArray  # (good rows,), where each stands among all rows
    bad: Sequence[BadRow]  # in their order
    cells: Sequence[Sequence[str]]  # of all rows, by column, as they were read
    lines: Sequence[int]  # of all rows
    names: Sequence[str]  # of all columns

    def bad_row(self, place: int, error: InvalidInputError) -> BadRow:
        """Return a row that was read and turned out bad."""
        return BadRow(place, self.lines[place], [column[place] for column in self.cells], None, error)


def iter_chunks(
    source: TableSource,
    *,
    chunk_rows: int,
    types: Mapping[str, ColumnType] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    json_lines: bool = False,
) -> Iterator[Chunk]:
    r"""Yield rows as `iter_table` does, and those that cannot be read beside them instead of an error.

    With `json_lines` each line is a JSON object, whose fields are the columns that `types` names.

    >>> import io
    >>> rows = io.StringIO("age,ward\n50,A\nold,B\n60,B,C\n")
    >>> [[bad.line for bad in chunk.bad] for chunk in iter_chunks(rows, chunk_rows=9, types={"age": "number"})]
    [[], [3], [4]]
    """
    if chunk_rows < 1:
        raise InvalidInputError(f"chunk_rows must be positive, got {chunk_rows}")
    table_cells.require_delimiter(delimiter, decimal)
    name = table_text.source_name(source)
    reader: RecordReader | JsonReader
    if json_lines:
        reader = JsonReader(name, list(types or ()))
    else:
        reader = RecordReader(name, delimiter=delimiter, wanted=list(types or ()), keep_misfits=True)
    return _chunks(reader, table_text.text_blocks(source, encoding=encoding), chunk_rows, types, decimal)


def _good_rows(chunks: Iterator[Chunk]) -> Iterator[tuple[Columns, int]]:
    """Yield rows up to the first bad one, then raise its error."""
    n_read = 0
    for chunk in chunks:
        n_good = chunk.bad[0].place if chunk.bad else len(chunk.lines)
        n_read += n_good
        if n_good:
            yield {name: values[:n_good] for name, values in chunk.columns.items()}, n_read
        if chunk.bad:
            raise chunk.bad[0].error


def _chunks(
    reader: RecordReader | JsonReader,
    blocks: Iterator[str],
    chunk_rows: int,
    types: Mapping[str, ColumnType] | None,
    decimal: str | None,
) -> Iterator[Chunk]:
    parser: _Parser | None = None
    end: list[str | None] = [None]
    for text in chain(blocks, end):
        records = reader.push(text)
        if reader.names:
            parser = parser or _Parser(reader, types, decimal)
            for start in range(0, len(records.lines), chunk_rows):
                yield parser.parse(records, start, min(start + chunk_rows, len(records.lines)))
        if records.error is not None:
            raise records.error
    if parser is None:
        raise InvalidInputError(f"a table must have a header, got an empty file: {reader.table}")


class _Parser:
    """Turns records into columns."""

    def __init__(
        self, reader: RecordReader | JsonReader, types: Mapping[str, ColumnType] | None, decimal: str | None
    ) -> None:
        self._types = dict.fromkeys(reader.names, "text") if types is None else dict(types)
        table_cells.require_columns(list(self._types), reader.names, table=reader.table)
        self._names = reader.names
        self._places = [reader.names.index(column) for column in self._types]
        self._decimals = dict.fromkeys(self._types, decimal or ("." if reader.delimiter == "," else None))
        self._texts = {column: _Texts() for column, kind in self._types.items() if kind == "text"}
        self._table = reader.table

    def parse(self, records: Records, start: int, stop: int) -> Chunk:
        """Return the kept columns of some records, the bad ones apart."""
        cells, lines = [column[start:stop] for column in records.columns], records.lines[start:stop]
        columns: Columns = {}
        wrong: dict[int, tuple[str, int]] = {}  # row: the first column whose cell is no number, and its place
        for place, (column, kind) in zip(self._places, self._types.items(), strict=True):
            if kind == "text":
                columns[column] = np.array(list(map(self._texts[column].__getitem__, cells[place])), dtype=object)
                continue
            columns[column], no_numbers = self._numbers(column, cells[place])
            for row in no_numbers:
                wrong.setdefault(row, (column, place))
        places = np.arange(len(lines))
        bad = [self._not_a_number(row, lines[row], cells, *wrong[row]) for row in wrong]
        bad += [
            BadRow(row, lines[row], records.misfits[start + row].cells, None, records.misfits[start + row].error)
            for row in range(len(lines) if records.misfits else 0)
            if start + row in records.misfits
        ]
        if bad:
            bad.sort(key=attrgetter("place"))
            places = np.delete(places, [row.place for row in bad])
            columns = {column: values[places] for column, values in columns.items()}
        return Chunk(columns, places, bad, cells, lines, self._names)

    def _not_a_number(self, row: int, line: int, cells: Sequence[Sequence[str]], column: str, place: int) -> BadRow:
        found = f"{cells[place][row].strip()[:80]!r} in line {line} of {self._table}"
        error = InvalidInputError(f"column {column!r} must hold numbers, got {found}")
        return BadRow(row, line, [one[row] for one in cells], column, error)

    def _numbers(self, column: str, cells: Sequence[str]) -> tuple[FloatArray, list[int]]:
        """Return a column's numbers, NaN for missing, and the rows whose cells hold none."""
        plain = self._decimals[column] == "."
        values, rows = _plain_numbers(cells) if plain else _no_numbers(cells)
        wrong: list[int] = []
        for row in rows:
            cell = cells[row].strip()
            if cell in table_cells.MISSING:
                continue
            decimal = self._decimals[column] or ("," if "," in cell else ".")
            value = table_cells.number(cell, decimal=decimal)
            if value is None:
                value = table_cells.formatted_number(cell, decimal=self._decimals[column] or ".")
                if value is None:
                    wrong.append(row)
                    continue
            elif "," in cell or "." in cell:
                self._decimals[column] = decimal
            values[row] = value
        return values, wrong


def _plain_numbers(cells: Sequence[str]) -> tuple[FloatArray, Sequence[int]]:
    """Return what `float` reads of a column, NaN elsewhere, and the rows of the cells to look at one by one."""
    odd: list[int] = []
    if "".join(cells).encode().translate(None, _PLAIN):
        rests = "\n".join(cells).encode().translate(None, _PLAIN).split(b"\n")
        if len(rests) != len(cells):  # a cell of several lines
            return _no_numbers(cells)
        odd = [row for row, rest in enumerate(rests) if rest]
        cells = ["" if rest else cell for cell, rest in zip(cells, rests, strict=True)]
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells]), odd
    except ValueError:  # a cell such as 1-2
        return _no_numbers(cells)


def _no_numbers(cells: Sequence[str]) -> tuple[FloatArray, Sequence[int]]:
    """Return a column of which every cell is to be looked at."""
    return np.full(len(cells), np.nan), range(len(cells))


class _Texts(dict[str, Any]):
    """What each cell of a text column stands for, found once: cells repeat."""

    def __missing__(self, cell: str) -> Any:
        if len(self) == MOST_TEXTS:
            self.clear()
        text = cell.strip()
        self[cell] = np.nan if text in table_cells.MISSING else text
        return self[cell]
