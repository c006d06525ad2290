"""Read a table in chunks as its lines arrive, so that a slow pipe never holds a row back."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.datasets import table_cells, table_text
from obil.datasets.table_records import RecordReader
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
    if chunk_rows < 1:
        raise InvalidInputError(f"chunk_rows must be positive, got {chunk_rows}")
    table_cells.require_delimiter(delimiter, decimal)
    reader = RecordReader(table_text.source_name(source), delimiter=delimiter, wanted=list(types or ()))
    return _chunks(reader, table_text.text_blocks(source, encoding=encoding), chunk_rows, types, decimal)


def _chunks(
    reader: RecordReader,
    blocks: Iterator[str],
    chunk_rows: int,
    types: Mapping[str, ColumnType] | None,
    decimal: str | None,
) -> Iterator[tuple[Columns, int]]:
    parser: _Parser | None = None
    n_read = 0
    end: list[str | None] = [None]
    for text in chain(blocks, end):
        records = reader.push(text)
        if reader.names:
            parser = parser or _Parser(reader, types, decimal)
            for start in range(0, len(records.lines), chunk_rows):
                chunk = slice(start, start + chunk_rows)
                columns, n_rows, error = parser.parse([cells[chunk] for cells in records.columns], records.lines[chunk])
                n_read += n_rows
                if n_rows:
                    yield columns, n_read
                if error is not None:
                    raise error
        if records.error is not None:
            raise records.error
    if parser is None:
        raise InvalidInputError(f"a table must have a header, got an empty file: {reader.table}")


class _Parser:
    """Turns records into columns."""

    def __init__(self, reader: RecordReader, types: Mapping[str, ColumnType] | None, decimal: str | None) -> None:
        self._types = dict.fromkeys(reader.names, "text") if types is None else dict(types)
        table_cells.require_columns(list(self._types), reader.names, table=reader.table)
        self._places = [reader.names.index(column) for column in self._types]
        self._decimals = dict.fromkeys(self._types, decimal or ("." if reader.delimiter == "," else None))
        self._texts = {column: _Texts() for column, kind in self._types.items() if kind == "text"}
        self._table = reader.table

    def parse(
        self, cells: Sequence[Sequence[str]], lines: Sequence[int]
    ) -> tuple[Columns, int, InvalidInputError | None]:
        """Return the kept columns of the rows in front of the first bad number, how many these are, and its error."""
        columns: Columns = {}
        n_rows, wrong = len(lines), ("", 0)  # the column whose cell in row n_rows is no number, and its place
        for place, (column, kind) in zip(self._places, self._types.items(), strict=True):
            if kind == "text":
                columns[column] = np.array(list(map(self._texts[column].__getitem__, cells[place])), dtype=object)
                continue
            columns[column] = self._numbers(column, cells[place])
            if len(columns[column]) < n_rows:
                n_rows, wrong = len(columns[column]), (column, place)
        if n_rows == len(lines):
            return columns, n_rows, None
        column, place = wrong
        found = f"{cells[place][n_rows].strip()[:80]!r} in line {lines[n_rows]} of {self._table}"
        error = InvalidInputError(f"column {column!r} must hold numbers, got {found}")
        return {column: values[:n_rows] for column, values in columns.items()}, n_rows, error

    def _numbers(self, column: str, cells: Sequence[str]) -> FloatArray:
        """Return a column's numbers, NaN for missing, up to the first cell that holds none."""
        if self._decimals[column] == "." and not "".join(cells).encode().translate(None, _PLAIN):
            try:
                return np.array([float(cell) if cell else np.nan for cell in cells])
            except ValueError:
                pass  # a cell such as 1-2: found below
        values = np.empty(len(cells))
        for row, cell in enumerate(map(str.strip, cells)):
            if cell in table_cells.MISSING:
                values[row] = np.nan
                continue
            decimal = self._decimals[column] or ("," if "," in cell else ".")
            value = table_cells.number(cell, decimal=decimal)
            if value is None:
                value = table_cells.formatted_number(cell, decimal=self._decimals[column] or ".")
                if value is None:
                    return values[:row]
                values[row] = value
                continue
            if "," in cell or "." in cell:
                self._decimals[column] = decimal
            values[row] = value
        return values


class _Texts(dict[str, Any]):
    """What each cell of a text column stands for, found once: cells repeat."""

    def __missing__(self, cell: str) -> Any:
        if len(self) == MOST_TEXTS:
            self.clear()
        text = cell.strip()
        self[cell] = np.nan if text in table_cells.MISSING else text
        return self[cell]
