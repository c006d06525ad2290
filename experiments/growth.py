"""Say how fast a regret grows with the horizon: its exponent, and what the last decade of rows adds."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray


def root_reference(horizons: npt.ArrayLike) -> FloatArray:
    """Return sqrt(T log T), the growth that the paper proves and sees."""
    rows = np.asarray(horizons, dtype=np.float64)
    return np.sqrt(rows * np.log(rows))


def exponent(sizes: npt.ArrayLike, values: npt.ArrayLike) -> float:
    """Return the power by which values grow: the slope of their log on log size by least squares.

    >>> round(exponent([10, 100, 1_000], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=np.float64)), np.log(np.asarray(values)), 1)[0])


def growth_measures(horizons: npt.ArrayLike, regrets: npt.ArrayLike) -> dict[str, float]:
    """Return the exponents of all horizons and of the last decade, and its increase over that of the decade before.

    The last horizon, a tenth and a hundredth of it have to be among the horizons. An increase of 10 is linear
    growth, of 1 the logarithm.

    >>> growth_measures([10, 100, 1_000], [1.0, 2.0, 3.0])["increase"]
    1.0
    """
    rows, values = np.asarray(horizons), np.asarray(regrets)
    last = rows >= rows[-1] // 10
    decades = np.diff([values[rows == rows[-1] // part][0] for part in (100, 10, 1)])
    return {
        "exponent": exponent(rows, values),
        "last_exponent": exponent(rows[last], values[last]),
        "increase": float(decades[1] / decades[0]),
    }
