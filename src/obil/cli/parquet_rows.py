"""Read a parquet file as the lines of a CSV, row group by row group, and write a CSV as a parquet file."""

import io
from collections.abc import Callable, Iterator, Sequence
from csv import reader as reader_of
from csv import writer as writer_of
from pathlib import Path
from typing import Any

from obil.cli.arriving import ArrivingBytes, Stopped
from obil.errors import InvalidInputError

BATCH_ROWS = 8_192


def require_pyarrow(path: Path) -> None:
    """Refuse a parquet file where it can be neither read nor written."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise InvalidInputError(f"{path} is a parquet file, which needs pyarrow: pip install pyarrow") from None


class ParquetLines(ArrivingBytes):
    """The rows of a parquet file as bytes of CSV, of the columns that are wanted; numbers keep every bit."""

    def __init__(self, table: Path, *, wanted: Sequence[str], on_pause: Callable[[], None]) -> None:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        super().__init__(table, on_pause=on_pause)
        try:
            file = ParquetFile(self._file)
        except (ArrowException, OSError) as error:
            self._file.close()
            raise InvalidInputError(f"{table} is not a parquet file that can be read: {_line(error)}") from None
        self._n_rows, self._rows_read = file.metadata.num_rows, 0
        names = file.schema_arrow.names
        self._blocks = self._csv(file, [name for name in names if name in set(wanted)] or names)

    def read1(self, size: int) -> bytes:  # a batch is read as a whole
        """Return the lines of the next batch; b"" is the end."""
        if self._signal:
            raise Stopped(self._signal)
        return next(self._blocks, b"")

    @property
    def part_read(self) -> float | None:
        """Which part of the rows was read."""
        return self._rows_read / self._n_rows if self._n_rows else 1.0

    def _csv(self, file: Any, names: Sequence[str]) -> Iterator[bytes]:
        import pyarrow as pa
        from pyarrow.csv import WriteOptions, write_csv

        header = io.StringIO()
        writer_of(header, lineterminator="\n").writerow(names)
        yield header.getvalue().encode()
        try:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(names)):
                columns = [_plain(column) for column in batch.columns]
                text = io.BytesIO()
                table = pa.table(columns, names=batch.schema.names)
                write_csv(table, text, WriteOptions(include_header=False, batch_size=BATCH_ROWS))
                self._rows_read += batch.num_rows
                yield text.getvalue()
        except pa.ArrowException as error:
            raise InvalidInputError(f"{self.name} cannot be read: {_line(error)}") from None


def write_parquet(lines: Path, out: Path, *, numbers: Sequence[str], whole: Sequence[str]) -> None:
    """Write a CSV as a parquet file, whole or not at all: `numbers` as floats, `whole` as integers, others as text."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow.parquet import ParquetWriter

    from obil.cli.tables import write_whole

    def write(path: Path) -> None:
        with lines.open(encoding="utf-8", newline="") as file:
            names = next(reader_of(file))
        types = dict.fromkeys(names, pa.string())
        types |= dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(whole, pa.int64())
        convert = csv.ConvertOptions(column_types=types, include_columns=names)
        parse = csv.ParseOptions(newlines_in_values=True)
        reading = csv.open_csv(lines, parse_options=parse, convert_options=convert)
        with reading as rows, ParquetWriter(path, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)

    write_whole(out, write)


def _plain(column: Any) -> Any:
    """Return a column as what a CSV can hold: no number is written as nan."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
