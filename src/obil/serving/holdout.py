"""Keep held-out log ratios with their labels: rows that no part of the scores was fitted on."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, as_labels, as_log_ratios, require_same_length
from obil.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Holdout:
    """Held-out rows: what policies, BBSE, the gate and the monitor read.

    >>> rows = Holdout.of([[0.0, 1.0], [0.0, -1.0]], [1, 0])
    >>> rows.prior
    array([0.5, 0.5])
    """

    log_ratios: FloatArray  # (n, K) calibrated
    labels: IntArray  # (n,) class numbers
    weights: FloatArray  # (n,) of the population they stand for

    @classmethod
    def of(cls, log_ratios: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> "Holdout":
        """Check and gather held-out rows; every class needs one."""
        rows = as_log_ratios(log_ratios)
        numbers = as_labels(labels, n_classes=rows.shape[1])
        weight = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        require_same_length(log_ratios=rows, labels=numbers, weights=weight)
        if weight.ndim != 1 or not np.isfinite(weight).all() or (weight < 0.0).any():
            raise InvalidInputError("weights must be finite and non-negative, one per row")
        totals = np.bincount(numbers, weights=weight, minlength=rows.shape[1])
        if (totals <= 0.0).any():
            raise InvalidInputError(f"every class needs a held-out row, got weights {totals.tolist()} per class")
        return cls(rows, numbers, weight)

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        Holdout.of(self.log_ratios, self.labels, self.weights)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self.log_ratios.shape[1])

    @property
    def counts(self) -> IntArray:
        """Rows of each class, (K,)."""
        return np.bincount(self.labels, minlength=self.n_classes).astype(np.int64)

    @property
    def prior(self) -> FloatArray:
        """The weighted prior of the classes, (K,)."""
        totals = np.bincount(self.labels, weights=self.weights, minlength=self.n_classes)
        prior: FloatArray = totals / totals.sum()
        return prior

    def weights_at(self, prior: npt.ArrayLike) -> FloatArray:
        """Return weights that sum to 1 and give the classes this prior, (n,)."""
        target = np.asarray(prior, dtype=np.float64)
        balanced: FloatArray = self.weights * (target / self.prior)[self.labels] / self.weights.sum()
        return balanced
