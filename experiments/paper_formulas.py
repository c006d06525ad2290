"""Formulas of the paper that only the experiments need: ratio from posterior, least cost, error bounds, rates."""

import math

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, PriorLike, as_floats, as_log_ratios, as_prior, require_in
from obil.bayes.costs import EQUAL_COSTS, Costs, log_threshold
from obil.bayes.posterior import posterior as posterior_at
from obil.errors import InvalidInputError

# A posterior of exactly 0 has no finite log ratio; this is the smallest one kept, about e^-69.
SMALLEST_POSTERIOR = 1e-30


def log_ratios_from_posterior(posteriors: npt.ArrayLike, prior: PriorLike) -> FloatArray:
    """Divide the training prior out of a posterior: log p(x|k) - log p(x|0), (n, K).

    `prior` is the class prior it was trained at, weights and resampling included: a member trained
    with cost weight w on the negatives has prior odds w times those of its rows.

    >>> log_ratios_from_posterior([[0.8, 0.2]], 0.2)
    array([[0., 0.]])
    """
    values = as_floats(posteriors, "posteriors")
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(f"posteriors must have shape (n, K) with K >= 2, got {values.shape}")
    if not np.isfinite(values).all() or (values < 0.0).any() or (abs(values.sum(axis=1) - 1.0) > 1e-3).any():
        raise InvalidInputError("posteriors must be probabilities: each row finite, non-negative and summing to 1")
    scores = np.log(np.maximum(values, SMALLEST_POSTERIOR)) - np.log(as_prior(prior, n_classes=values.shape[1]))
    relative: FloatArray = scores - scores[:, :1]
    return relative


def bayes_decision(log_ratios: npt.ArrayLike, prior: PriorLike, costs: Costs = EQUAL_COSTS) -> IntArray:
    """Return the class of least expected cost for each row of log ratios (n, K); a tie goes to the lower class.

    >>> bayes_decision([[0.0, 3.0], [0.0, 3.0]], 0.5).tolist()
    [1, 1]
    >>> bayes_decision([[0.0, 3.0]], 0.01).tolist()
    [0]
    """
    rows = as_log_ratios(log_ratios, n_classes=costs.n_classes)
    if costs.n_classes == 2:
        # in logs, so that a row however sure is still compared and not rounded to 0 or 1
        return np.asarray(rows[:, 1] > log_threshold(prior, costs), dtype=np.int64)
    expected = posterior_at(rows, prior) @ costs.matrix.T  # (n, decided)
    return np.asarray(np.argmin(expected, axis=1), dtype=np.int64)


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

    An overestimate is the worst case: the bound is reached at P + |e|. Proof: docs/theory.md, Proposition 1.

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


def rate_for_horizon(n_rows: int) -> float:
    """Return the rate of the paper's regret theorem for a known horizon T: sqrt(log T / T).

    >>> round(rate_for_horizon(10_000), 4)
    0.0303
    """
    if n_rows < 2:
        raise InvalidInputError(f"n_rows must be at least 2, got {n_rows!r}")
    return math.sqrt(math.log(n_rows) / n_rows)


def rate_for_drift(drift: float) -> float:
    """Return the rate of the paper's tracking theorem for a prior that moves at most `drift` per row: sqrt(delta).

    >>> rate_for_drift(0.0025)
    0.05
    """
    return math.sqrt(require_in("drift", drift, 0.0, 1.0))


def rate_for_drift_and_noise(drift: float, noise: float) -> float:
    """Return the rate of the paper's appendix B, which balances lag and noise: (2 delta / sigma)^(2/3).

    >>> round(rate_for_drift_and_noise(0.004, 1.0), 6)
    0.04
    """
    if not noise > 0.0:
        raise InvalidInputError(f"noise must be positive, got {noise!r}")
    return float(min(1.0, np.cbrt(2.0 * require_in("drift", drift, 0.0, 1.0) / noise) ** 2))
