"""Rank the segments whose prior is not that of the others, with the false discovery rate controlled."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import chdtrc

from obil.arrays import FloatArray

FALSE_DISCOVERIES = 0.1
LogLikelihood = Callable[[FloatArray], float]  # of a prior, (K,), up to a constant


def deviation_q_values(
    functions: Sequence[LogLikelihood],
    own: Sequence[FloatArray | None],
    mean: FloatArray,
    pooled: Callable[[list[int]], FloatArray],
) -> FloatArray:
    """Return the false discovery rate at which each segment is said to differ from the others, (S,).

    `own` holds the most likely prior of each segment, None without rows. The others' prior is first the mean of the
    segments' priors, and then that of all rows of those that do not deviate from it, `pooled`: a segment that has moved
    has moved the first. Twice the drop of a log-likelihood is chi-square with K - 1 degrees of freedom.
    """
    tops = [0.0 if best is None else function(best) for function, best in zip(functions, own, strict=True)]
    at, q_values = mean, np.ones(len(functions))
    for _ in range(2):
        drops = [
            0.0 if best is None else top - function(at)
            for function, top, best in zip(functions, tops, own, strict=True)
        ]
        q_values = false_discovery_rates(
            np.asarray(chdtrc(len(at) - 1.0, 2.0 * np.maximum(drops, 0.0)), dtype=np.float64)
        )
        same = [i for i, best in enumerate(own) if best is not None and q_values[i] > FALSE_DISCOVERIES]
        if not same:
            break
        at = pooled(same)
    return q_values


def false_discovery_rates(p_values: FloatArray) -> FloatArray:
    """Return the false discovery rate at which each hypothesis would be rejected, (S,): Benjamini and Hochberg.

    >>> false_discovery_rates(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.03])
    """
    order = np.argsort(p_values, kind="stable")
    stepped: FloatArray = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    q_values = np.empty(len(order))
    q_values[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return q_values
