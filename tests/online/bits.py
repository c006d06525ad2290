"""Return what a memory holds as bytes: of the same bytes, two streams continue alike."""

from typing import Any

import numpy.typing as npt

from obil.flat_record import Record, arrays_of


def bits_of(*memories: tuple[Any, ...]) -> bytes:
    return b"".join(values.tobytes() for memory in memories for values in arrays_of(memory).values())


def lies_in(values: npt.NDArray[Any], record: Record) -> bool:
    """Whether the numbers of an array are those of a record itself."""
    first, start = (one.__array_interface__["data"][0] for one in (values, record))
    return bool(start <= first < start + record.nbytes)
