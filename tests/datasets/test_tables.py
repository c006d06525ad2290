"""Tables as people keep them are read; what cannot be is refused in one clear line."""

import csv
import gzip
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obil.datasets.tables import FORMATTED, iter_table, read_table, split_labels
from obil.errors import InvalidInputError

PLAIN = "age,ward,dose\n50,A,3.5\n,B,NA\n60.5,A,1e-3\n"
EXPECTED = pd.DataFrame({"age": [50.0, np.nan, 60.5], "ward": ["A", "B", "A"], "dose": [3.5, np.nan, 1e-3]})


def read(content: str | bytes, **options: Any) -> pd.DataFrame:
    data = content.encode() if isinstance(content, str) else content
    return read_table(io.BytesIO(data), **options)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_delimiter_and_line_ends_are_found_from_the_content(delimiter: str, line_end: str) -> None:
    content = PLAIN.replace(",", delimiter).replace("\n", line_end)
    pd.testing.assert_frame_equal(read(content), EXPECTED)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_and_gzip_are_found_from_the_content(tmp_path: Path, encoding: str, packed: bool) -> None:
    content = "größe,straße\n1.5,Zürich\n2.5,Köln\n".encode(encoding)
    path = tmp_path / "table.anything"
    path.write_bytes(gzip.compress(content) if packed else content)
    frame = read_table(path)
    assert list(frame.columns) == ["größe", "straße"]
    assert frame["straße"].tolist() == ["Zürich", "Köln"]
    assert frame["größe"].tolist() == [1.5, 2.5]
    ((rows, n_rows),) = iter_table(path, chunk_rows=10, types={"größe": "number", "straße": "text"})
    pd.testing.assert_frame_equal(pd.DataFrame(rows), frame)
    assert n_rows == 2


def test_decimal_commas_are_numbers_where_commas_do_not_part_fields() -> None:
    frame = read("gewicht;preis;station\n3,14;1.234;A\n-2;2.500;B\n")
    assert frame["gewicht"].tolist() == [3.14, -2.0]
    assert frame["preis"].tolist() == [1234.0, 2500.0]  # thousands, in a table with decimal commas
    assert frame.attrs[FORMATTED] == ["preis"]


def test_numbers_that_are_written_for_people_are_numbers() -> None:
    frame = read("price;weight\n1,234;3.5\n2,345;1.25\n")
    assert frame["price"].tolist() == [1234.0, 2345.0]
    assert frame["weight"].tolist() == [3.5, 1.25]
    frame = read('price,fee,code\n"$1,234.50",-£3,12 345 678\n"$12",£4.5,5\n')
    assert frame.to_numpy().tolist() == [[1234.5, -3.0, 12345678.0], [12.0, 4.5, 5.0]]
    assert frame.attrs[FORMATTED] == ["price", "fee", "code"]
    frame = read('price,size\n"1,234",1\n"12,34",2\n')
    assert frame["price"].tolist() == ["1,234", "12,34"]  # one of them is no number
    assert read("size\n12 kg\n14 kg\n").attrs[FORMATTED] == []


