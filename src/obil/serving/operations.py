"""List every operation that a frozen network may use, each with its numpy form: one closed dictionary.

A step of a graph names one of these and nothing else. Arguments are named as in torch, `x` being torch's
`self` or `input`. Arrays are float32, int64 or bool throughout; nothing changes an array in place.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from obil.serving.elementwise_operations import ELEMENTWISE
from obil.serving.layer_operations import LAYERS
from obil.serving.shape_operations import SHAPES

OPERATIONS: dict[str, Callable[..., Any]] = ELEMENTWISE | SHAPES | LAYERS

_SETTLED = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_))


def settled(result: Any) -> Any:
    """Return what an operation gave in the types of a graph: numpy widens where torch does not.

    >>> settled(np.arange(3) / np.float32(2.0)).dtype
    dtype('float32')
    """
    if isinstance(result, tuple):
        return tuple(settled(part) for part in result)
    if not isinstance(result, np.ndarray | np.generic):
        return result
    values = np.asarray(result)
    if values.dtype in _SETTLED:
        return values
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
