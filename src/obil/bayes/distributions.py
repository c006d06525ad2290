"""Tell in a kernel whether numbers are a distribution."""

from obil.arrays import SUM_TOLERANCE, FloatArray
from obil.compiled import inlined


@inlined
def sums_to_one(values: FloatArray) -> bool:
    """Return whether numbers, (n,), are non-negative and sum to 1."""
    total = 0.0
    for value in values:
        if not value >= 0.0:
            return False
        total += value
    return abs(total - 1.0) <= SUM_TOLERANCE