def test_a_stream_reads_numbers_that_are_written_for_people_as_a_table_does(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('price,size\n"$1,234.50",1\n12,2\n"(3)",3\n')
    chunks = iter_table(path, chunk_rows=10, types={"price": "number", "size": "number"})
    assert next(chunks)[0]["price"].tolist() == [1234.5, 12.0]
    with pytest.raises(InvalidInputError, match=r"column 'price' must hold numbers, got '\(3\)' in line 4"):
        next(chunks)


def test_the_decimal_mark_can_be_stated() -> None:
    assert read("a;b\n1.5;1,5\n", decimal=".")["b"].tolist() == ["1,5"]
    assert read("a;b\n1.5;1,5\n", decimal=",")["a"].tolist() == ["1.5"]
    assert read('a,b\n"1,5",2\n', decimal=",")["a"].tolist() == [1.5]


def test_one_column_of_decimal_commas_is_one_column() -> None:
    assert read("x\n3,14\n2,72\n")["x"].tolist() == [3.14, 2.72]


def test_every_spelling_of_missing_is_missing() -> None:
    frame = read(
        "a,b\n1,x\n" + "".join(f"{cell},{cell}\n" for cell in ["", "NA", "NaN", "nan", "null", "NULL", "?", " ? "])
    )
    assert frame["a"].dtype == np.float64
    assert frame["a"].notna().tolist() == frame["b"].notna().tolist() == [True] + [False] * 8


def test_dates_and_text_stay_text_and_one_text_cell_keeps_a_column_text() -> None:
    frame = read("date,level\n2020-01-01,1\n2020-01-02,low\n")
    assert frame["date"].tolist() == ["2020-01-01", "2020-01-02"]
    assert frame["level"].tolist() == ["1", "low"]
    assert all(dtype.kind == "O" for dtype in frame.dtypes)


@pytest.mark.parametrize("cell", ["1_000", "0x1F", "\uff11\uff12", "1e", "--1", "1.2.3", "12 %"])
def test_what_only_looks_like_a_number_stays_text(cell: str) -> None:
    assert read(f"a,b\n{cell},1\n")["a"].tolist() == [cell]


def test_a_column_named_as_text_keeps_its_digits() -> None:
    assert read("id,x\n00123456789012345678,1\n", text=["id"])["id"].tolist() == ["00123456789012345678"]


def test_quoted_fields_hold_delimiters_quotes_and_line_ends() -> None:
    frame = read('note,y\n"a, ""b""\nc",1\n"d;e", 0\n')
    assert frame["note"].tolist() == ['a, "b"\nc', "d;e"]
    assert frame["y"].tolist() == [1.0, 0.0]


def test_excels_separator_line_blank_lines_and_a_last_delimiter_are_no_rows_and_no_column() -> None:
    content = "sep=;\r\n\r\na;b;\r\n1;2;\r\n\r\n3;4;"
    frame = read(content)
    assert frame.to_dict("list") == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    chunks = iter_table(io.BytesIO(content.encode()), chunk_rows=9, types={"a": "number", "b": "number"})
    rows = pd.concat([pd.DataFrame(chunk) for chunk, _ in chunks], ignore_index=True)
    pd.testing.assert_frame_equal(rows, frame)


def test_the_target_helps_to_find_the_delimiter() -> None:
    assert list(read("a, in mm;ill\n1, 2;0\n", target="ill").columns) == ["a, in mm", "ill"]


def test_an_index_column_without_a_name_gets_one() -> None:
    assert list(read(",a\n0,5\n1,6\n").columns) == ["unnamed_1", "a"]


def test_parquet_is_read_by_its_content(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' brings it)")
    path = tmp_path / "table"
    pd.DataFrame(
        {"n": [1, 2], "x": [0.5, None], "w": ["A", None], "b": [True, False], "d": pd.to_datetime(["2020-01-01"] * 2)}
    ).to_parquet(path)
    frame = read_table(path)
    assert frame["n"].dtype == frame["x"].dtype == np.float64
    assert frame["w"].iloc[0] == "A"
    assert np.isnan(frame["w"].iloc[1])
    assert frame["b"].tolist() == ["True", "False"]
    assert frame["d"].iloc[0].startswith("2020-01-01")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidInputError, match="parquet file must be whole") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(InvalidInputError, match="pip install pyarrow"):
        read(b"PAR1....PAR1")


HOSTILE: list[tuple[str, bytes, str]] = [
    ("empty", b"", "got an empty file"),
    ("blank", b"\n \n\n", "got an empty file"),
    ("separator only", b"sep=;\n", "got an empty file"),
    ("header only", b"a,b\n", "must have a row below its header"),
    ("too many fields", b"a,b\n1,2\n3,4,5\n", r"header's 2 fields, got 3 in line 3"),
    ("too few fields", b"a,b\n1,2\n\n3\n", r"header's 2 fields, got 1 in line 4"),
    ("after a quoted line end", b'a,b\n"x\ny",2\n3\n', r"got 1 in line 4"),
    ("duplicate names", b"a,b,a,b\n1,2,3,4\n", "column names must differ, got 'a', 'b' twice"),
    ("open quote", b'a,b\n1,2\n"x,3\n4,5\n', "must be well quoted .* in line 3"),
    ("text after a quote", b'a,b\n"x"y,3\n', "must be well quoted .* in line 2"),
    ("NUL", b"a,b\n1,2\n3,\x004\n", "NUL character in line 3"),
    ("UTF-16 without its mark", "a,b\n1,2\n".encode("utf-16-le"), "NUL character in line 1"),
    ("pickle", pickle.dumps({"a": [1, 2]}), "a table must be text|NUL"),
    ("workbook", b"PK\x03\x04rest", "an Excel workbook or a zip"),
    ("image", b"\x89PNG\r\n\x1a\n", "an image"),
    ("two encodings", "a,b\né,1\n".encode() + b"\xe9,2\n", "not UTF-8 in line 3"),
    ("half a UTF-16 character", "a,b\n1,2\n".encode("utf-16") + b"x", "one encoding"),
    ("truncated gzip", gzip.compress(PLAIN.encode(), mtime=0)[:-9], "gzip file must be whole"),
    ("damaged gzip", gzip.compress(PLAIN.encode(), mtime=0)[:20] + b"!" * 30, "gzip file must be whole"),
]


@pytest.mark.parametrize(("content", "rule"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_hostile_table_is_one_clear_line_that_names_the_file(tmp_path: Path, content: bytes, rule: str) -> None:
    path = tmp_path / "hostile.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=rule) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert "hostile.csv" in str(caught.value)


@pytest.mark.parametrize(("content", "rule"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_the_same_table_arriving_row_by_row_is_refused_likewise(tmp_path: Path, content: bytes, rule: str) -> None:
    path = tmp_path / "hostile.csv"
    path.write_bytes(content)
    if content == b"a,b\n":
        assert list(iter_table(path, chunk_rows=1)) == []  # its rows may be yet to come
        return
    with pytest.raises(InvalidInputError, match=rule) as caught:
        list(iter_table(path, chunk_rows=1))
    assert "hostile.csv" in str(caught.value)


def test_a_field_too_long_for_the_csv_module_is_refused() -> None:
    before = csv.field_size_limit(1_000)  # of the whole process: other packages raise it
    try:
        with pytest.raises(InvalidInputError, match=r"field larger than field limit .* in line 2"):
            read(b"a,b\n" + b"x" * 2_000 + b",1\n")
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("name", ["gone.csv", "."])
def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="must be a file that can be read"):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"delimiter": "::"}, "delimiter must be one character"),
        ({"decimal": "'"}, "decimal must be"),
        ({"encoding": "klingon"}, "encoding must be one Python knows"),
        ({"encoding": "ascii"}, "not ascii in line 2"),
        ({"target": "Wrad"}, r"must have a column 'Wrad' \(is it 'ward'\?\), got the columns: age, "),
        ({"text": ["id"]}, "must have a column 'id'"),
    ],
)
def test_an_option_that_cannot_be_met_is_refused(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        read("age,ward\n50,é\n", **options)


cells = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.floats().map(repr),
    st.integers().map(str),
)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from(",;\t|"))
@settings(max_examples=120, deadline=None)
def test_whatever_a_table_holds_both_readers_agree(rows: list[tuple[str, str]], delimiter: str) -> None:
    text = io.StringIO(newline="")
    pd.DataFrame(rows, columns=["a", "b"]).to_csv(text, sep=delimiter, index=False, quoting=csv.QUOTE_ALL)
    content = text.getvalue().encode()
    whole = read(content, text=["a", "b"], delimiter=delimiter)
    source = io.BytesIO(content)
    chunks = [pd.DataFrame(chunk, dtype=object) for chunk, _ in iter_table(source, chunk_rows=3, delimiter=delimiter)]
    # as objects: pandas 3 gives a chunk's text its own type only where a cell is not missing
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), whole.astype(object))
    assert len(whole) == len(rows)


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_whatever_bytes_arrive_a_table_or_a_clear_error_comes_out(content: bytes) -> None:
    try:
        frame = read(content)
    except InvalidInputError as error:
        message = str(error)
        assert "must" in message or "needs pyarrow" in message
        return
    assert len(frame)


