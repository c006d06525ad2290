"""Count rows by bin with noise for differential privacy, and read such counts as evidence."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from obil.arrays import FloatArray, IntArray
from obil.online.evidence_bins import EvidenceBins
from obil.online.weighted_rows import WeightedRows
from obil.trackers.evidence import by_folds

LEAST_CLEAR = 3.0  # standard errors by noise of the number of rows: fewer tell nothing
LEAST_OF_CLASS = 1e-3  # rows
STEPS = 5  # of weighted least squares
BINS_PER_CLASS = 8  # more tell more of the prior, and each has its own noise


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """Rows by bin, with two-sided geometric noise of P(z) proportional to exp(-epsilon |z| / folds).

    A row is counted by each of F folds, so adding or removing it changes the counts by F in all: they are
    epsilon-differentially private.
    """

    counts: IntArray  # (B,) of rows by each fold; some may be negative
    n_folds: int
    epsilon: float

    @classmethod
    def of(
        cls, log_ratios: npt.ArrayLike, bins: EvidenceBins, *, epsilon: float, rng: np.random.Generator
    ) -> "NoisyCounts":
        """Return counts of rows of log ratios, (n, K) or (n, F, K), with noise."""
        n_folds = np.shape(log_ratios)[1] if np.ndim(log_ratios) == 3 else 1  # also where there are no rows
        rows, _ = by_folds(log_ratios, n_classes=bins.n_classes)
        stop = -np.expm1(-epsilon / n_folds)
        noise = rng.geometric(stop, size=bins.n_bins) - rng.geometric(stop, size=bins.n_bins)
        return cls(bins.counts(rows) + noise, n_folds, epsilon)

    @property
    def noise_variance(self) -> float:
        """The variance of a count's noise, in rows."""
        stay = np.exp(-self.epsilon / self.n_folds)
        return float(2.0 * stay / np.expm1(-self.epsilon / self.n_folds) ** 2) / self.n_folds**2

    def weighted(self, bins: EvidenceBins) -> WeightedRows:
        """Return the rows that the counts stand for.

        A count plus the variance of its noise, not below 0, is taken for a Poisson variable whose mean is greater by
        that variance: mean and variance are right. So noise pulls the ratio of a bin to 1, and an interval by this
        likelihood is wider by what noise adds. How many rows there are is estimated from the counts as well, and what
        that leaves open is taken off the weights.
        """
        rows, variance = self.counts / self.n_folds, self.noise_variance
        total, known, clear = _total(rows, bins.probabilities, variance)
        expected: FloatArray = total * bins.probabilities + variance if clear else np.ones_like(bins.probabilities)
        log_ratios = np.log(expected / expected[:, :1])
        weights = known * np.maximum(rows + variance, 0.0)
        return WeightedRows(log_ratios, weights, max(round(float(rows.sum())), 1))


def _total(rows: FloatArray, probabilities: FloatArray, variance: float) -> tuple[float, float, bool]:
    """Return the number of rows, which part of the information about the prior it leaves, and if it is clear of noise.

    Rows of each class are found by least squares, weighted by the variances of the counts.
    """
    n_classes = probabilities.shape[1]
    by_class = np.full(n_classes, max(float(rows.sum()), 1.0) / n_classes)
    for _ in range(STEPS):
        spread = np.sqrt(probabilities @ by_class + variance)
        by_class = np.maximum(nnls(probabilities / spread[:, None], rows / spread)[0], LEAST_OF_CLASS)
    total = float(by_class.sum())
    row = probabilities @ (by_class / total)  # (B,) what one more row changes
    _, by_noise = _apart(row, probabilities, np.full(len(rows), variance))
    known, _ = _apart(row, probabilities, total * row + variance)
    return total, known, total * np.sqrt(by_noise) > LEAST_CLEAR


def _apart(row: FloatArray, probabilities: FloatArray, variances: FloatArray) -> tuple[float, float]:
    """Return which part of what counts tell of the number of rows is not of the prior as well, and how much that is."""
    scale = 1.0 / np.sqrt(variances)
    along, across = scale * row, scale[:, None] * (probabilities[:, 1:] - probabilities[:, :1])
    left = along - across @ np.linalg.lstsq(across, along, rcond=None)[0]
    return float(left @ left) / float(along @ along), float(left @ left)
