"""Carry values through Python unchanged: pandas rounds whole numbers beside a null, and reads times in a zone."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # what every Spark program calls it
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from obil.errors import InvalidInputError

_AS_TEXT = (BooleanType, DateType, NumericType, StringType, TimestampNTZType)  # whose text names just one value


def named(name: str) -> Column:
    """Return the column of a name, whatever letters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def as_text(df: DataFrame, name: str, *, role: str) -> Column:
    """Return a column as text that tells its values apart just as Spark's own grouping does."""
    kind, column = df.schema[name].dataType, named(name)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column).cast(StringType())  # its text would be the same twice when clocks are set back
    if isinstance(kind, BinaryType):
        return F.hex(column)
    if isinstance(kind, FloatType | DoubleType):
        return (column + F.lit(0.0).cast(kind)).cast(StringType())  # minus zero is zero
    if isinstance(kind, _AS_TEXT):
        return column.cast(StringType())
    raise InvalidInputError(f"{role} must be a text, a number, a time or bytes: {name!r} is {kind.simpleString():.80}")


def from_text(column: Column, kind: DataType) -> Column:
    """Return what `as_text` carried in its own type."""
    if isinstance(kind, TimestampType):
        return F.timestamp_micros(column.cast("long"))
    return F.unhex(column) if isinstance(kind, BinaryType) else column.cast(kind)


def as_ordered(df: DataFrame, name: str) -> Column:
    """Return a time as a number or a text that keeps its order."""
    kind, column = df.schema[name].dataType, named(name)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, TimestampNTZType | DateType):
        return column.cast(StringType())
    if isinstance(kind, NumericType | StringType):
        return column
    raise InvalidInputError(
        f"time must be a timestamp, a date, a number or a text that sorts: {name!r} is {kind.simpleString():.80}"
    )


def from_ordered(column: Column, kind: DataType) -> Column:
    """Return what `as_ordered` carried in its own type."""
    return F.timestamp_micros(column) if isinstance(kind, TimestampType) else column.cast(kind)
