"""Rows are given out as their lines arrive, typed as asked, and a bad line is named."""

import io
import os
import threading
from collections.abc import Iterator
from typing import IO

import numpy as np
import pandas as pd
import pytest

from obil.datasets.table_stream import Columns, iter_table
from obil.errors import InvalidInputError

NUMBERS = {"age": "number", "dose": "number"}


@pytest.fixture
def pipe() -> Iterator[tuple[IO[str], IO[bytes]]]:
    """An open pipe: the end that is read, as standard input would be, and the end that is written."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "r") as reader, os.fdopen(write_end, "wb", buffering=0) as writer:
        yield reader, writer


def next_within(chunks: Iterator[tuple[Columns, int]], seconds: float = 5.0) -> tuple[Columns, int]:
    """Return the next chunk; fail, rather than hang, when it waits for more input than has arrived."""
    found: list[tuple[Columns, int]] = []
    thread = threading.Thread(target=lambda: found.append(next(chunks)), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "no row was given out though its line had arrived"
    return found[0]


@pytest.mark.parametrize("chunk_rows", [1, 1_000])
def test_a_row_is_given_out_as_soon_as_its_line_has_arrived(pipe: tuple[IO[str], IO[bytes]], chunk_rows: int) -> None:
    reader, writer = pipe
    chunks = iter_table(reader, chunk_rows=chunk_rows, types={"age": "number"})
    writer.write(b"age,ward\n50,A\n")
    assert next_within(chunks)[0]["age"].tolist() == [50.0]
    writer.write(b"60")
    writer.write(b",B\n7")
    rows, n_rows = next_within(chunks)
    assert (rows["age"].tolist(), n_rows) == ([60.0], 2)
    writer.write(b"0,C")
    writer.close()
    assert next_within(chunks)[1] == 3  # the last line needs no end
    assert list(chunks) == []


def test_a_row_is_not_held_back_by_a_quoted_field_still_open(pipe: tuple[IO[str], IO[bytes]]) -> None:
    reader, writer = pipe
    chunks = iter_table(reader, chunk_rows=10)
    writer.write(b'age,note\n50,fine\n60,"first\n')
    assert next_within(chunks)[0]["note"].tolist() == ["fine"]
    writer.write(b'second"\n')
    assert next_within(chunks)[0]["note"].tolist() == ["first\nsecond"]


def test_chunks_are_full_when_the_rows_are_there() -> None:
    table = io.BytesIO(b"age\n" + b"1\n" * 7)
    assert [(len(rows["age"]), n) for rows, n in iter_table(table, chunk_rows=3)] == [(3, 3), (3, 6), (1, 7)]


def test_a_text_stream_without_bytes_below_is_read_too() -> None:
    assert [n for _, n in iter_table(io.StringIO("age\n1\n2\n"), chunk_rows=1)] == [1, 2]


def test_columns_are_kept_as_asked_and_in_the_order_asked() -> None:
    table = io.BytesIO(b"id,age,dose,ward\n007,50,,A\n")
    ((rows, _),) = iter_table(table, chunk_rows=5, types={"dose": "number", "id": "text"})
    assert list(rows) == ["dose", "id"]
    assert rows["dose"].dtype == np.float64
    assert np.isnan(rows["dose"][0])
    assert rows["id"].tolist() == ["007"]


def test_text_in_a_number_column_is_named_by_line_after_the_rows_before_it() -> None:
    chunks = iter_table(io.BytesIO(b"age,dose\n50,1\n\n60,much\n70,3\n"), chunk_rows=100, types=NUMBERS)
    rows, n_rows = next(chunks)
    assert (rows["age"].tolist(), n_rows) == ([50.0], 1)
    with pytest.raises(InvalidInputError, match="column 'dose' must hold numbers, got 'much' in line 4 of the table"):
        next(chunks)


def test_decimal_commas_are_read_and_a_column_keeps_to_its_mark() -> None:
    chunks = iter_table(io.BytesIO(b"age;dose\n50,5;1\n60;2,25\n70.5;3\n"), chunk_rows=2, types=NUMBERS)
    assert {name: values.tolist() for name, values in next(chunks)[0].items()} == {
        "age": [50.5, 60.0],
        "dose": [1.0, 2.25],
    }
    with pytest.raises(InvalidInputError, match=r"column 'age' must hold numbers, got '70\.5' in line 4"):
        next(chunks)


def test_the_columns_asked_for_find_the_delimiter_from_the_header_alone(pipe: tuple[IO[str], IO[bytes]]) -> None:
    reader, writer = pipe
    writer.write(b"age, years, whole;dose, mg, oral;ward\n")
    chunks = iter_table(reader, chunk_rows=1, types={"ward": "text"})
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(next(chunks)[0]["ward"]), daemon=True)
    thread.start()
    thread.join(0.1)
    writer.write(b"1;2;A\n")
    thread.join(5.0)
    assert found == ["A"]


def test_a_missing_column_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidInputError, match=r"'dose' \(is it 'doses'\?\), got the columns: age, doses"):
        next(iter_table(io.BytesIO(b"age,doses\n1,2\n"), chunk_rows=1, types=NUMBERS))


def test_gzip_is_unpacked_as_it_arrives(pipe: tuple[IO[str], IO[bytes]]) -> None:
    import zlib

    reader, writer = pipe
    packer = zlib.compressobj(wbits=31)
    writer.write(packer.compress(b"age\n50\n") + packer.flush(zlib.Z_SYNC_FLUSH))
    chunks = iter_table(reader, chunk_rows=10, types={"age": "number"})
    assert next_within(chunks)[0]["age"].tolist() == [50.0]
    writer.write(packer.compress(b"60\n") + packer.flush())
    assert next_within(chunks)[1] == 2


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_blocks_that_end_anywhere_change_nothing(end: bytes) -> None:
    content = end.join(['größe;"no""te"'.encode(), 'é;"a'.encode(), b'b"', b"2;c"])

    class Drip(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(1)

    rows, whole = (
        pd.concat([pd.DataFrame(rows) for rows, _ in iter_table(source, chunk_rows=10)], ignore_index=True)
        for source in (Drip(content), io.BytesIO(content))
    )
    pd.testing.assert_frame_equal(rows, whole)
    assert rows["größe"].tolist() == ["é", "2"]


def test_a_broken_rule_is_stated_at_once() -> None:
    with pytest.raises(InvalidInputError, match="chunk_rows must be positive"):
        iter_table(io.BytesIO(b"a\n1\n"), chunk_rows=0)


@pytest.mark.parametrize("cell", ["1_000", "0x1", "1e", "--1", "1.2.3", "\u0663", "nan(1)", "e", "1 2"])
def test_a_number_is_only_what_a_table_may_hold_wherever_it_stands(cell: str) -> None:
    chunks = iter_table(
        io.BytesIO(f"age\n1\n\n+2.5e-1\nNA\n.5\n{cell}\n7\n".encode()), chunk_rows=99, types={"age": "number"}
    )
    rows, n_rows = next(chunks)
    np.testing.assert_array_equal(rows["age"], [1.0, 0.25, np.nan, 0.5])
    assert n_rows == 4
    with pytest.raises(InvalidInputError, match=r"column 'age' must hold numbers, got .* in line 7"):
        next(chunks)


def test_quoted_fields_over_many_lines_keep_the_line_numbers_right() -> None:
    table = b'note,age\n"a\n\nb",1\n"c",2\n"d\ne",x\n'
    chunks = iter_table(io.BytesIO(table), chunk_rows=9, types={"age": "number", "note": "text"})
    assert next(chunks)[0]["note"].tolist() == ["a\n\nb", "c"]
    with pytest.raises(InvalidInputError, match="got 'x' in line 6"):
        next(chunks)


def test_of_two_bad_rows_the_first_is_named_whatever_is_wrong_with_it() -> None:
    table = io.BytesIO(b"age,dose\n1,2\n3,x\n4\ny,5\n")
    chunks = iter_table(table, chunk_rows=9, types=NUMBERS)
    assert next(chunks)[1] == 1
    with pytest.raises(InvalidInputError, match="column 'dose' must hold numbers, got 'x' in line 3"):
        next(chunks)
