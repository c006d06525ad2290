"""State which kinds of arguments an operation takes, and refuse others: a model file can hold anything."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from obil.errors import InvalidInputError

Array: TypeAlias = npt.NDArray[Any]  # float32, int64 or bool
Numbers: TypeAlias = Array | float  # an array or a single number
OptionalArray: TypeAlias = Array | None
OptionalNumbers: TypeAlias = Array | float | None
OptionalInt: TypeAlias = int | None
OptionalFloat: TypeAlias = float | None
OptionalText: TypeAlias = str | None
Ints: TypeAlias = Sequence[int]
OptionalInts: TypeAlias = int | Sequence[int] | None
Arrays: TypeAlias = Sequence[Array]
OptionalArrays: TypeAlias = Sequence[Array | None]

LARGEST_ARRAY = 2**26  # elements of anything that a step computes
LARGEST_INT = 2**40
DTYPES = {"float32": np.float32, "int64": np.int64, "bool": np.bool_}


def require_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the operation does not take, lacks, or takes as another kind."""
    parameters = inspect.signature(function).parameters
    for name in arguments:
        if name not in parameters:
            raise InvalidInputError(f"its arguments are {', '.join(parameters)}, got {name!r:.40}")
    for name, parameter in parameters.items():
        if name not in arguments:
            if parameter.default is inspect.Parameter.empty:
                raise InvalidInputError(f"it needs the argument {name!r}")
        elif not _KINDS[parameter.annotation](arguments[name]):
            raise InvalidInputError(f"its argument {name!r} is of the wrong kind: {arguments[name]!r:.60}")


def require_size(shape: Sequence[int]) -> None:
    """Refuse a shape so large that only a mistake or an attack can want it."""
    if any(length < 0 for length in shape) or math.prod(int(length) for length in shape) > LARGEST_ARRAY:
        raise InvalidInputError(f"an array has at most {LARGEST_ARRAY:,} elements, got the shape {tuple(shape)!s:.60}")


def is_int(value: Any) -> bool:
    """Say whether this is a whole number of a size that shapes and axes have."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | float) or is_int(value)


def _is_numbers(value: Any) -> bool:
    return _is_array(value) or _is_number(value)


def _is_ints(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(is_int(item) for item in value)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, tuple)


_KINDS: dict[Any, Callable[[Any], bool]] = {
    Array: _is_array,
    OptionalArray: lambda value: value is None or _is_array(value),
    Numbers: _is_numbers,
    OptionalNumbers: lambda value: value is None or _is_numbers(value),
    int: is_int,
    OptionalInt: lambda value: value is None or is_int(value),
    float: _is_number,
    OptionalFloat: lambda value: value is None or _is_number(value),
    bool: lambda value: isinstance(value, bool),
    str: lambda value: isinstance(value, str),
    OptionalText: lambda value: value is None or isinstance(value, str),
    Ints: _is_ints,
    OptionalInts: lambda value: value is None or is_int(value) or _is_ints(value),
    Arrays: lambda value: isinstance(value, list | tuple) and all(_is_array(item) for item in value),
    OptionalArrays: lambda value: (
        isinstance(value, list | tuple) and all(item is None or _is_array(item) for item in value)
    ),
    tuple[Array, ...]: _is_sequence,
}
