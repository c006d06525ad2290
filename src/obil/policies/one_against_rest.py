"""Set one class against the others: the log ratio of the positive class to the mixture of the rest."""

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats, as_log_ratios
from obil.errors import InvalidInputError


def one_against_rest(log_ratios: npt.ArrayLike, priors: npt.ArrayLike, positive: int) -> FloatArray:
    """Return log p(x|positive) - log sum over the rest of (pi_k / (1 - pi_positive)) p(x|k), (n,).

    The rest is a mixture weighted by the prior, so for K > 2 this ratio moves with the prior, unlike the
    joint log ratios it is made from. With two classes it does not: it is the second column or its negative.

    Parameters
    ----------
    log_ratios
        Shape (n, K).
    priors
        One prior for all rows, (K,), or one a row, (n, K).
    positive
        The class number to set against the others.

    >>> one_against_rest([[0.0, 3.0]], [0.9, 0.1], positive=1)
    array([3.])
    >>> one_against_rest([[0.0, 0.0, 3.0]], [0.4, 0.4, 0.2], positive=2)  # the other two look alike
    array([3.])
    """
    rows = as_log_ratios(log_ratios)
    n_classes = rows.shape[1]
    chosen = positive_class(positive, n_classes=n_classes)
    if n_classes == 2:
        return rows[:, 1].copy() if chosen == 1 else -rows[:, 1]
    shares = as_floats(priors, "priors")
    if shares.shape not in {(n_classes,), rows.shape}:
        raise InvalidInputError(f"priors must have shape ({n_classes},) or {rows.shape}, got {shares.shape}")
    if not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise InvalidInputError("priors must be probabilities")
    with np.errstate(divide="ignore"):  # a class that never comes adds nothing to the rest
        log_shares = np.log(shares)
    log_shares[..., chosen] = -np.inf
    # logaddexp adds in the order of the classes whatever n is: one row and many agree bit for bit
    log_rest = np.logaddexp.reduce(log_shares, axis=-1)  # () or (n,)
    if np.isneginf(log_rest).any():
        raise InvalidInputError(f"the classes other than {chosen} must have some prior, got {shares.tolist()!r:.80}")
    mixture = np.logaddexp.reduce(rows + log_shares, axis=1) - log_rest  # (n,)
    ratio: FloatArray = rows[:, chosen] - mixture
    return ratio


def positive_class(positive: object, *, n_classes: int) -> int:
    """Return the class number to alert: the given one, or 1 where there are two classes.

    >>> positive_class(None, n_classes=2)
    1
    """
    if positive is None:
        if n_classes > 2:
            raise InvalidInputError(f"with {n_classes} classes a policy needs positive=, the class number to alert")
        return 1
    if isinstance(positive, bool) or not isinstance(positive, int | np.integer) or not 0 <= positive < n_classes:
        raise InvalidInputError(f"positive must be a class number in 0 ... {n_classes - 1}, got {positive!r:.40}")
    return int(positive)
