"""Lay the arrays of a memory out in one flat record, and view them there.

A memory is a NamedTuple of arrays, or of memories; None is a part that is not there. A record has a fixed layout of
little-endian numbers, so that its bytes are a state, and many records are one array.
"""

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray
from obil.errors import InvalidStateError

AnyMemory = TypeVar("AnyMemory", bound=tuple[Any, ...])
Record = npt.NDArray[np.void]  # ()
UNIT = 8  # bytes, of which a record is a multiple
DEFLATE_LEVEL = 1  # of 1 to 9: others take twice the time for 2 % fewer bytes


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where each array of a memory lies in a record.

    >>> from typing import NamedTuple
    >>> class Counts(NamedTuple):
    ...     rows: Any
    ...     sums: Any
    >>> layout = Layout.of(Counts(np.zeros(1, dtype=np.int64), np.zeros((2, 3))))
    >>> layout.dtype.itemsize
    56
    >>> record = np.zeros((), layout.dtype)
    >>> record["sums"][1, 2] = 0.5
    >>> bool(layout.unpack(pack(record))["sums"][1, 2] == 0.5)
    True
    """

    dtype: np.dtype[Any]
    hash: bytes  # eight bytes that name the layout: fields, kinds, shapes
    is_float: BoolArray  # (units,) which units of eight bytes are floats, and so must be finite

    @classmethod
    def of(cls, memory: tuple[Any, ...]) -> Self:
        """Return the layout of records that hold memories like this one; equal ones are made once."""
        shape = _shape_of(memory)
        if shape not in _LAYOUTS:
            _LAYOUTS[shape] = cls._made(memory)
        layout: Self = _LAYOUTS[shape]
        return layout

    @classmethod
    def _made(cls, memory: tuple[Any, ...]) -> Self:
        dtype = _dtype_of(memory)
        marked: Record = np.zeros((), dtype)
        for values in arrays_of(views_of(memory, marked)).values():
            if values.dtype == np.float64:
                values[...] = 1.0
        name = hashlib.blake2b(repr(dtype.descr).encode(), digest_size=8).digest()
        return cls(dtype, name, _units(marked) != 0)

    def unpack(self, data: bytes) -> Record:
        """Return a record that was packed, if it is whole and its floats are finite; NaN may stand in a float32."""
        inflater = zlib.decompressobj()
        try:
            raw = inflater.decompress(data, self.dtype.itemsize + 1)  # a hostile one may be far longer
        except zlib.error:
            raw = b""
        if len(raw) != self.dtype.itemsize or not inflater.eof or inflater.unused_data:
            raise InvalidStateError("this state is damaged: its record is not whole")
        units = np.frombuffer(bytearray(raw), dtype="<u8")
        if not np.isfinite(units.view("<f8")[self.is_float]).all():
            raise InvalidStateError("this state is damaged: its numbers must be finite")
        return units.view(self.dtype).reshape(())


def pack(record: Record) -> bytes:
    """Return a record in fewer bytes."""
    return zlib.compress(record.tobytes(), DEFLATE_LEVEL)


def in_record(memory: AnyMemory) -> tuple[AnyMemory, Record]:
    """Return a memory of these values whose arrays lie in one new record, and that record."""
    record: Record = np.zeros((), Layout.of(memory).dtype)
    views = views_of(memory, record)
    copy_into(memory, views)
    return views, record


def views_of(memory: AnyMemory, record: Record) -> AnyMemory:
    """Return a memory like this one whose arrays are those of a record."""
    parts: list[Any] = []
    for name, part in zip(memory._fields, memory, strict=True):  # type: ignore[attr-defined]  # a NamedTuple has it
        if part is None:
            parts.append(None)
        else:
            parts.append(views_of(part, record[name]) if isinstance(part, tuple) else record[name])
    return type(memory)(*parts)


def copy_into(memory: tuple[Any, ...], target: tuple[Any, ...]) -> None:
    """Copy the values of a memory into another of the same layout."""
    for part, values in zip(target, memory, strict=True):
        if isinstance(values, tuple):
            copy_into(values, part)
        elif values is not None:
            part[...] = values


def copied_record(record: Record) -> Record:
    """Return a copy of a record: numpy itself goes field by field."""
    return np.frombuffer(bytearray(record.data), dtype=record.dtype).reshape(())


def copy_record(record: Record, records: npt.NDArray[np.void], places: list[int]) -> None:
    """Copy a record to these places of an array of such records."""
    units = _units(record)
    records.view("<u8").reshape(len(records), len(units))[places] = units


def arrays_of(memory: tuple[Any, ...]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a memory by name, those of its parts as "part.name"."""
    named: dict[str, npt.NDArray[Any]] = {}
    for name, part in memory._asdict().items():  # type: ignore[attr-defined]
        if isinstance(part, tuple):
            named |= {f"{name}.{inner}": values for inner, values in arrays_of(part).items()}
        elif part is not None:
            named[name] = part
    return named


def _dtype_of(memory: tuple[Any, ...]) -> np.dtype[Any]:
    fields: list[Any] = []
    for name, part in memory._asdict().items():  # type: ignore[attr-defined]
        if isinstance(part, tuple):
            fields.append((name, _dtype_of(part)))
        elif part is not None:
            if part.nbytes % UNIT:  # numpy does not copy what pads a field
                raise TypeError(f"{name!r} must fill whole units of {UNIT} bytes, got {part.nbytes} bytes")
            fields.append((name, part.dtype.newbyteorder("<"), part.shape))
    return np.dtype(fields)


def _shape_of(memory: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a layout depends on."""
    parts = (
        _shape_of(part) if isinstance(part, tuple) else None if part is None else (part.dtype.str, part.shape)
        for part in memory
    )
    return (type(memory), *parts)


def _units(record: Record) -> npt.NDArray[np.uint64]:
    return record.reshape(1).view("<u8")


_LAYOUTS: dict[tuple[Any, ...], Any] = {}  # by the shape of their memory: as many as there are kinds of streams
