"""Score one class against the mixture of the others: the one-vs-rest log-likelihood ratio."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats, as_integer, as_log_ratios
from obil.compiled import compiled, inlined
from obil.errors import InvalidInputError

SMALLEST = 1e-300  # below it a sum of prior times likelihood has no logarithm


def one_vs_rest(log_ratios: npt.ArrayLike, priors: npt.ArrayLike, positive: int) -> FloatArray:
    """Return log p(x|positive) - log sum over the rest of (pi_k / (1 - pi_positive)) p(x|k), (n,).

    The rest is a mixture weighted by the prior, so for K > 2 this ratio moves with the prior, unlike the
    joint log ratios (n, K) it is made from. With two classes it does not: it is the second column or its negative.
    `priors` is one for all rows, (K,), or one per row, (n, K).

    >>> one_vs_rest([[0.0, 3.0]], [0.9, 0.1], positive=1)
    array([3.])
    >>> one_vs_rest([[0.0, 0.0, 3.0]], [0.4, 0.4, 0.2], positive=2)  # the other two look alike
    array([3.])
    """
    rows = as_log_ratios(log_ratios)
    n_classes = rows.shape[1]
    chosen = positive_class(positive, n_classes=n_classes)
    if n_classes == 2:  # the prior does not matter
        return rows[:, 1].copy() if chosen == 1 else -rows[:, 1]
    each = as_floats(priors, "priors")
    if each.shape not in {(n_classes,), rows.shape}:
        raise InvalidInputError(f"priors must have shape ({n_classes},) or {rows.shape}, got {each.shape}")
    if not ((each >= 0.0) & (each <= 1.0)).all():
        raise InvalidInputError("priors must be probabilities")
    if not np.delete(each, chosen, axis=-1).any(axis=-1).all():
        raise InvalidInputError(f"the classes other than {chosen} must have some prior, got {each.tolist()!r:.80}")
    return _rows_vs_rest(rows, np.ascontiguousarray(np.broadcast_to(each, rows.shape)), chosen)


@compiled
def _rows_vs_rest(rows: FloatArray, priors: FloatArray, positive: int) -> FloatArray:
    found = np.empty(rows.shape[0])
    for t in range(rows.shape[0]):
        found[t] = row_vs_rest(rows[t], priors[t], positive)
    return found


@inlined
def row_vs_rest(log_ratios: FloatArray, prior: FloatArray, positive: int) -> float:
    """Return the one-vs-rest log ratio of one row (K,) at a prior (K,), for kernels: nothing is checked."""
    if log_ratios.size == 2:
        return float(log_ratios[positive] - log_ratios[1 - positive])
    largest = -np.inf
    for k in range(log_ratios.size):
        if k != positive and prior[k] > 0.0:  # a class that never comes adds nothing to the rest
            largest = max(largest, log_ratios[k])
    likelihood, weight = 0.0, 0.0
    for k in range(log_ratios.size):
        if k != positive and prior[k] > 0.0:
            likelihood += prior[k] * np.exp(log_ratios[k] - largest)
            weight += prior[k]
    return float(log_ratios[positive] - largest - np.log(max(likelihood, SMALLEST) / max(weight, SMALLEST)))


def positive_class(positive: object, *, n_classes: int) -> int:
    """Return the class number to alert: the given one, or 1 where there are two classes.

    >>> positive_class(None, n_classes=2)
    1
    """
    if positive is None:
        if n_classes > 2:
            raise InvalidInputError(f"with {n_classes} classes a policy needs positive=, the class number to alert")
        return 1
    return as_integer("the class number positive", positive, 0, n_classes - 1)
