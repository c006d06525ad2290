"""Read arriving lines of JSON objects as the records of a table."""

import json
from collections.abc import Sequence
from typing import Any

from obil.datasets.table_records import Misfit, Records
from obil.errors import InvalidInputError

WHOLE_LINE = "obil_record"  # the name of a last column, with the line as it came


class JsonReader:
    r"""Cuts text into records, of which each is a line with a JSON object; a field that is not there is missing.

    >>> reader = JsonReader("rows.jsonl", ["age", "ward"])
    >>> reader.push('{"age": 50, "ward": "A"}\n{"age": null}\n{"ag').columns[:2]
    [('50', ''), ('A', '')]
    """

    delimiter = ","  # numbers have decimal points

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.table, self._columns = name, tuple(columns)
        self.names = (*self._columns, WHOLE_LINE)
        self._tail = ""
        self._n_lines = 0
        self._seen = False

    def push(self, text: str | None) -> Records:
        """Return the records of the lines that end in this text; None is the end of the table."""
        *whole, self._tail = (self._tail + (text or "")).split("\n")
        if text is None:
            whole, self._tail = [*whole, self._tail], ""
        records: list[list[str]] = []
        lines: list[int] = []
        misfits: dict[int, Misfit] = {}
        for line in whole:
            self._n_lines += 1
            if not line.strip():
                continue
            try:
                cells = self._cells(line)
            except InvalidInputError as error:
                cells = [""] * len(self._columns)
                misfits[len(lines)] = Misfit([*cells, line], error)
            records.append([*cells, line])
            lines.append(self._n_lines)
        if misfits:
            for place in misfits:
                records[place] = [""] * len(self.names)
        return Records(list(zip(*records, strict=True)), lines, None, misfits)

    def _cells(self, line: str) -> list[str]:
        where = f"in line {self._n_lines} of {self.table}"
        try:
            found = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InvalidInputError(f"every line must be a JSON object, got {line[:80]!r} {where}")
        if not self._seen and not found.keys() & set(self._columns):
            wanted = ", ".join(self._columns[:20])
            raise InvalidInputError(f"an object must have a field of {wanted}, got none {where}")
        self._seen = True
        return [self._cell(found.get(name), name, where) for name in self._columns]

    def _cell(self, value: Any, name: str, where: str) -> str:
        if isinstance(value, str):
            return value if value.isascii() else value.encode(errors="replace").decode()  # half of a character
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value)
        raise InvalidInputError(f"field {name!r:.60} must be a number or a text, got {json.dumps(value)[:40]} {where}")
