"""Read a table row by row as its lines arrive, so that a slow pipe never holds a row back."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from obil.datasets import table_cells, table_text
from obil.datasets.table_text import TableSource
from obil.errors import InvalidInputError

ColumnType: TypeAlias = Literal["number", "text"]


def iter_table(
    source: TableSource,
    *,
    chunk_rows: int,
    types: Mapping[str, ColumnType] | None = None,
    skip_rows: int = 0,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[tuple[pd.DataFrame, int]]:
    r"""Yield (rows, number of rows read so far) as lines arrive, at most `chunk_rows` rows at a time.

    A chunk is given out as soon as no further line has arrived, full or not. `types` names the columns to keep,
    in this order, as numbers or as text (None: all, as text); other columns are left out. `skip_rows` rows are
    passed over, and counted. Rows in front of a bad line are given out before its error is raised. Without
    `decimal`, the first decimal point or comma of a column states which of them that column uses.

    >>> rows = io.StringIO("age,ward\n50,A\n60,B\n")
    >>> [(rows["age"].tolist(), n) for rows, n in iter_table(rows, chunk_rows=1, types={"age": "number"})]
    [([50.0], 1), ([60.0], 2)]
    """
    if chunk_rows < 1 or skip_rows < 0:
        raise InvalidInputError(
            f"chunk_rows must be positive and skip_rows not negative, got {chunk_rows}, {skip_rows}"
        )
    table_cells.require_delimiter(delimiter, decimal)
    return _chunks(source, chunk_rows, types, skip_rows, delimiter, decimal, encoding)


def _chunks(
    source: TableSource,
    chunk_rows: int,
    types: Mapping[str, ColumnType] | None,
    skip_rows: int,
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
) -> Iterator[tuple[pd.DataFrame, int]]:
    name = table_text.source_name(source)
    records = _Records(name, delimiter, list(types or ()))
    columns: _Columns | None = None
    rows: list[list[float | str]] = []
    n_read = 0
    broken: InvalidInputError | None = None
    for text in _with_end(table_text.text_blocks(source, encoding=encoding)):
        try:
            for line, cells in records.push(text):
                if columns is None:
                    columns = _Columns(cells, types, records.delimiter, decimal, name)
                    continue
                table_cells.require_width(cells, columns.names, line=line, table=name)
                n_read += 1
                if n_read <= skip_rows:
                    continue
                try:
                    rows.append(columns.parse(cells, line))
                except InvalidInputError:
                    n_read -= 1
                    raise
                if len(rows) == chunk_rows:
                    yield columns.frame(rows), n_read
                    rows = []
        except InvalidInputError as error:
            broken = error
        if rows and columns is not None:
            yield columns.frame(rows), n_read
            rows = []
        if broken is not None:
            raise broken
    if columns is None:
        raise InvalidInputError(f"a table must have a header, got an empty file: {name}")


def _with_end(blocks: Iterator[str]) -> Iterator[str | None]:
    yield from blocks
    yield None


class _Records:
    """Cut arriving text into records; a quoted field may hold line ends."""

    def __init__(self, name: str, delimiter: str | None, wanted: list[str]) -> None:
        self.delimiter = delimiter or ""
        self._name, self._wanted = name, wanted
        self._tail = ""  # a line that has not ended yet
        self._record: list[str] = []  # lines of a record that has not ended yet
        self._line = 0
        self._started = False

    def push(self, text: str | None) -> Iterator[tuple[int, list[str]]]:
        """Yield the records that end in this text, each with the line it starts in; None is the end."""
        arrived = self._tail + (text or "")
        lines = io.StringIO(arrived, newline="").readlines()
        self._tail = ""
        if text is not None and lines and not lines[-1].endswith("\n"):
            self._tail = lines.pop()  # a carriage return may yet be followed by its line feed
        if not self._started:
            lines = self._start(lines)
        for line in lines:
            self._line += 1
            self._record.append(line)
            if len(self._record) > 1 and '"' not in line:
                continue  # still inside the quotes
            cells = self._parse(complete=False)
            if cells is not None:
                start = self._line - len(self._record) + 1
                self._record = []
                if not table_cells.is_blank(cells):
                    yield start, cells
        if text is None and self._record:
            cells = self._parse(complete=True)
            if cells is not None and not table_cells.is_blank(cells):
                yield self._line - len(self._record) + 1, cells

    def _start(self, lines: list[str]) -> list[str]:
        filled = [line for line in lines if line.strip()]
        if not filled:
            self._line += len(lines)
            return []
        self._started = True
        stated = table_cells.separator_line(filled[0])
        if stated is not None:
            self.delimiter = self.delimiter or stated
            place = lines.index(filled[0]) + 1
            self._line += place
            return lines[place:]
        self.delimiter = self.delimiter or table_cells.sniff_delimiter(filled[:30], names=self._wanted)
        return lines

    def _parse(self, *, complete: bool) -> list[str] | None:
        reader = csv.reader(self._record, delimiter=self.delimiter, strict=True, skipinitialspace=True)
        try:
            return next(reader, [])
        except csv.Error as error:
            if not complete and "unexpected end" in str(error):
                return None
            start = self._line - len(self._record) + 1
            raise InvalidInputError(
                f"fields must be well quoted and not endless, got {error} in line {start} of {self._name}"
            ) from None


class _Columns:
    """Turn records into typed rows."""

    def __init__(
        self,
        header: list[str],
        types: Mapping[str, ColumnType] | None,
        delimiter: str,
        decimal: str | None,
        name: str,
    ) -> None:
        self.names = table_cells.column_names(header, table=name)
        self._types = dict.fromkeys(self.names, "text") if types is None else dict(types)
        table_cells.require_columns(list(self._types), self.names, table=name)
        self._places = [self.names.index(column) for column in self._types]
        first = "." if delimiter == "," else None
        self._decimals: dict[str, str | None] = dict.fromkeys(self._types, decimal or first)
        self._name = name

    def parse(self, cells: list[str], line: int) -> list[float | str]:
        """Return the kept cells of a record as numbers and text, NaN for missing."""
        row: list[float | str] = []
        for place, (column, kind) in zip(self._places, self._types.items(), strict=True):
            cell = cells[place].strip()
            if cell in table_cells.MISSING:
                row.append(np.nan)
            elif kind == "text":
                row.append(cell)
            else:
                row.append(self._number(column, cell, line))
        return row

    def _number(self, column: str, cell: str, line: int) -> float:
        decimal = self._decimals[column] or ("," if "," in cell else ".")
        value = table_cells.number(cell, decimal=decimal)
        if value is None:
            raise InvalidInputError(
                f"column {column!r} must hold numbers, got {cell[:80]!r} in line {line} of {self._name}"
            )
        if "," in cell or "." in cell:
            self._decimals[column] = decimal
        return value

    def frame(self, rows: list[list[float | str]]) -> pd.DataFrame:
        """Return rows as a table, number columns as float64."""
        return pd.DataFrame(
            {
                column: np.array(cells, dtype=np.float64 if kind == "number" else object)
                for (column, kind), cells in zip(self._types.items(), zip(*rows, strict=True), strict=True)
            }
        )
