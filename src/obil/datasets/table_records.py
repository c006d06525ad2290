"""Cut arriving text into the records of a delimited table."""

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from obil.datasets import table_cells
from obil.errors import InvalidInputError

SNIFFED_LINES = 30
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # as Excel writes it above the header


class Records(NamedTuple):
    """Records that are not blank, as columns; the line each starts in, and what is wrong with the record after them."""

    columns: Sequence[Sequence[str]]  # (columns,) of n cells each; none where there are no records
    lines: Sequence[int]  # (n,)
    error: InvalidInputError | None = None
    misfits: Mapping[int, "Misfit"] = {}  # by their place among the records, whose cells are empty there


class Misfit(NamedTuple):
    """A record with too few or too many fields."""

    cells: Sequence[str]
    error: InvalidInputError


class RecordReader:
    r"""Cuts text into records as it arrives; the first is the header, and a quoted field may hold line ends.

    A record with too few or too many fields ends the table with an error, or with `keep_misfits` is put aside.

    >>> reader = RecordReader("ward.csv")
    >>> reader.push("age;ward\n50;A\n60;B\n6").columns, reader.names
    ([('50', '60'), ('A', 'B')], ('age', 'ward'))
    """

    def __init__(
        self,
        name: str,
        *,
        delimiter: str | None = None,
        wanted: Collection[str] = (),
        keep_misfits: bool = False,
    ) -> None:
        self.delimiter = delimiter or ""  # "" until the first lines show it
        self.names: tuple[str, ...] = ()  # of the columns, empty until the header has arrived
        self.table, self._wanted, self._keep_misfits = name, wanted, keep_misfits
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
        if not self._open and (plain := self._plain(lines)) is not None:
            return plain
        still_open = bool(self._open) and text is not None and not any('"' in line for line in lines)
        self._open += lines
        return Records([], []) if still_open else self._well_formed(*self._parse(is_end=text is None))

    def _plain(self, lines: list[str]) -> Records | None:
        """Return the records of lines without quotes, spaces or blanks, in a fraction of the time; None of others."""
        width, mark, text = len(self.names), self.delimiter, "".join(lines)
        if width < 2 or any(sign in text for sign in ('"', "\r", f"{mark} ", "\n ")) or text.startswith(" "):
            return None
        cells = text.replace("\n", f"{mark}\n{mark}").split(mark)
        ends = cells[width :: width + 1]  # of lines, which are well formed if they stand here and nowhere else
        if set(ends) != {"\n"} or len(ends) != len(lines) or max(map(len, lines)) > csv.field_size_limit():
            return None
        cells.pop()  # what stands behind the last line end
        first = self._n_lines + 1
        self._n_lines += len(lines)
        return Records([cells[j :: width + 1] for j in range(width)], range(first, first + len(lines)))

    def _well_formed(self, cells: list[list[str]], lines: list[int], error: InvalidInputError | None) -> Records:
        """Take out the header; return the records in front of the first that has too few or too many fields."""
        if cells and not self.names:
            self.names = table_cells.column_names(cells.pop(0), table=self.table)
            del lines[0]
        width = len(self.names)
        if set(map(len, cells)) <= {width}:
            return Records(list(zip(*cells, strict=True)), lines, error)
        misfits = {
            place: Misfit(
                record,
                InvalidInputError(
                    f"every row must have the header's {width} fields, got {len(record)} in line {lines[place]} "
                    f"of {self.table}"
                ),
            )
            for place, record in enumerate(cells)
            if len(record) != width
        }
        if not self._keep_misfits:
            place, first = next(iter(misfits.items()))
            return Records(list(zip(*cells[:place], strict=True)), lines[:place], first.error)
        for place in misfits:
            cells[place] = [""] * width
        return Records(list(zip(*cells, strict=True)), lines, error, misfits)

    def _parse(self, *, is_end: bool) -> tuple[list[list[str]], list[int], InvalidInputError | None]:
        """Return records, the line that each starts in, and what is wrong with the record after them."""
        lines, self._open = self._open, []
        records: list[list[str]] = []
        starts: list[int] = []
        reader = csv.reader(lines, delimiter=self.delimiter or ",", strict=True, skipinitialspace=True)
        n_done = 0
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):  # else a blank line
                    records.append(cells)
                    starts.append(self._n_lines + n_done + 1)
                n_done = reader.line_num
        except csv.Error as error:
            if is_end or "unexpected end" not in str(error):
                line = self._n_lines + n_done + 1
                reason = f"fields must be well quoted and not endless, got {error} in line {line} of {self.table}"
                return records, starts, InvalidInputError(reason)
            self._open = lines[n_done:]
        self._n_lines += n_done
        return records, starts, None

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
