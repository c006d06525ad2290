"""Centre held-out scores over the classes and measure them, so that the order of the classes cannot matter."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.linear import ScoreUnit, as_counts, class_prior, shrink_offsets
from obil.serving.centred_calibrators import centred

FREE_SLOPE_SD = 100.0  # a trace of a prior, so that separable rows do not send a slope to infinity


@dataclass(frozen=True, slots=True, eq=False)
class CentredRows:
    """Scores less their mean over the classes, in a unit of their own where they have no scale."""

    scores: FloatArray  # (n, K) `zero + unit * scores` are the centred scores
    labels: IntArray  # (n,)
    counts: FloatArray  # (n,)
    log_prior: FloatArray  # (K,) of the rows
    zero: FloatArray  # (K,)
    unit: float
    slope_sd: float  # of a slope around 1 before data
    has_scale: bool  # whether a score of 0 and a slope of 1 mean what they say

    @classmethod
    def of(cls, scores: FloatArray, labels: IntArray, weights: FloatArray, *, slope_sd: float | None) -> Self:
        """Return the rows of raw scores (n, K); `slope_sd` None is for scores on no particular scale."""
        n_classes = scores.shape[1]
        counts = as_counts(weights)
        log_prior = np.log(class_prior(labels, counts, n_classes))
        values = centred(scores)
        zero, unit = np.zeros(n_classes), 1.0
        if slope_sd is None:
            # the unit leaves out the first column, which is the reference elsewhere: here none is
            own = ScoreUnit.of_spread(np.hstack([np.zeros((len(values), 1)), values]), labels, counts)
            zero, unit = own.zero[1:], own.unit
        measured = (values - zero) / unit
        sd = FREE_SLOPE_SD if slope_sd is None else slope_sd
        return cls(measured, labels, counts, log_prior, zero, unit, sd, slope_sd is not None)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.log_prior.size

    def estimate(
        self, parameters: FloatArray, covariance: FloatArray, *, shrink: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean and covariance of parameters (K, F), offsets last and less that of class 0.

        The mean is flat: the slopes of class 0, of class 1 and so on, then the K - 1 offsets, shrunk on request.
        """
        n_classes = len(parameters)
        n_offsets = n_classes - 1
        flat = np.arange(parameters.size).reshape(parameters.shape)
        at_slopes, at_offsets = flat[:, :-1].ravel(), flat[:, -1]
        change = np.zeros((at_slopes.size + n_offsets, parameters.size))
        change[np.arange(at_slopes.size), at_slopes] = 1.0
        change[at_slopes.size + np.arange(n_offsets), at_offsets[1:]] = 1.0
        change[at_slopes.size :, at_offsets[0]] = -1.0
        theta, moved = change @ parameters.ravel(), change @ covariance @ change.T
        # the class counts are what they are: their sampling noise is no part of the ratio's
        per_class = np.bincount(self.labels, weights=self.counts, minlength=n_classes)
        moved[-n_offsets:, -n_offsets:] -= np.diag(1.0 / per_class[1:]) + 1.0 / per_class[0]
        if shrink and n_offsets > 1 and self.has_scale:
            return shrink_offsets(theta, moved, n_offsets)
        return theta, moved


def principal_axes(covariance: FloatArray) -> FloatArray:
    """Return one standard deviation along each principal axis of a covariance, (A, parameters)."""
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    kept = eigenvalues > 0.0
    axes: FloatArray = (eigenvectors[:, kept] * np.sqrt(eigenvalues[kept])).T
    return axes
