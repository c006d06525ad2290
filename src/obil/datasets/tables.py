"""Read a table as people keep them: any common delimiter, decimal mark, encoding or compression."""

import importlib
import io
import re
from collections.abc import Collection
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from obil.datasets import table_cells, table_text
from obil.datasets.table_records import RecordReader
from obil.datasets.table_stream import iter_table
from obil.datasets.table_text import TableSource
from obil.errors import InvalidInputError

__all__ = ["TableSource", "iter_table", "read_table", "split_labels"]

FORMATTED = "formatted_numbers"  # in a table's `attrs`: the columns whose numbers are written for people
_PIECE = 1 << 20  # characters parsed at a time: cells take much more memory than codes
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:[.,]\d{3})+")


class _Column:
    """One column's cells, each different text kept once."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._codes: list[npt.NDArray[np.int32]] = []

    def extend(self, cells: Collection[str]) -> None:
        texts = self.texts
        codes = (texts.setdefault(cell, len(texts)) for cell in cells)
        self._codes.append(np.fromiter(codes, dtype=np.int32, count=len(cells)))

    def numbers(self, decimal: str, *, formatted: bool = False) -> npt.NDArray[np.float64] | None:
        """Return the cells as numbers, or None when one of them is not; maybe those written for people, too."""
        values = np.empty(len(self.texts))
        for code, text in enumerate(map(str.strip, self.texts)):
            value = np.nan if text in table_cells.MISSING else table_cells.number(text, decimal=decimal)
            if value is None and formatted:
                value = table_cells.formatted_number(text, decimal=decimal)
            if value is None:
                return None
            values[code] = value
        return values[np.concatenate(self._codes)]

    def strings(self) -> npt.NDArray[np.object_]:
        """Return the cells as text, NaN for missing."""
        values = np.empty(len(self.texts), dtype=object)
        for code, text in enumerate(map(str.strip, self.texts)):
            values[code] = np.nan if text in table_cells.MISSING else text
        cells: npt.NDArray[np.object_] = values[np.concatenate(self._codes)]
        return cells

    def shows_decimal(self, mark: str) -> bool:
        """Return whether a number of this column has `mark` where it cannot part thousands."""
        return any(mark in text and not _THOUSANDS.fullmatch(text.strip()) for text in self.texts)


def read_table(
    source: TableSource,
    *,
    target: str | None = None,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    r"""Return a CSV or parquet table: columns of numbers as float64, all others as text with NaN for missing.

    Delimiter, decimal mark, encoding and gzip are found from the content where they are not given. Dates stay
    text, and so do the columns named in `text` (a long number read as float64 would lose its last digits). A
    `target` is a column that the table must have. Empty lines are skipped; a row with a field too many or too
    few is refused.

    >>> read_table(io.StringIO("weight;sex\n3,14;f\n2;\n"))
       weight  sex
    0    3.14    f
    1    2.00  NaN
    """
    table_cells.require_delimiter(delimiter, decimal)
    name = table_text.source_name(source)
    wanted = [*text] if target is None else [target, *text]
    data = table_text.whole_bytes(source)
    if data is not None and data.startswith(table_text.PARQUET):
        frame = _read_parquet(data, name, set(text))
    else:
        columns, mark = _read_columns(
            source if data is None else io.BytesIO(data), name, wanted=wanted, delimiter=delimiter, encoding=encoding
        )
        frame = _typed(columns, mark, decimal=decimal, text=set(text))
    if frame.empty:
        raise InvalidInputError(f"a table must have a row below its header, got none in {name}")
    table_cells.require_columns(wanted, list(frame.columns), table=name)
    return frame


def split_labels(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, npt.NDArray[Any], int]:
    """Return the features and the labels of the rows that have a label, and the number of rows without one.

    Labels that are whole numbers become integers; other labels stay as they are.

    >>> rows = pd.DataFrame({"age": [50.0, 60.0, 70.0], "ill": ["yes", None, "no"]})
    >>> features, labels, n_unlabelled = split_labels(rows, "ill")
    >>> features["age"].tolist(), labels.tolist(), n_unlabelled
    ([50.0, 70.0], ['yes', 'no'], 1)
    """
    table_cells.require_columns([target], list(frame.columns), table="the table")
    if len(frame.columns) < 2:
        raise InvalidInputError(f"the table must have a column besides the target {target!r}, got none")
    labelled = frame[target].notna().to_numpy()
    if not labelled.any():
        raise InvalidInputError(f"the target column must hold a label, got none in {len(frame)} rows of {target!r}")
    labels = frame[target].to_numpy()[labelled]
    if np.issubdtype(labels.dtype, np.floating) and (labels == np.floor(labels)).all() and np.isfinite(labels).all():
        labels = labels.astype(np.int64)
    return frame.loc[labelled].drop(columns=target), labels, int((~labelled).sum())


def _read_columns(
    source: TableSource, name: str, *, wanted: Collection[str], delimiter: str | None, encoding: str | None
) -> tuple[dict[str, _Column], str]:
    """Return the columns of delimited text, and its delimiter."""
    reader = RecordReader(name, delimiter=delimiter, wanted=wanted)
    text = "".join(table_text.text_blocks(source, encoding=encoding, name=name))
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    columns: dict[str, _Column] = {}
    for records in map(reader.push, chain(pieces, [None])):
        if records.error is not None:
            raise records.error
        columns = columns or {column: _Column() for column in reader.names}
        for column, cells in zip(columns.values(), records.columns, strict=False):  # maybe no record
            column.extend(cells)
    if not columns:
        raise InvalidInputError(f"a table must have a header and rows, got an empty file: {name}")
    if not next(iter(columns.values())).texts:
        raise InvalidInputError(f"a table must have a row below its header, got none in {name}")
    return columns, reader.delimiter


def _typed(columns: dict[str, _Column], delimiter: str, *, decimal: str | None, text: Collection[str]) -> pd.DataFrame:
    points = {name: column.numbers(".") for name, column in columns.items() if name not in text and decimal != ","}
    commas = {
        name: column.numbers(",")
        for name, column in columns.items()
        if name not in text and (decimal == "," or (decimal is None and delimiter != ","))
    }
    if decimal is None:
        # one file has one decimal mark: with decimal commas, 1.234 is a thousand and stays text
        point_shown, comma_shown = (
            any(found[name] is not None and columns[name].shows_decimal(mark) for name in found)
            for found, mark in ((points, "."), (commas, ","))
        )
        if comma_shown and not point_shown:
            points = dict.fromkeys(points)
        elif point_shown and not comma_shown:
            commas = dict.fromkeys(commas)
        decimal = "," if comma_shown and not point_shown else "."
    data: dict[str, npt.NDArray[Any]] = {}
    formatted: list[str] = []
    for name, column in columns.items():
        if name.startswith("unnamed_") and not any(cell.strip() for cell in column.texts):
            continue  # every line ended with a delimiter
        found = points.get(name)
        values: npt.NDArray[Any] | None = commas.get(name) if found is None else found
        if values is None and name not in text:
            values = column.numbers(decimal, formatted=True)
            formatted += [] if values is None else [name]
        data[name] = column.strings() if values is None else values
    frame = pd.DataFrame(data)
    frame.attrs[FORMATTED] = formatted
    return frame


def _read_parquet(data: bytes, name: str, text: Collection[str]) -> pd.DataFrame:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        arrow_error = importlib.import_module("pyarrow").ArrowException
    except ImportError:
        raise InvalidInputError(f"a parquet table needs pyarrow (pip install pyarrow) to be read, got {name}") from None
    try:
        table = parquet.read_table(io.BytesIO(data))
        names = table_cells.column_names([str(column) for column in table.column_names], table=name)
        typed = [column.to_pandas() for column in table.columns]
    except (arrow_error, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"a parquet file must be whole, got damage in {name}: {reason}") from None
    return pd.DataFrame({key: _plain(values, as_text=key in text) for key, values in zip(names, typed, strict=True)})


def _plain(values: "pd.Series[Any]", *, as_text: bool) -> npt.NDArray[Any]:
    """Return a typed column as float64 or text."""
    if not as_text and pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    column = _Column()
    column.extend(["" if missing else str(cell) for cell, missing in zip(values, values.isna(), strict=True)])
    return column.strings()
