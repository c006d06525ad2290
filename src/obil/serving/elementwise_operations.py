"""Compute a network's element-by-element operations, comparisons and reductions in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf, expit

from obil.errors import InvalidInputError
from obil.serving.step_arguments import (
    DTYPES,
    Array,
    Numbers,
    OptionalFloat,
    OptionalInt,
    OptionalInts,
    OptionalNumbers,
    OptionalText,
    require_size,
)

Operation = Callable[..., Any]


def _unary(function: Callable[[Any], Any]) -> Operation:
    def apply(x: Array) -> Array:
        result: Array = function(x)
        return result

    return apply


def _binary(function: Callable[[Any, Any], Any]) -> Operation:
    def apply(x: Numbers, other: Numbers) -> Any:
        _require_broadcast(x, other)
        return function(x, other)

    return apply


def _require_broadcast(*values: Numbers) -> None:
    require_size(np.broadcast_shapes(*(np.shape(value) for value in values)))


def _add(x: Numbers, other: Numbers, alpha: float = 1) -> Any:
    _require_broadcast(x, other)
    return x + other if alpha == 1 else x + alpha * other


def _sub(x: Numbers, other: Numbers, alpha: float = 1) -> Any:
    _require_broadcast(x, other)
    return x - other if alpha == 1 else x - alpha * other


def _div(x: Numbers, other: Numbers, rounding_mode: OptionalText = None) -> Any:
    _require_broadcast(x, other)
    if rounding_mode == "floor":
        return x // other
    quotient = np.true_divide(_as_float32(x), _as_float32(other)) if _any_array(x, other) else x / other
    return np.trunc(quotient) if rounding_mode == "trunc" else quotient


def _any_array(*values: Numbers) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)


def _as_float32(value: Numbers) -> Numbers:
    return value.astype(np.float32) if isinstance(value, np.ndarray) else value


def _pow(x: Numbers, exponent: Numbers) -> Any:
    _require_broadcast(x, exponent)
    if isinstance(exponent, int | float) and exponent == 2:
        return x * x
    return np.power(_as_float32(x), _as_float32(exponent)) if _any_array(x, exponent) else float(x) ** exponent


def _clamp(x: Array, min: OptionalNumbers = None, max: OptionalNumbers = None) -> Array:  # noqa: A002  # torch's names
    result = x
    if min is not None:
        result = np.maximum(result, min)
    if max is not None:
        result = np.minimum(result, max)
    return result


def _hardtanh(x: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    return _clamp(x, min_val, max_val)


def _relu(x: Array) -> Array:
    result: Array = np.maximum(x, 0)
    return result


def _gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        side = np.tanh(np.float32(np.sqrt(2.0 / np.pi)) * (x + np.float32(0.044715) * x * x * x))
    elif approximate == "none":
        side = erf(x * np.float32(np.sqrt(0.5)))
    else:
        raise InvalidInputError(f"gelu is exact ('none') or by 'tanh', got {approximate!r:.40}")
    result: Array = side  # in (-1, 1), made here: what follows may overwrite it
    result += 1
    result *= x
    result *= np.float32(0.5)
    return result


def _silu(x: Array) -> Array:
    result: Array = x * expit(x)
    return result


def _elu(x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    result: Array = np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * input_scale)) * scale
    return result


def _leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    return np.where(x > 0, x, x * negative_slope)


def _prelu(x: Array, weight: Array) -> Array:
    return np.where(x > 0, x, x * _along_channels(weight, x))


def _along_channels(weight: Array, x: Array) -> Array:
    return weight if weight.size == 1 else weight.reshape(-1, *(1,) * (x.ndim - 2))


def _softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def _where(condition: Array, x: Numbers, other: Numbers) -> Array:
    _require_broadcast(condition, x, other)
    return np.where(condition, x, other)


def _masked_fill(x: Array, mask: Array, value: Numbers) -> Array:
    _require_broadcast(x, mask)
    fill = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=x.dtype)
    return np.where(mask, fill, x)


def _to(x: Array, dtype: str) -> Array:
    return x.astype(as_dtype(dtype))


def as_dtype(name: str) -> Any:
    """Return one of the three types that a graph computes in."""
    if name not in DTYPES:
        raise InvalidInputError(f"a graph computes in {', '.join(DTYPES)}, got {name!r:.40}")
    return DTYPES[name]


def _axes(dim: OptionalInts) -> int | tuple[int, ...] | None:
    # as in torch, no axes are all axes
    return dim if dim is None or isinstance(dim, int) else tuple(dim) or None


def _sum(x: Array, dim: OptionalInts = None, keepdim: bool = False, dtype: OptionalText = None) -> Array:
    wide = np.float64 if x.dtype == np.float32 else None
    return np.asarray(np.sum(_cast(x, dtype), axis=_axes(dim), keepdims=keepdim, dtype=wide))


def _mean(x: Array, dim: OptionalInts = None, keepdim: bool = False, dtype: OptionalText = None) -> Array:
    return np.asarray(np.mean(_cast(x, dtype), axis=_axes(dim), keepdims=keepdim, dtype=np.float64))


def _cast(x: Array, dtype: OptionalText) -> Array:
    return x if dtype is None else _to(x, dtype)


def _var(x: Array, dim: OptionalInts = None, correction: OptionalFloat = None, keepdim: bool = False) -> Array:
    ddof = 1 if correction is None else correction
    return np.asarray(np.var(x, axis=_axes(dim), keepdims=keepdim, dtype=np.float64, ddof=ddof))


def _reduction(function: Callable[..., Any]) -> Operation:
    def apply(x: Array, dim: OptionalInts = None, keepdim: bool = False) -> Array:
        return np.asarray(function(x, axis=_axes(dim), keepdims=keepdim))

    return apply


def _max_dim(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, ...]:
    return np.asarray(x.max(axis=dim, keepdims=keepdim)), np.asarray(np.argmax(x, axis=dim, keepdims=keepdim))


def _min_dim(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, ...]:
    return np.asarray(x.min(axis=dim, keepdims=keepdim)), np.asarray(np.argmin(x, axis=dim, keepdims=keepdim))


def _argmax(x: Array, dim: OptionalInt = None, keepdim: bool = False) -> Array:
    return np.asarray(np.argmax(x, axis=dim, keepdims=keepdim))


def _cumsum(x: Array, dim: int, dtype: OptionalText = None) -> Array:
    wide = np.float64 if x.dtype == np.float32 else np.int64
    result: Array = np.cumsum(_cast(x, dtype), axis=dim, dtype=wide)
    return result


def _vector_norm(x: Array, ord: float = 2, dim: OptionalInts = None, keepdim: bool = False) -> Array:  # noqa: A002  # torch's word
    if ord == 2:
        return np.sqrt(_sum(x * x, dim, keepdim))
    if ord == 1:
        return _sum(np.abs(x), dim, keepdim)
    raise InvalidInputError(f"a norm of order 1 or 2 has a numpy form, got {ord!r}")


def softmax(x: Array, dim: int) -> Array:
    """Return exp(x) scaled to sum to 1 along an axis; where all of it is -inf, zeros."""
    top = np.max(x, axis=dim, keepdims=True)
    powers: Array = x - np.where(np.isneginf(top), np.float32(0), top)
    np.exp(powers, out=powers)
    total = powers.sum(axis=dim, keepdims=True)
    powers /= np.where(total == 0, np.float32(1), total)
    return powers


def _softmax(x: Array, dim: int) -> Array:
    return softmax(x.astype(np.float32, copy=False), dim)


def _log_softmax(x: Array, dim: int) -> Array:
    moved = x - np.max(x, axis=dim, keepdims=True)
    result: Array = moved - np.log(np.exp(moved).sum(axis=dim, keepdims=True))
    return result


ELEMENTWISE: dict[str, Operation] = {
    "abs": _unary(np.abs),
    "add": _add,
    "all": _reduction(np.all),
    "amax": _reduction(np.max),
    "amin": _reduction(np.min),
    "any": _reduction(np.any),
    "argmax": _argmax,
    "bitwise_and": _binary(lambda x, other: x & other),
    "bitwise_not": _unary(np.invert),
    "bitwise_or": _binary(lambda x, other: x | other),
    "ceil": _unary(np.ceil),
    "clamp": _clamp,
    "cos": _unary(np.cos),
    "cumsum": _cumsum,
    "div": _div,
    "elu": _elu,
    "eq": _binary(lambda x, other: x == other),
    "erf": _unary(erf),
    "exp": _unary(np.exp),
    "expm1": _unary(np.expm1),
    "floor": _unary(np.floor),
    "floor_divide": _binary(lambda x, other: x // other),
    "ge": _binary(lambda x, other: x >= other),
    "gelu": _gelu,
    "gt": _binary(lambda x, other: x > other),
    "hardtanh": _hardtanh,
    "isinf": _unary(np.isinf),
    "isnan": _unary(np.isnan),
    "le": _binary(lambda x, other: x <= other),
    "leaky_relu": _leaky_relu,
    "log": _unary(np.log),
    "log1p": _unary(np.log1p),
    "log_softmax": _log_softmax,
    "logical_and": _binary(np.logical_and),
    "logical_not": _unary(np.logical_not),
    "logical_or": _binary(np.logical_or),
    "lt": _binary(lambda x, other: x < other),
    "masked_fill": _masked_fill,
    "max_dim": _max_dim,
    "maximum": _binary(np.maximum),
    "mean": _mean,
    "min_dim": _min_dim,
    "minimum": _binary(np.minimum),
    "mul": _binary(lambda x, other: x * other),
    "ne": _binary(lambda x, other: x != other),
    "neg": _unary(np.negative),
    "pow": _pow,
    "prelu": _prelu,
    "prod": _reduction(np.prod),
    "reciprocal": _unary(lambda x: 1 / x),
    "relu": _relu,
    "remainder": _binary(lambda x, other: x % other),
    "round": _unary(np.round),
    "rsqrt": _unary(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _unary(expit),
    "sign": _unary(np.sign),
    "silu": _silu,
    "sin": _unary(np.sin),
    "softmax": _softmax,
    "softplus": _softplus,
    "sqrt": _unary(np.sqrt),
    "sub": _sub,
    "sum": _sum,
    "tanh": _unary(np.tanh),
    "to": _to,
    "var": _var,
    "vector_norm": _vector_norm,
    "where": _where,
}
