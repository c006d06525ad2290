"""Count rows by their rounded log ratios: evidence of any number of classes that adds up exactly."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError
from obil.online.weighted_rows import WeightedRows
from obil.trackers.evidence import by_folds

STEPS = 8  # of a log-likelihood: rounding to 1/8 moves an estimate by about .0002 in the logit
LOWEST = -30 * STEPS  # below the likelihood of the most likely class


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts:
    """How many rows have the same log-likelihoods by class, relative to the largest and rounded; adds with `+`.

    >>> both = RowCounts.of([[0.0, 2.01], [0.0, -1.0]]) + RowCounts.of([[0.0, 1.99]])
    >>> both.steps.tolist(), both.counts.tolist()
    ([[-16, 0], [0, -8]], [2, 1])
    """

    steps: IntArray  # (m, K) of the log-likelihoods, each line once, in order; the largest of a line is 0
    counts: IntArray  # (m,) of rows by each of the model's folds
    n_folds: int

    @classmethod
    def of(cls, log_ratios: npt.ArrayLike) -> "RowCounts":
        """Return the counts of rows of log ratios, (n, K), or by each of F folds, (n, F, K)."""
        n_folds = np.shape(log_ratios)[1] if np.ndim(log_ratios) == 3 else 1  # also where there are no rows
        rows, _ = by_folds(log_ratios)
        relative = rows - rows.max(axis=1, keepdims=True)
        steps = np.rint(np.maximum(STEPS * relative, LOWEST)).astype(np.int64)
        return cls.merged(steps, np.ones(len(steps), dtype=np.int64), n_folds)

    @classmethod
    def merged(cls, steps: IntArray, counts: IntArray, n_folds: int) -> "RowCounts":
        """Return the counts of lines some of which are the same."""
        unique, which = np.unique(steps, axis=0, return_inverse=True)
        totals = np.zeros(len(unique), dtype=np.int64)
        np.add.at(totals, which.ravel(), counts)
        return cls(unique, totals, n_folds)

    def __add__(self, other: "RowCounts") -> "RowCounts":
        if not isinstance(other, RowCounts):
            return NotImplemented
        if (self.n_folds, self.steps.shape[1]) != (other.n_folds, other.steps.shape[1]):
            raise InvalidInputError("counts of rows add only to counts by a model of as many folds and classes")
        steps = np.concatenate([self.steps, other.steps])
        return RowCounts.merged(steps, np.concatenate([self.counts, other.counts]), self.n_folds)

    @property
    def n_rows(self) -> int:
        """How many rows were counted."""
        return int(self.counts.sum()) // self.n_folds

    def weighted(self) -> WeightedRows:
        """Return the rows that the counts stand for."""
        log_ratios: FloatArray = (self.steps - self.steps[:, :1]) / STEPS
        return WeightedRows(log_ratios, self.counts / self.n_folds, self.n_rows)
