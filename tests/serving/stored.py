"""A record's JSON values and arrays, and the record that is built from them."""

from typing import Any

from obil.serving.records import Stored, Written, read_record, write_record


def described(record: Any) -> dict[str, Any]:
    return write_record(record, Written())


def arrays_of(record: Any, name: str = "") -> dict[str, Any]:
    """The arrays by name; `name` is the path of the record in its model."""
    written = Written()
    write_record(record, written, name)
    return written.arrays


def rebuilt(cls: Any, saved: dict[str, Any], arrays: dict[str, Any]) -> Any:
    return read_record(cls, saved, Stored(arrays))
