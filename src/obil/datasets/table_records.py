"""Cut arriving text into the records of a delimited table."""

import csv
import io
import re
from collections.abc import Collection
from typing import NamedTuple

from obil.datasets import table_cells
from obil.errors import InvalidInputError

SNIFFED_LINES = 30
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # as Excel writes it above the header


class Records(NamedTuple):
    """Records that are not blank, the line that each starts in, and what is wrong with the record after them."""

    cells: list[list[str]]
    lines: list[int]
    error: InvalidInputError | None = None


class RecordReader:
    r"""Cuts text into records as it arrives; the first is the header, and a quoted field may hold line ends.

    >>> reader = RecordReader("ward.csv")
    >>> reader.push("age;ward\n50;A\n6").cells, reader.names
    ([['50', 'A']], ('age', 'ward'))
    """

    def __init__(self, name: str, *, delimiter: str | None = None, wanted: Collection[str] = ()) -> None:
        self.delimiter = delimiter or ""  # "" until the first lines show it
        self.names: tuple[str, ...] = ()  # of the columns, empty until the header has arrived
        self.table, self._wanted = name, wanted
        self._tail = ""  # a line that has not ended yet
        self._open: list[str] = []  # lines of a record whose quotes are still open
        self._n_lines = 0  # before those
        self._started = False

    def push(self, text: str | None) -> Records:
        """Return the records that end in this text; None is the end of the table."""
        lines = io.StringIO(self._tail + (text or ""), newline="").readlines()
        self._tail = ""
        if text is not None and lines and not lines[-1].endswith("\n"):
            self._tail = lines.pop()  # a carriage return may yet be followed by its line feed
        if not self._started:
            lines = self._start(lines)
        still_open = bool(self._open) and text is not None and not any('"' in line for line in lines)
        self._open += lines
        return Records([], []) if still_open else self._well_formed(self._parse(is_end=text is None))

    def _well_formed(self, records: Records) -> Records:
        """Take out the header; return the records in front of the first that has too few or too many fields."""
        cells, lines, _ = records
        if cells and not self.names:
            self.names = table_cells.column_names(cells.pop(0), table=self.table)
            del lines[0]
        width = len(self.names)
        if set(map(len, cells)) <= {width}:
            return records
        place = next(i for i, record in enumerate(cells) if len(record) != width)
        error = InvalidInputError(
            f"every row must have the header's {width} fields, got {len(cells[place])} in line {lines[place]} "
            f"of {self.table}"
        )
        return Records(cells[:place], lines[:place], error)

    def _parse(self, *, is_end: bool) -> Records:
        lines, self._open = self._open, []
        found = Records([], [])
        reader = csv.reader(lines, delimiter=self.delimiter or ",", strict=True, skipinitialspace=True)
        n_done = 0
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):  # else a blank line
                    found.cells.append(cells)
                    found.lines.append(self._n_lines + n_done + 1)
                n_done = reader.line_num
        except csv.Error as error:
            if is_end or "unexpected end" not in str(error):
                line = self._n_lines + n_done + 1
                reason = f"fields must be well quoted and not endless, got {error} in line {line} of {self.table}"
                return found._replace(error=InvalidInputError(reason))
            self._open = lines[n_done:]
        self._n_lines += n_done
        return found

    def _start(self, lines: list[str]) -> list[str]:
        """Find the delimiter; return the lines from the header on."""
        filled = [line for line in lines if line.strip()][:SNIFFED_LINES]
        if not filled:
            self._n_lines += len(lines)
            return []
        self._started = True
        stated = _SEPARATOR_LINE.fullmatch(filled[0])
        if stated is None:
            self.delimiter = self.delimiter or table_cells.sniff_delimiter(filled, names=self._wanted)
            return lines
        self.delimiter = self.delimiter or stated.group(1)
        place = lines.index(filled[0]) + 1
        self._n_lines += place
        return lines[place:]
