"""Compute a network's layers in numpy: products, convolutions, pools, norms, attention."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from obil.errors import InvalidInputError
from obil.serving.elementwise_operations import softmax
from obil.serving.step_arguments import (
    Array,
    Ints,
    Numbers,
    OptionalArray,
    OptionalFloat,
    OptionalInt,
    require_size,
)

WINDOW_ELEMENTS = 2**19  # of the windows gathered at once in a convolution: they stay in the cache


def matmul(x: Array, other: Array) -> Array:
    """Return the matrix product, batched as in torch."""
    if x.ndim < 2 or other.ndim < 2:
        return np.asarray(np.matmul(x, other))
    if other.ndim == 2:  # one product of two matrices is much faster than many
        require_size((*x.shape[:-1], other.shape[1]))
        return np.asarray(np.matmul(x.reshape(-1, x.shape[-1]), other).reshape(*x.shape[:-1], other.shape[1]))
    require_size((*np.broadcast_shapes(x.shape[:-2], other.shape[:-2]), x.shape[-2], other.shape[-1]))
    return np.asarray(np.matmul(_for_blas(x), _for_blas(other)))


def _for_blas(x: Array) -> Array:
    # numpy multiplies by hand, and slowly, where neither of the last two axes is contiguous
    return x if x.itemsize in x.strides[-2:] else np.ascontiguousarray(x)


def _mm(x: Array, mat2: Array) -> Array:
    return matmul(x, mat2)


def _addmm(x: Numbers, mat1: Array, mat2: Array, beta: float = 1, alpha: float = 1) -> Array:
    product = matmul(mat1, mat2)
    result: Array = (product if alpha == 1 else alpha * product) + (x if beta == 1 else beta * x)
    return result


def _linear(x: Array, weight: Array, bias: OptionalArray = None) -> Array:
    result = matmul(x, weight.T)
    if bias is not None:
        result += bias
    return result


def _embedding(weight: Array, indices: Array) -> Array:
    require_size((*indices.shape, *weight.shape[1:]))
    if indices.size and indices.min() < 0:
        raise InvalidInputError(f"a number to look up must lie in 0 ... {len(weight) - 1}, got {indices.min()}")
    return weight[indices]


def _convolution(
    x: Array, weight: Array, bias: OptionalArray, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    if x.ndim == weight.ndim == 3:  # one dimension is two, the first of length 1
        wide = _convolution(
            x[:, :, None], weight[:, :, None], bias, (1, *stride), (0, *padding), (1, *dilation), groups
        )
        return wide[:, :, 0]
    channels, spread = weight.shape[1], _spread(weight.shape[2:], dilation)
    if x.ndim != 4 or weight.ndim != 4 or groups < 1 or x.shape[1] != channels * groups or len(weight) % groups:
        raise InvalidInputError(f"a convolution's rows {x.shape} do not fit its weights {weight.shape}")
    padded = _padded(x, padding, 0.0)
    windows = sliding_window_view(padded, spread, axis=(2, 3))  # (n, C, H, W, kh, kw)
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    height, width = windows.shape[2:4]
    depth = channels * weight.shape[2] * weight.shape[3]
    kernels = weight.reshape(groups, -1, depth)
    require_size((len(x), len(weight), height, width))
    result = np.empty((len(x), groups, len(weight) // groups, height * width), np.float32)
    rows = max(1, min(len(x), WINDOW_ELEMENTS // max(groups * depth * height * width, 1)))
    require_size((rows, groups, depth, height, width))
    gathered = np.empty((rows, x.shape[1], *weight.shape[2:], height, width), np.float32)
    for start in range(0, len(x), rows):
        some = windows[start : start + rows]
        np.copyto(gathered[: len(some)], some.transpose(0, 1, 4, 5, 2, 3))
        columns = gathered[: len(some)].reshape(len(some), groups, depth, height * width)
        np.matmul(kernels, columns, out=result[start : start + rows])
    planes = result.reshape(len(x), len(weight), height, width)
    if bias is not None:
        planes += bias[:, None, None]
    return planes


def _spread(kernel: Ints, dilation: Ints) -> tuple[int, ...]:
    return tuple((length - 1) * gap + 1 for length, gap in zip(kernel, dilation, strict=True))


def _padded(x: Array, padding: Ints, value: float, more: Ints = (0, 0)) -> Array:
    if not any(padding) and not any(more):
        return x
    if min(padding) < 0:
        raise InvalidInputError(f"padding must not be negative, got {tuple(padding)}")
    widths = [(0, 0), (0, 0), *((size, size + extra) for size, extra in zip(padding, more, strict=True))]
    require_size([length + low + high for length, (low, high) in zip(x.shape, widths, strict=True)])
    return np.pad(x, widths, constant_values=value)


def _pair(values: Ints) -> tuple[int, int]:
    first, last = (values[0], values[-1]) if values else (1, 1)
    return first, last


def _pooled_length(length: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    if kernel < 1 or stride < 1 or not 0 <= padding < kernel:
        raise InvalidInputError(f"a pool's kernel and stride must be positive, got {kernel}, {stride}, {padding}")
    room = length + 2 * padding - kernel
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    # as in torch, a window must start inside the image or its left padding
    return count - 1 if ceil_mode and (count - 1) * stride >= length + padding else count


def _pools(
    x: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], spread: tuple[int, ...],
    dilation: tuple[int, int], ceil_mode: bool, empty: float,
) -> Iterator[Array]:  # fmt: skip
    """Give, for each place in the window, what lies there for every window: (n, C, H, W) views."""
    if x.ndim != 4:
        raise InvalidInputError(f"a pool takes rows of shape (n, C, H, W), got {x.shape}")
    counts = [_pooled_length(x.shape[2 + k], spread[k], stride[k], padding[k], ceil_mode) for k in (0, 1)]
    if min(counts) < 1:
        raise InvalidInputError(f"a pool's window {spread} must fit into the image, got {x.shape}")
    ends = [(counts[k] - 1) * stride[k] + spread[k] for k in (0, 1)]
    more = [max(ends[k] - x.shape[2 + k] - 2 * padding[k], 0) for k in (0, 1)]
    padded = _padded(x, padding, empty, more)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            down, right = row * dilation[0], column * dilation[1]
            yield padded[
                :, :, down : down + (counts[0] - 1) * stride[0] + 1 : stride[0],
                right : right + (counts[1] - 1) * stride[1] + 1 : stride[1],
            ]  # fmt: skip


def _max_pool2d(
    x: Array,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    ceil_mode: bool = False,
) -> Array:
    kernel, gaps = _pair(kernel_size), _pair(dilation)
    places = _pools(
        x, kernel, _pair(stride or kernel_size), _pair(padding), _spread(kernel, gaps), gaps, ceil_mode, -np.inf
    )
    result = next(places).copy()
    for place in places:
        np.maximum(result, place, out=result)
    return result


def _avg_pool2d(
    x: Array,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: OptionalInt = None,
) -> Array:
    kernel, step, around = _pair(kernel_size), _pair(stride or kernel_size), _pair(padding)
    total = _added(_pools(x, kernel, step, around, kernel, (1, 1), ceil_mode, 0.0))
    if divisor_override is not None:
        return np.asarray(total / np.float32(divisor_override))
    # a window is divided by what it covers of the image, with its padding or without
    inside = np.ones((1, 1, *x.shape[2:]), np.float32)
    if count_include_pad:
        inside, around = _padded(inside, around, 1.0), (0, 0)
    covered = _added(_pools(inside, kernel, step, around, kernel, (1, 1), ceil_mode, 0.0))
    return np.asarray(total / covered[:, :, : total.shape[2], : total.shape[3]])


def _added(places: Iterator[Array]) -> Array:
    result = next(places).copy()
    for place in places:
        result += place
    return result


def _adaptive_avg_pool2d(x: Array, output_size: Ints) -> Array:
    high, wide = output_size
    require_size((*x.shape[:2], high, wide))
    result = np.empty((*x.shape[:-2], high, wide), np.float32)
    for row in range(high):
        top, bottom = row * x.shape[-2] // high, -(-(row + 1) * x.shape[-2] // high)
        for column in range(wide):
            left, right = column * x.shape[-1] // wide, -(-(column + 1) * x.shape[-1] // wide)
            result[..., row, column] = x[..., top:bottom, left:right].mean(axis=(-2, -1), dtype=np.float64)
    return result


def _layer_norm(
    x: Array, normalized_shape: Ints, weight: OptionalArray = None, bias: OptionalArray = None, eps: float = 1e-5
) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    centred /= np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + np.float32(eps))
    return _scaled(centred, weight, bias)


def _group_norm(
    x: Array, num_groups: int, weight: OptionalArray = None, bias: OptionalArray = None, eps: float = 1e-5
) -> Array:
    grouped = x.reshape(len(x), num_groups, -1)
    scaled = _layer_norm(grouped, (grouped.shape[-1],), eps=eps).reshape(x.shape)
    return _scaled(scaled, _over_places(weight, x), _over_places(bias, x))


def _batch_norm(
    x: Array, weight: OptionalArray, bias: OptionalArray, running_mean: Array, running_var: Array, eps: float = 1e-5
) -> Array:
    scale = 1 / np.sqrt(running_var + np.float32(eps))
    if weight is not None:
        scale = scale * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return _scaled(x, _over_places(scale, x), _over_places(shift, x))


def _over_places(values: OptionalArray, x: Array) -> OptionalArray:
    return None if values is None else values.reshape(-1, *(1,) * (x.ndim - 2))


def _scaled(x: Array, weight: OptionalArray, bias: OptionalArray) -> Array:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _attention(
    query: Array, key: Array, value: Array, attn_mask: OptionalArray = None, is_causal: bool = False,
    scale: OptionalFloat = None,
) -> Array:  # fmt: skip
    factor = np.float32(query.shape[-1] ** -0.5 if scale is None else scale)
    fit = matmul(query * factor, np.swapaxes(key, -1, -2))
    if is_causal:
        fit = np.where(np.tri(*fit.shape[-2:], dtype=np.bool_), fit, np.float32(-np.inf))
    if attn_mask is not None:
        fit = np.where(attn_mask, fit, np.float32(-np.inf)) if attn_mask.dtype == np.bool_ else fit + attn_mask
    return matmul(softmax(fit, -1), value)


LAYERS: dict[str, Callable[..., Any]] = {
    "adaptive_avg_pool2d": _adaptive_avg_pool2d,
    "addmm": _addmm,
    "avg_pool2d": _avg_pool2d,
    "batch_norm": _batch_norm,
    "convolution": _convolution,
    "embedding": _embedding,
    "group_norm": _group_norm,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "matmul": matmul,
    "max_pool2d": _max_pool2d,
    "mm": _mm,
    "scaled_dot_product_attention": _attention,
}
