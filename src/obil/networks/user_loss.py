"""Call and differentiate any loss C(o, t): of tensors, of numpy arrays or of plain numbers."""

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch

from obil.arrays import FloatArray
from obil.errors import InvalidInputError

Function: TypeAlias = Callable[[Any, Any], Any]

PROBE = np.array([-0.9, -0.35, 0.05, 0.4, 0.85])


class UserLoss:
    """A loss that someone wrote, as a function of numpy arrays; refused where it is not elementwise.

    >>> import math
    >>> UserLoss(lambda o, t: math.exp(-t * o)).values(np.array([0.0]), 1.0)
    array([1.])
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        refusals: list[Exception] = []
        for call in (_call_torch, _call_numpy, _call_numbers):
            try:
                result = call(function, PROBE, 1.0)
            except Exception as error:
                refusals.append(error)
                continue
            self._call = call
            break
        else:
            raise InvalidInputError(
                f"a loss must be a function C(o, t) of tensors, arrays or numbers; this one raised {refusals[0]!r}"
            ) from refusals[0]
        self.single = np.asarray(result).dtype.itemsize < 8  # it has single precision only
        together = self.values(PROBE, 1.0)
        alone = np.concatenate([self.values(PROBE[i : i + 1], 1.0) for i in range(len(PROBE))])
        if not np.allclose(together, alone, rtol=1e-4, atol=1e-7, equal_nan=True):
            raise InvalidInputError("a loss must be elementwise: the loss of a row must not depend on other rows")

    def values(self, outputs: FloatArray, t: float) -> FloatArray:
        """Return the losses (n,) of outputs (n,) at one target."""
        try:
            losses = np.asarray(self._call(self._function, outputs, t), dtype=np.float64)
        except Exception as error:
            raise InvalidInputError(
                f"the loss raised {error!r} for outputs in [{outputs.min():.4g}, {outputs.max():.4g}] and t = {t:g}"
            ) from error
        if losses.shape != outputs.shape:
            raise InvalidInputError(
                f"a loss must return one value per element (no mean, no sum): {outputs.shape} were asked for, "
                f"got shape {losses.shape}"
            )
        return losses

    def gradients(self, outputs: FloatArray) -> FloatArray | None:
        """Return dC/do for t = -1 and t = +1, (n, 2), or None where autograd does not reach through the loss."""
        if self._call is not _call_torch:
            return None
        slopes = []
        for t in (-1.0, 1.0):
            o = torch.tensor(outputs, requires_grad=True)
            try:
                with warnings.catch_warnings(), torch.enable_grad():
                    warnings.simplefilter("ignore")
                    (slope,) = torch.autograd.grad(self._function(o, torch.full_like(o, t)).sum(), o)
            except (RuntimeError, TypeError, AttributeError):  # a detached or constant result has no gradient
                return None
            slopes.append(slope.numpy())
        return np.stack(slopes, axis=1)

    def differences(self, outputs: FloatArray) -> FloatArray:
        """Return dC/do for t = -1 and t = +1 by central differences, (n, 2)."""
        step = (1e-2 if self.single else 1e-4) * (1.0 - np.abs(outputs))
        return np.stack(
            [(self.values(outputs + step, t) - self.values(outputs - step, t)) / (2.0 * step) for t in (-1.0, 1.0)],
            axis=1,
        )


def _call_torch(function: Function, outputs: FloatArray, t: float) -> Any:
    o = torch.tensor(outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(o, torch.full_like(o, t))
    return result.detach().numpy() if isinstance(result, torch.Tensor) else result


def _call_numpy(function: Function, outputs: FloatArray, t: float) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(function(outputs.copy(), np.full_like(outputs, t)))


def _call_numbers(function: Function, outputs: FloatArray, t: float) -> Any:
    def one(output: float) -> Any:
        try:
            return function(output, t)
        except (ZeroDivisionError, OverflowError):
            return np.nan

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.array([one(output) for output in outputs.tolist()])
