"""Compute a network's operations on shape, order and place in numpy: view, cat, index and the like."""

from collections.abc import Callable
from typing import Any

import numpy as np

from obil.errors import InvalidInputError
from obil.serving.elementwise_operations import as_dtype
from obil.serving.step_arguments import (
    LARGEST_INT,
    Array,
    Arrays,
    Ints,
    OptionalArrays,
    OptionalInt,
    OptionalInts,
    OptionalText,
    require_size,
)


def _size(x: Array, dim: int) -> int:
    return int(x.shape[dim])


def _getitem(x: tuple[Array, ...], index: int) -> Array:
    return x[index]


def _view(x: Array, size: Ints) -> Array:
    return x.reshape(tuple(size))


def _flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    first, last = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


def _permute(x: Array, dims: Ints) -> Array:
    return np.transpose(x, tuple(dims))


def _transpose(x: Array, dim0: int, dim1: int) -> Array:
    return np.swapaxes(x, dim0, dim1)


def _t(x: Array) -> Array:
    return x.T


def _unsqueeze(x: Array, dim: int) -> Array:
    return np.expand_dims(x, dim)


def _squeeze(x: Array, dim: OptionalInts = None) -> Array:
    if dim is None:
        return np.squeeze(x)
    wanted = {place % max(x.ndim, 1) for place in ([dim] if isinstance(dim, int) else dim)}
    # as in torch, an axis that is not of length 1 stays
    return np.squeeze(x, axis=tuple(place for place in sorted(wanted) if x.shape[place] == 1))


def _expand(x: Array, size: Ints) -> Array:
    shape = (1,) * (len(size) - x.ndim) + x.shape
    wanted = tuple(old if new == -1 else new for old, new in zip(shape, size, strict=True))
    require_size(wanted)
    return np.broadcast_to(x, wanted)


def _repeat(x: Array, repeats: Ints) -> Array:
    shape = (1,) * (len(repeats) - x.ndim) + x.shape
    require_size([length * times for length, times in zip(shape, repeats, strict=True)])
    return np.tile(x, tuple(repeats))


def _cat(tensors: Arrays, dim: int = 0) -> Array:
    require_size([sum(values.size for values in tensors)])
    # as in torch, an empty vector joins anything
    return np.concatenate([values for values in tensors if values.shape != (0,)] or tensors[:1], axis=dim)


def _stack(tensors: Arrays, dim: int = 0) -> Array:
    require_size([sum(values.size for values in tensors)])
    return np.stack(tuple(tensors), axis=dim)


def _slice(x: Array, dim: int = 0, start: OptionalInt = None, end: OptionalInt = None, step: int = 1) -> Array:
    if step < 1:
        raise InvalidInputError(f"a slice's step must be positive, got {step}")
    at = [slice(None)] * x.ndim
    at[dim] = slice(start, end, step)
    return x[tuple(at)]


def _select(x: Array, dim: int, index: int) -> Array:
    return np.asarray(np.take(x, index, axis=dim)) if x.ndim == 1 else _at(x, dim, index)


def _at(x: Array, dim: int, index: int) -> Array:
    at: list[slice | int] = [slice(None)] * x.ndim
    at[dim] = index
    return x[tuple(at)]


def _split(x: Array, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    if split_size < 1:
        raise InvalidInputError(f"a split's size must be positive, got {split_size}")
    return tuple(np.split(x, range(split_size, x.shape[dim], split_size), axis=dim))


def _split_with_sizes(x: Array, split_sizes: Ints, dim: int = 0) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(split_sizes)[:-1], axis=dim))


def _unbind(x: Array, dim: int = 0) -> tuple[Array, ...]:
    return tuple(np.moveaxis(x, dim, 0))


