"""Learn how the columns of a matrix become inputs of a network."""

from collections.abc import Callable, Collection

import numpy as np
from scipy.special import ndtr, ndtri

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.features import Curve, FeatureMap

MOST_KNOTS = 200
N_PIECES = 16
LARGEST_DEVIATION = 8.0  # standard deviations; numbers are clipped there
SMALLEST_SPREAD = 0.1  # of a two-valued column: keeps a rare value from being huge


def fit_feature_map(matrix: FloatArray, *, inputs: str = "rich", categories: Collection[int] = ()) -> FeatureMap:
    """Return the map of a training matrix, (n, d), with NaN for missing values.

    `standard`: mean 0 and standard deviation 1. `quantile`: the normal score of a number's rank, robust to outliers
    and skew. `smooth`: both. `rich`: and how far the number reaches into each of 16 pieces between its
    quantiles. Columns in `categories` hold codes.

    >>> ranks = fit_feature_map(np.array([[1.0], [10.0], [1000.0]]), inputs="quantile")
    >>> ranks.encode(np.array([[10.0], [1e6]])).astype(float).ravel().round(2).tolist()
    [0.0, 0.97]
    """
    if inputs not in INPUTS:
        raise InvalidInputError(f"inputs must be one of {', '.join(INPUTS)}, got {inputs!r:.40}")
    columns: list[list[Curve] | FloatArray] = []
    missing = []
    for j, column in enumerate(matrix.T):
        present = column[~np.isnan(column)]
        if present.size < column.size:
            missing.append(j)
        if j in categories:
            columns.append(np.unique(present))
        elif present.size == 0 or present.min() == present.max():
            columns.append([])  # a constant
        else:
            columns.append(_CURVES[inputs](present))
    if not missing and not any(len(column) for column in columns):
        missing = [0]  # all columns are constant: a network needs an input all the same
    return FeatureMap.of_columns(columns, straight=inputs == "standard", missing=missing)


def _standard(present: FloatArray) -> list[Curve]:
    mean, scale = _mean_and_scale(present)
    return [(np.array([mean, mean + scale]), np.array([0.0, 1.0]))]


def _quantile(present: FloatArray) -> list[Curve]:
    """Return the curve through the normal scores of ranks; equal values share the middle of their ranks."""
    levels, counts = np.unique(present, return_counts=True)
    middles = (np.cumsum(counts) - counts / 2.0) / present.size
    if levels.size > MOST_KNOTS:
        lowest, highest = ndtri(middles[[0, -1]])
        wanted = ndtr(np.linspace(lowest, highest, MOST_KNOTS))  # as dense in the tails as the scores are
        kept = np.unique(np.searchsorted(middles, wanted).clip(0, levels.size - 1))
        levels, middles = levels[kept], middles[kept]
    return [(levels, np.asarray(ndtri(middles)))]


def _smooth(present: FloatArray) -> list[Curve]:
    levels = np.unique(present)
    mean, scale = _mean_and_scale(present)
    if levels.size == 2:
        return [(levels, (levels - mean) / max(scale, SMALLEST_SPREAD * float(levels[1] - levels[0])))]
    ends = np.array([-LARGEST_DEVIATION, LARGEST_DEVIATION])
    return [(mean + scale * ends, ends), *_quantile(present)]


def _rich(present: FloatArray) -> list[Curve]:
    smooth = _smooth(present)
    if len(smooth) == 1:  # two values: there is nothing between them
        return smooth
    edges = np.unique(np.quantile(present, np.linspace(0.0, 1.0, N_PIECES + 1)))
    return smooth + [(edges[i : i + 2], np.array([0.0, 1.0])) for i in range(len(edges) - 1)]


def _mean_and_scale(present: FloatArray) -> tuple[float, float]:
    exponent = int(np.frexp(np.abs(present).max())[1])
    relative = np.ldexp(present, -exponent)  # in (-1, 1): its squares can be added
    mean, spread = (float(np.ldexp(one, exponent)) for one in (relative.mean(), relative.std()))
    # never so small that mean + scale is the mean again
    return mean, max(spread, 1e-9 * float(np.abs(present).max()), float(np.finfo(np.float64).tiny))


_CURVES: dict[str, Callable[[FloatArray], list[Curve]]] = {
    "rich": _rich,
    "smooth": _smooth,
    "quantile": _quantile,
    "standard": _standard,
}
INPUTS = tuple(_CURVES)
