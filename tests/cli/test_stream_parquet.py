"""Parquet files go into a stream and come out of it, and decide as a CSV does."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from obil.cli.parquet_rows import ParquetLines
from tests.cli.cases import obil

pa = pytest.importorskip("pyarrow", reason="parquet files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="parquet files need pyarrow")

STREAM = ["stream", "model"]


def as_parquet(here: Path) -> pd.DataFrame:
    rows = pd.read_csv(here / "new.csv")
    rows.to_parquet(here / "new.parquet", row_group_size=64)
    return rows


def test_a_parquet_file_is_decided_as_its_csv_is_and_parquet_comes_out(here: Path) -> None:
    as_parquet(here)
    assert obil(*STREAM, "new.csv", "--out", "a.csv", "--keep", "id").exit_code == 0
    ran = obil(*STREAM, "new.parquet", "--out", "b.parquet", "--keep", "id")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stderr.splitlines()[0].endswith(": b.parquet")
    assert (here / "b.parquet.csv").read_bytes() == (here / "a.csv").read_bytes()
    found, expected = pd.read_parquet("b.parquet"), pd.read_csv("a.csv", float_precision="round_trip")
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())


def test_a_longer_parquet_file_is_resumed_and_a_changed_one_refused(here: Path) -> None:
    rows = as_parquet(here)
    obil(*STREAM, "new.parquet", "--out", "whole.parquet")
    rows[:120].to_parquet("part.parquet")
    obil(*STREAM, "part.parquet", "--out", "out.parquet")
    assert len(pd.read_parquet("out.parquet")) == 120
    rows.to_parquet("part.parquet")
    assert obil(*STREAM, "part.parquet", "--out", "out.parquet").exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), pd.read_parquet("whole.parquet"))
    rows[::-1].to_parquet("part.parquet")
    assert "is not the one that was decided" in obil(*STREAM, "part.parquet", "--out", "out.parquet").stderr


def test_missing_values_strings_and_categories_of_a_parquet_file_are_read(here: Path) -> None:
    rows = pd.read_csv("new.csv").astype({"ward": "category"})
    rows.loc[[3, 5], ["size", "pulse"]] = np.nan
    rows.loc[7, "id"] = 'a "quoted", id\nof two lines'
    rows.to_parquet("new.parquet")
    rows.to_csv("new.csv", index=False)
    obil(*STREAM, "new.csv", "--out", "a.csv", "--keep", "id,ward")
    ran = obil(*STREAM, "new.parquet", "--out", "b.parquet", "--keep", "id,ward")
    assert ran.exit_code == 0, ran.stderr
    assert (here / "b.parquet.csv").read_bytes() == (here / "a.csv").read_bytes()
    assert pd.read_parquet("b.parquet")["id"][7] == 'a "quoted", id\nof two lines'


def test_nan_is_a_missing_value_in_the_lines(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.5, np.nan, None], "b": [1, 2, 3]}), tmp_path / "new.parquet")
    with ParquetLines(tmp_path / "new.parquet", wanted=["a", "b"], on_pause=lambda: None) as lines:
        assert b"".join(iter(lambda: lines.read1(1), b"")) == b"a,b\n1.5,1\n,2\n,3\n"


def test_a_parquet_output_that_no_state_belongs_to_is_not_replaced(here: Path) -> None:
    (here / "out.parquet").write_bytes(b"mine")
    ran = obil(*STREAM, "new.csv", "--out", "out.parquet")
    assert "out.parquet exists and no state belongs to it" in ran.stderr
    assert (here / "out.parquet").read_bytes() == b"mine"
    assert obil(*STREAM, "new.csv", "--out", "out.parquet", "--overwrite").exit_code == 0
    assert len(pd.read_parquet("out.parquet")) == 200


def test_a_file_that_is_no_parquet_is_refused_in_a_line(here: Path) -> None:
    (here / "new.parquet").write_bytes((here / "new.csv").read_bytes())
    ran = obil(*STREAM, "new.parquet", "--out", "a.csv")
    assert "new.parquet is not a parquet file that can be read" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_parquet_file_without_the_columns_is_refused_as_its_csv_is(here: Path) -> None:
    pd.DataFrame({'the "id"': [1], "b,c": [2]}).to_parquet("new.parquet")
    ran = obil(*STREAM, "new.parquet", "--out", "a.csv")
    assert "must have a column 'size', got the columns: the \"id\", b,c" in ran.stderr


def test_a_parquet_file_without_rows_gives_one_without_rows(here: Path) -> None:
    as_parquet(here)[:0].to_parquet("new.parquet")
    assert obil(*STREAM, "new.parquet", "--out", "a.parquet").exit_code == 0
    assert len(pd.read_parquet("a.parquet")) == 0


def test_without_pyarrow_it_says_what_to_install(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    assert "pip install pyarrow" in obil(*STREAM, "new.csv", "--out", "out.parquet").stderr
