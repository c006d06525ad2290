"""Check the numbers that come with a label."""

import numpy as np

from obil.errors import InvalidInputError
from obil.online.decision_ids import WHOLE, shown

SMALLEST_PROPENSITY = 1e-9  # a label that stands for more rows than that is a mistake

_REAL = (int, float, np.integer, np.floating)


def as_whole_number(name: str, value: object, smallest: int, largest: int) -> int:
    """Return a plain whole number in smallest ... largest, or say which rule it breaks.

    >>> as_whole_number("label", np.int64(1), 0, 1)
    1
    """
    number = int(value) if isinstance(value, WHOLE) and not isinstance(value, bool) else None
    if number is None or not smallest <= number <= largest:
        raise InvalidInputError(f"{name} must be a whole number in {smallest} ... {largest}, got {shown(value)}")
    return number


def as_propensity(value: object) -> float:
    """Return the probability that a label was asked for as a plain number, or say that it is none.

    >>> as_propensity(1)
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, _REAL) or not SMALLEST_PROPENSITY <= value <= 1:
        raise InvalidInputError(f"propensity must be a probability in [1e-9, 1], got {shown(value)}")
    return float(value)
