"""Carry values through Python unchanged: pandas rounds integers beside a null, and converts time zones."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
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

_AS_TEXT = (BooleanType, DateType, NumericType, StringType, TimestampNTZType)  # whose string form is unique


def named(name: str) -> Column:
    """Return a column by name, whatever characters the name has."""
    return F.col("`" + name.replace("`", "``") + "`")


def as_text(df: DataFrame, name: str, *, role: str) -> Column:
    """Return a column as strings that are equal exactly where Spark's own grouping finds values equal."""
    kind, column = df.schema[name].dataType, named(name)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column).cast(StringType())  # its string form repeats when clocks are set back
    if isinstance(kind, BinaryType):
        return F.hex(column)
    if isinstance(kind, FloatType | DoubleType):
        return (column + F.lit(0.0).cast(kind)).cast(StringType())  # minus zero is zero
    if isinstance(kind, _AS_TEXT):
        return column.cast(StringType())
    raise InvalidInputError(f"{role} must be a string, number, time or bytes: {name!r} is {kind.simpleString():.80}")


def from_text(column: Column, kind: DataType) -> Column:
    """Return what `as_text` carried, in its original type."""
    if isinstance(kind, TimestampType):
        return F.timestamp_micros(column.cast("long"))
    return F.unhex(column) if isinstance(kind, BinaryType) else column.cast(kind)


def as_ordered(df: DataFrame, name: str) -> Column:
    """Return a time as a number or string with the same order."""
    kind, column = df.schema[name].dataType, named(name)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, TimestampNTZType | DateType):
        return column.cast(StringType())
    if isinstance(kind, NumericType | StringType):
        return column
    raise InvalidInputError(
        f"time must be a timestamp, date, number or sortable string: {name!r} is {kind.simpleString():.80}"
    )


def from_ordered(column: Column, kind: DataType) -> Column:
    """Return what `as_ordered` carried, in its original type."""
    return F.timestamp_micros(column) if isinstance(kind, TimestampType) else column.cast(kind)