def _index(x: Array, indices: OptionalArrays) -> Array:
    places = [index for index in indices if index is not None]
    if not all(index.dtype == np.bool_ for index in places):
        shape = np.broadcast_shapes(*(index.shape for index in places))
        require_size((*shape, *(n for n, index in zip(x.shape, indices, strict=False) if index is None)))
        require_size((*shape, *x.shape[len(indices) :]))
    # slices kept apart from arrays: numpy then places the new axes where torch does
    return np.asarray(x[tuple(slice(None) if index is None else index for index in indices)])


def _index_select(x: Array, dim: int, index: Array) -> Array:
    require_size((index.size, x.size // max(x.shape[dim], 1)))
    return np.take(x, index, axis=dim)


def _gather(x: Array, dim: int, index: Array) -> Array:
    within = tuple(slice(0, n) if axis != dim % x.ndim else slice(None) for axis, n in enumerate(index.shape))
    return np.take_along_axis(x[within], index, axis=dim)


def _index_add(x: Array, dim: int, index: Array, source: Array, alpha: float = 1) -> Array:
    total = np.moveaxis(x.astype(np.float64 if x.dtype == np.float32 else x.dtype), dim, 0)
    np.add.at(total, index, np.moveaxis(source if alpha == 1 else alpha * source, dim, 0))
    return np.moveaxis(total, 0, dim)


def _scatter_add(x: Array, dim: int, index: Array, src: Array) -> Array:
    total = x.astype(np.float64 if x.dtype == np.float32 else x.dtype)
    places: list[Array] = list(np.indices(index.shape, sparse=True))
    places[dim] = index
    np.add.at(total, tuple(places), src[tuple(slice(0, n) for n in index.shape)])
    return total


def _constant_pad_nd(x: Array, pad: Ints, value: float = 0) -> Array:
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + [(int(low), int(high)) for low, high in pairs]
    require_size([length + max(low, 0) + max(high, 0) for length, (low, high) in zip(x.shape, widths, strict=True)])
    # a negative width cuts
    cut = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(x.shape, widths, strict=True))
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    return np.pad(x[cut], grown, constant_values=value)


def _flip(x: Array, dims: Ints) -> Array:
    return np.flip(x, tuple(dims))


def _triangle(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: Array, diagonal: int = 0) -> Array:
        result: Array = function(x, diagonal)
        return result

    return apply


def _arange(end: float, start: float = 0, step: float = 1, dtype: OptionalText = None) -> Array:
    if step == 0 or not abs(end - start) / abs(step) <= LARGEST_INT:
        raise InvalidInputError(f"a range of numbers must end, got {start} to {end} by {step}")
    require_size([int(abs(end - start) / abs(step)) + 1])
    whole = all(isinstance(value, int) for value in (start, end, step))
    return np.arange(start, end, step).astype(as_dtype(dtype or ("int64" if whole else "float32")))


def _full(size: Ints, fill_value: float, dtype: OptionalText = None) -> Array:
    require_size(size)
    kind = "bool" if isinstance(fill_value, bool) else "int64" if isinstance(fill_value, int) else "float32"
    return np.full(tuple(size), fill_value, as_dtype(dtype or kind))


def _full_like(x: Array, fill_value: float, dtype: OptionalText = None) -> Array:
    return np.full(x.shape, fill_value, x.dtype if dtype is None else as_dtype(dtype))


SHAPES: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    "cat": _cat,
    "constant_pad_nd": _constant_pad_nd,
    "expand": _expand,
    "flatten": _flatten,
    "flip": _flip,
    "full": _full,
    "full_like": _full_like,
    "gather": _gather,
    "getitem": _getitem,
    "index": _index,
    "index_add": _index_add,
    "index_select": _index_select,
    "permute": _permute,
    "repeat": _repeat,
    "scatter_add": _scatter_add,
    "select": _select,
    "size": _size,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": _split_with_sizes,
    "squeeze": _squeeze,
    "stack": _stack,
    "t": _t,
    "transpose": _transpose,
    "tril": _triangle(np.tril),
    "triu": _triangle(np.triu),
    "unbind": _unbind,
    "unsqueeze": _unsqueeze,
    "view": _view,
}
