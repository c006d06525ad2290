"""Gather the likelihood of a binary prior so that batches add up, on one machine or many."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Chebyshev
from numpy.polynomial.chebyshev import chebpts1, chebvander
from scipy.special import chdtri, expit

from obil.arrays import FloatArray, as_floats, as_log_ratios, require_in
from obil.compiled import compiled
from obil.errors import InvalidInputError
from obil.readable import Table, as_html, as_text

N_NODES = 161
LARGEST_LOGIT = 14.0
ROWS_A_LOGARITHM = 16  # each factor is at least 8e-7, so a product of 16 is far from underflow


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate:
    """The prior of a batch of rows with a confidence interval for each class.

    >>> from obil.trackers.pass_search import estimate_from_rows
    >>> found = estimate_from_rows([[0.0, 9.0], [0.0, -9.0], [0.0, -9.0], [0.0, -9.0]])
    >>> found.prior.round(2), found.n_rows
    (array([0.75, 0.25]), 4)
    """

    prior: FloatArray  # (K,)
    interval: FloatArray  # (K, 2) lower and upper ends
    level: float
    n_rows: int
    classes: tuple[Any, ...] = ()  # (K,) the user's own; none where they are not known

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        names = self.classes or range(len(self.prior))
        rows = [
            (f"{name!s:.60}", f"{prior:.4g}", f"{low:.4g} to {high:.4g}")
            for name, prior, (low, high) in zip(names, self.prior.tolist(), self.interval.tolist(), strict=True)
        ]
        title = f"Class prior of {self.n_rows:,} rows"
        return Table(title, ("class", "prior", f"{100 * self.level:.3g} % interval"), rows)


@dataclass(frozen=True, slots=True, eq=False)
class BinaryEvidence:
    """The log-likelihood of some rows at Chebyshev nodes of logit P1; adds with `+`.

    A row's log-likelihood is analytic in the logit, so between the nodes it is interpolated to rounding:
    nothing is lost by keeping 161 numbers instead of the rows. It needs no current prior.

    >>> rows = [[0.0, 2.0], [0.0, -1.0], [0.0, -3.0]]
    >>> both = BinaryEvidence.of(rows[:1]) + BinaryEvidence.of(rows[1:])
    >>> both.n_rows
    3
    >>> bool(abs(both.estimate().prior - BinaryEvidence.of(rows).estimate().prior).max() < 1e-9)
    True
    """

    n_rows: int
    log_likelihoods: FloatArray  # (N_NODES,)

    def __post_init__(self) -> None:
        values = np.asarray(self.log_likelihoods, dtype=np.float64)
        if values.shape != (N_NODES,) or not np.isfinite(values).all() or self.n_rows < 0:
            raise InvalidInputError(f"binary evidence is a row count and {N_NODES} finite log-likelihoods")

    @classmethod
    def empty(cls) -> "BinaryEvidence":
        """Return the evidence of no rows: the zero of `+`."""
        return cls(0, np.zeros(N_NODES))

    @classmethod
    def of(cls, log_ratios: npt.ArrayLike) -> "BinaryEvidence":
        """Return the evidence of rows of log ratios, (n, 2), or by each of F folds, (n, F, 2): their mean."""
        rows, n_folds = by_folds(log_ratios, n_classes=2)
        totals = np.zeros(N_NODES)
        _add_log_likelihoods(rows, _nodes()[1], totals)
        return cls(len(rows) // n_folds, totals / n_folds)

    @classmethod
    def expected(cls, log_ratios: FloatArray, weights: FloatArray, *, n_rows: int) -> "BinaryEvidence":
        """Return what so many rows say on average, drawn from log ratios (n,) with weights (n,) that sum to 1."""
        _, priors, _ = _nodes()
        largest = np.maximum(log_ratios, 0.0)
        negative, positive = np.exp(-largest), np.exp(log_ratios - largest)
        totals = [weights @ (np.log(negative + prior * (positive - negative)) + largest) for prior in priors.tolist()]
        return cls(n_rows, n_rows * np.array(totals))

    def __add__(self, other: "BinaryEvidence") -> "BinaryEvidence":
        if not isinstance(other, BinaryEvidence):
            return NotImplemented
        return BinaryEvidence(self.n_rows + other.n_rows, self.log_likelihoods + other.log_likelihoods)

    @staticmethod
    def coefficients() -> FloatArray:
        """Return the map from log-likelihoods at the nodes to Chebyshev coefficients in the logit / 14, (161, 161)."""
        return _nodes()[2]

    def log_likelihood(self) -> Chebyshev:
        """Return the log-likelihood as a function of the logit of P1 in [-14, 14], up to a constant."""
        coefficients = self.coefficients() @ self.log_likelihoods
        return Chebyshev(coefficients, domain=[-LARGEST_LOGIT, LARGEST_LOGIT])

    def estimate(self, *, level: float = 0.9) -> PriorEstimate:
        """Return the maximum-likelihood prior with a profile-likelihood confidence interval.

        The interval holds the priors whose log-likelihood is within half a chi-square quantile of the
        largest (profile likelihood): a confidence interval that keeps its coverage at rare priors, where a
        symmetric one does not.
        """
        require_in("level", level, 1e-6, 1.0 - 1e-6)
        if self.n_rows == 0:
            raise InvalidInputError("no rows, so no evidence to estimate a prior from")
        log_likelihood = self.log_likelihood()
        if np.ptp(self.log_likelihoods) < 1e-9:  # rows without information: any prior is as likely, so name none
            flat = np.tile([0.0, 1.0], (2, 1))
            return PriorEstimate(np.array([0.5, 0.5]), flat, level, self.n_rows)
        peak = _falling_root(log_likelihood.deriv(), -LARGEST_LOGIT, LARGEST_LOGIT)
        # the chi-square quantile of one degree of freedom, from its upper tail
        least = float(log_likelihood(peak)) - float(chdtri(1.0, 1.0 - level)) / 2.0
        low = -_falling_root(lambda logit: log_likelihood(-logit) - least, -peak, LARGEST_LOGIT)
        high = _falling_root(lambda logit: log_likelihood(logit) - least, peak, LARGEST_LOGIT)
        positive, lower, upper = expit(np.array([peak, low, high])).tolist()
        interval = np.array([[1.0 - upper, 1.0 - lower], [lower, upper]])
        return PriorEstimate(np.array([1.0 - positive, positive]), interval, level, self.n_rows)


def by_folds(log_ratios: npt.ArrayLike, *, n_classes: int | None = None) -> tuple[FloatArray, int]:
    """Return the log ratios of rows, (n, K), or of rows by F folds, (n, F, K), as one table, and F.

    >>> by_folds([[[0.0, 1.0], [0.0, 2.0]]])[1]
    2
    """
    values = as_floats(log_ratios, "log_ratios")
    if not values.size:
        return np.empty((0, n_classes or max(2, values.shape[-1]))), 1
    if values.ndim not in (2, 3):
        raise InvalidInputError(f"log_ratios must have shape (n, K) or (n, F, K), got {values.shape}")
    n_folds = values.shape[1] if values.ndim == 3 else 1
    return as_log_ratios(values.reshape(-1, values.shape[-1]), n_classes=n_classes), n_folds


@cache
def _nodes() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the Chebyshev nodes in the logit, the priors there, and the map from values to coefficients."""
    unit = chebpts1(N_NODES)
    to_coefficients = np.asarray(chebvander(unit, N_NODES - 1).T * (2.0 / N_NODES), dtype=np.float64)
    to_coefficients[0] /= 2.0
    logits = LARGEST_LOGIT * unit
    return logits, expit(logits), to_coefficients


def _falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that falls through 0 does so, by bisection; the end it stays beyond otherwise."""
    for _ in range(64):
        middle = (low + high) / 2.0
        if function(middle) > 0.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@compiled
def _add_log_likelihoods(rows: FloatArray, points: FloatArray, totals: FloatArray) -> None:
    """Add log((1-P) + P q) at every point, each row scaled to a largest likelihood of 1.

    Products of a few rows share one logarithm: it is the logarithm that is dear.
    """
    product = np.ones(points.size)
    for i in range(rows.shape[0]):
        largest = max(rows[i, 1], 0.0)
        negative = np.exp(-largest)
        slope = np.exp(rows[i, 1] - largest) - negative
        for g in range(points.size):
            product[g] *= negative + points[g] * slope
        if i % ROWS_A_LOGARITHM == ROWS_A_LOGARITHM - 1:
            for g in range(points.size):
                totals[g] += np.log(product[g])
                product[g] = 1.0
    for g in range(points.size):
        totals[g] += np.log(product[g])
