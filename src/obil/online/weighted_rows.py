"""Hold rows by their log ratios and weights: evidence of a prior of any number of classes."""

from dataclasses import dataclass, replace

import numpy as np

from obil.arrays import FloatArray, as_scaled, require_in
from obil.errors import InvalidInputError
from obil.online.against_rest import against_rest
from obil.trackers.evidence import BinaryEvidence, PriorEstimate
from obil.trackers.pass_search import estimate_by_passes
from obil.trackers.passes import PassEvidence

SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows:
    """Rows that count as often as their weights say; adds with `+`.

    >>> found = WeightedRows(np.array([[0.0, 50.0], [0.0, -50.0]]), np.array([1.0, 3.0]), 4)
    >>> found.estimate().prior.round(6)
    array([0.75, 0.25])
    """

    log_ratios: FloatArray  # (m, K)
    weights: FloatArray  # (m,)
    n_rows: int

    def __add__(self, other: "WeightedRows") -> "WeightedRows":
        if not isinstance(other, WeightedRows):
            return NotImplemented
        rows = np.concatenate([self.log_ratios, other.log_ratios])
        return WeightedRows(rows, np.concatenate([self.weights, other.weights]), self.n_rows + other.n_rows)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self.log_ratios.shape[1])

    def estimate(self, *, level: float = 0.9) -> PriorEstimate:
        """Return the maximum-likelihood prior with a confidence interval for each class."""
        require_in("level", level, 1e-6, 1.0 - 1e-6)
        if self.n_rows == 0:
            raise InvalidInputError("no rows, so no evidence to estimate a prior from")
        if self.n_classes == 2:
            return self.binary().estimate(level=level)
        start = np.full(self.n_classes, 1.0 / self.n_classes)
        found = estimate_by_passes(
            lambda prior: PassEvidence.of(self.log_ratios, prior, weights=self.weights), start, level=level
        )
        return replace(found, n_rows=self.n_rows)

    def log_likelihood(self, prior: FloatArray) -> float:
        """Return the log-likelihood of a prior, (K,), up to a constant."""
        return float(self.weights @ np.log(np.maximum(self.likelihoods @ prior, SMALLEST)))

    @property
    def likelihoods(self) -> FloatArray:
        """The likelihood of each row by class, (m, K), the largest of each row 1."""
        return np.asarray(np.exp(as_scaled(self.log_ratios)))

    def against_rest(self, positive: int, pseudo_counts: FloatArray) -> BinaryEvidence:
        """Return what the rows tell of one class, whatever the composition of the others."""
        return against_rest(self.likelihoods, self.weights, self.n_rows, positive, pseudo_counts)

    def binary(self) -> BinaryEvidence:
        """Return the evidence of two classes."""
        return self.against_rest(1, np.ones(2))