def test_a_large_file_is_read_as_pandas_reads_it(data_file: Callable[[str], Path]) -> None:
    path = data_file("sick_euthyroid.csv.gz")
    pd.testing.assert_frame_equal(read_table(path), pd.read_csv(path).astype(np.float64), rtol=0, atol=0)


def test_labels_are_separated_and_rows_without_one_counted() -> None:
    features, labels, n_unlabelled = split_labels(read("x,ill\n1,yes\n2,\n3,no\n4,NA\n"), "ill")
    assert features["x"].tolist() == [1.0, 3.0]
    assert labels.tolist() == ["yes", "no"]
    assert n_unlabelled == 2


def test_labels_that_are_whole_numbers_are_integers_though_some_are_missing() -> None:
    _, labels, _ = split_labels(read("x,y\n1,0\n2,\n3,1\n"), "y")
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("content", "target", "rule"),
    [
        ("x,outcome\n1,0\n", "Outcom", r"'Outcom' \(is it 'outcome'\?\), got the columns: x, outcome"),
        ("x,y\n1,\n2,NA\n", "y", "must hold a label, got none in 2 rows of 'y'"),
        ("y\n1\n", "y", "a column besides the target"),
    ],
)
def test_a_table_without_labels_or_features_is_refused(content: str, target: str, rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        split_labels(read(content), target)
