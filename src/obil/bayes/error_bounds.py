"""Bound the error of a likelihood ratio by the error of the posterior it came from."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import InvalidInputError


def relative_ratio_error(posterior: npt.ArrayLike, error: npt.ArrayLike) -> FloatArray:
    """Return the exact relative error of the ratio when the posterior P is reported as P + error (signed).

    At P + error = 1 the reported ratio, and so its error, is infinite.

    >>> float(relative_ratio_error(0.5, 0.0))
    0.0
    """
    true, shift = np.asarray(posterior, dtype=np.float64), np.asarray(error, dtype=np.float64)
    with np.errstate(divide="ignore"):
        exact: FloatArray = shift / (true * (1.0 - true - shift))
    return exact


def ratio_error_bound(posterior: npt.ArrayLike, error: npt.ArrayLike) -> FloatArray:
    """Return the largest relative error of the ratio, |e| / (P (1 - P - |e|)), for |e| below P and 1 - P.

    An overestimate is the worst case: the bound is reached at P + |e|.

    >>> round(float(ratio_error_bound(0.9, 0.05)), 2)
    1.11
    """
    size = _checked_size(posterior, error)
    return relative_ratio_error(posterior, size)


def printed_ratio_error_bound(posterior: npt.ArrayLike, error: npt.ArrayLike) -> FloatArray:
    """Return the bound as the paper prints it, |e| / (P(1-P) - |e|(1-2P)): too small for every P > 1/3.

    >>> round(float(printed_ratio_error_bound(0.9, 0.05)), 3)
    0.385
    """
    size = _checked_size(posterior, error)
    true = np.asarray(posterior, dtype=np.float64)
    printed: FloatArray = size / (true * (1.0 - true) - size * (1.0 - 2.0 * true))
    return printed


def _checked_size(posterior: npt.ArrayLike, error: npt.ArrayLike) -> FloatArray:
    true, size = np.asarray(posterior, dtype=np.float64), np.abs(np.asarray(error, dtype=np.float64))
    if not ((true > 0.0) & (true < 1.0)).all():
        raise InvalidInputError("posterior must lie strictly between 0 and 1")
    if not (size < np.minimum(true, 1.0 - true)).all():
        raise InvalidInputError("|error| must be smaller than both P and 1 - P: beyond that the ratio has no bound")
    return size
