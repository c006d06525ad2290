"""Map centred scores to calibrated log ratios: vector and matrix scaling, in which no class is the reference."""

from dataclasses import dataclass

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.calibrators import Quantity, SlopesAndOffsets

DRAWS = 24  # of the matrix, where its uncertainty is asked for
SMALLEST_PIVOT = 1e-9  # of a matrix that can be inverted, relative to its largest


def centred(scores: FloatArray) -> FloatArray:
    """Return scores (n, K) less their mean over the classes.

    >>> centred(np.array([[0.0, 3.0, 6.0]]))
    array([[-3.,  0.,  3.]])
    """
    values: FloatArray = scores - scores.mean(axis=1, keepdims=True)
    return values


def relative(logits: FloatArray) -> FloatArray:
    """Return logits (n, K) less that of class 0."""
    log_ratios: FloatArray = logits - logits[:, :1]
    return log_ratios


@dataclass(frozen=True, slots=True, eq=False)
class VectorCalibrator(SlopesAndOffsets):
    """Vector scaling: a slope and an offset for each class, of its score less the mean over all classes.

    >>> double = VectorCalibrator(np.full(3, 2.0), np.zeros(3), np.empty((0, 2, 3)))
    >>> double.apply(np.array([[0.0, 3.0, 6.0]]))
    array([[ 0.,  6., 12.]])
    """

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log ratios, (n, K)."""
        return relative(centred(scores) * self.slopes + self.offsets)

    def invert(self, log_ratios: FloatArray) -> FloatArray:
        """Return the raw scores that `apply` maps to these log ratios, (n, K)."""
        # logits are log ratios plus a number per row, which is such that the centred scores add up to 0
        scaled = (log_ratios - self.offsets) / self.slopes
        missing = scaled.sum(axis=1, keepdims=True) / (1.0 / self.slopes).sum()
        return relative(scaled - missing / self.slopes)


@dataclass(frozen=True, slots=True, eq=False)
class MatrixCalibrator:
    """Matrix scaling: each class's logit is a linear function of the centred scores of all classes.

    >>> same = MatrixCalibrator(np.eye(3), np.zeros(3), np.empty((0, 4, 3)))
    >>> same.apply(np.array([[0.0, 3.0, 6.0]]))
    array([[0., 3., 6.]])
    """

    matrix: FloatArray  # (K, K): a row for each logit
    offsets: FloatArray  # (K,), the first is 0
    axes: FloatArray  # (A, K + 1, K): one standard deviation of (transposed matrix, offsets) along each principal axis

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log ratios, (n, K)."""
        return relative(centred(scores) @ self.matrix.T + self.offsets)

    def invert(self, log_ratios: FloatArray) -> FloatArray:
        """Return the raw scores that `apply` maps to these log ratios, (n, K)."""
        scores = np.zeros_like(log_ratios)
        wanted = log_ratios[:, 1:] - (self.offsets[1:] - self.offsets[0])
        scores[:, 1:] = np.linalg.solve(of_differences(self.matrix), wanted.T).T
        return scores

    def variance_of(self, quantity: Quantity) -> FloatArray:
        """Return the mean squared change of the quantity over draws of the parameters, the same each time."""
        total = np.zeros_like(quantity(self))
        for draw in np.random.default_rng(0).standard_normal((DRAWS, len(self.axes))):
            moved = np.tensordot(draw, self.axes, axes=1)  # (K + 1, K)
            up, down = (
                quantity(
                    MatrixCalibrator(self.matrix + sign * moved[:-1].T, self.offsets + sign * moved[-1], self.axes[:0])
                )
                for sign in (1.0, -1.0)
            )
            total = total + ((up - down) / 2.0) ** 2
        return total / DRAWS

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.offsets.size

    def require_sound(self) -> None:
        """Refuse what a damaged file could hold."""
        size = self.n_classes
        fits = self.matrix.shape == (size, size) and self.offsets.shape == (size,)
        if not fits or self.axes.shape[1:] != (size + 1, size):
            raise InvalidInputError("a calibrator is damaged: its matrix, offsets and axes must be of every class")
        if not all(np.isfinite(values).all() for values in (self.matrix, self.offsets, self.axes)):
            raise InvalidInputError("a calibrator is damaged: its numbers must be finite")
        pivots = np.linalg.svd(of_differences(self.matrix), compute_uv=False)
        if size < 2 or pivots[-1] <= SMALLEST_PIVOT * pivots[0]:
            raise InvalidInputError("a calibrator's matrix must have an inverse on differences of scores")


def of_differences(matrix: FloatArray) -> FloatArray:
    """Return what `matrix` does to scores relative to class 0 instead of centred ones, (K - 1, K - 1).

    >>> of_differences(2.0 * np.eye(3))
    array([[2., 0.],
           [0., 2.]])
    """
    of_scores = matrix - matrix.mean(axis=1, keepdims=True)  # the centring undone
    differences: FloatArray = of_scores[1:, 1:] - of_scores[:1, 1:]
    return differences
