"""Check a policy's settings: numbers, inside their range."""

import math
from numbers import Real

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats
from obil.errors import InvalidInputError


def as_number(name: str, value: object) -> float:
    """Return a finite number as a float; strings and booleans are rejected.

    >>> as_number("beta", 2)
    2.0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidInputError(f"{name} must be a number, got {value!r:.40}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInputError(f"{name} must be finite, got {value!r:.40}")
    return number


def as_fraction(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1.

    >>> as_fraction("recall", 0.9)
    0.9
    """
    number = as_number(name, value)
    if not 0.0 < number < 1.0:
        raise InvalidInputError(f"{name} must lie strictly between 0 and 1, got {value!r:.40}")
    return number


def as_positive_prior(value: float) -> float:
    """Return one prior of the positive class, in [0, 1]."""
    number = float(value)
    if not 0.0 <= number <= 1.0:  # refuses NaN too
        raise InvalidInputError(f"the positive prior must lie in [0, 1], got {value!r}")
    return number


def as_positive_priors(values: npt.ArrayLike) -> FloatArray:
    """Return priors of the positive class as a contiguous array (n,) in [0, 1]."""
    priors = np.ascontiguousarray(as_floats(values, "positive_priors"))
    if np.ndim(values) != 1:
        raise InvalidInputError(f"positive_priors must have shape (n,), got {np.shape(values)}")
    if not ((priors >= 0.0) & (priors <= 1.0)).all():
        raise InvalidInputError("positive_priors must lie in [0, 1]")
    return priors
