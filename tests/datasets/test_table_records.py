"""Records of plain lines are cut without csv's care, and are those that csv gives."""

import csv
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.datasets.table_records import RecordReader


class Careful(RecordReader):
    def _plain(self, lines: list[str]) -> None:
        return None


def read(reader: RecordReader, parts: list[str]) -> tuple[list[Any], str | None]:
    """Return the cells with their lines, and the first error."""
    found: list[Any] = []
    for text in [*parts, None]:
        records = reader.push(text)
        found += [(line, cells) for line, *cells in zip(records.lines, *records.columns, strict=True)]
        if records.error is not None:
            return found, str(records.error)
    return found, None


@given(st.lists(st.text('ab1,,,\n\n\r "', max_size=8) | st.just("1,2,3\n4,,6\n"), max_size=8), st.sampled_from(",; "))
def test_plain_lines_are_read_as_csv_reads_them_however_they_arrive(parts: list[str], delimiter: str) -> None:
    text = [part.replace(",", delimiter) for part in ("x,y,z\n", *parts)]
    fast, careful = (kind("it", delimiter=delimiter) for kind in (RecordReader, Careful))
    assert read(fast, text) == read(careful, text)
    whole = RecordReader("it", delimiter=delimiter)
    assert read(whole, ["".join(text)]) == read(RecordReader("it", delimiter=delimiter), text)
    assert fast.names == whole.names


def test_two_lines_whose_lengths_differ_do_not_make_up_for_each_other() -> None:
    reader = RecordReader("it")
    reader.push("a,b,c\n")
    records = reader.push("1,2\n3,4,5,6\n")
    assert not records.columns
    assert "3 fields, got 2 in line 2" in str(records.error)


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_field_beyond_the_limit_of_csv_is_refused_without_quotes_too(beyond: int) -> None:
    limit = csv.field_size_limit(1_000)
    try:
        reader = RecordReader("it")
        reader.push("a,b\n")
        records = reader.push(f"1,2\n3,{'x' * (1_000 + beyond)}\n")
    finally:
        csv.field_size_limit(limit)
    assert (records.error is not None) == (beyond > 0)
    assert len(records.lines) == 2 - beyond


def test_lines_are_numbered_on_after_plain_ones() -> None:
    reader = RecordReader("it")
    pieces = ["a,b\n", "1,2\n3,4\n", '"5\n",6\n', "7,8\n"]
    starts = [list(reader.push(piece).lines) for piece in pieces]
    assert starts == [[], [2, 3], [4], [6]]
