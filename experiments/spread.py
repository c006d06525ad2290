"""Say how far runs are from each other, alike on every page."""

import numpy as np
import numpy.typing as npt


def standard_deviation(values: npt.ArrayLike) -> float:
    """Return the standard deviation from run to run, divided by one less than their number; 0 of a single run.

    >>> standard_deviation([1.0, 2.0, 3.0]), standard_deviation([5.0])
    (1.0, 0.0)
    """
    runs = np.asarray(values, dtype=np.float64)
    return float(runs.std(ddof=1)) if runs.size > 1 else 0.0
