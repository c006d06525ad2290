"""Fit matrix scaling on held-out rows: vector scaling, and how each class's score bears on the others' logits."""

import numpy as np

from obil.arrays import FloatArray, IntArray
from obil.calibration.centred_fit import OFFSET_PRECISION, MapPosterior
from obil.calibration.centred_rows import CentredRows, principal_axes
from obil.calibration.linear import SLOPE_SD, SMALLEST_SLOPE
from obil.calibration.vector import fit_vector
from obil.errors import InvalidInputError
from obil.serving.centred_calibrators import MatrixCalibrator, VectorCalibrator

# sd of the numbers off the diagonal: the one with the most evidence is taken
OFF_DIAGONAL_SDS = (0.003, 0.01, 0.03, 0.1, 0.3)
MOST_CLASSES = 32  # a thousand numbers; the curvature of more takes too long


def fit_matrix(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None = SLOPE_SD,
    shrink: bool = True,
) -> MatrixCalibrator:
    """Fit a matrix, normal around the identity, and K - 1 offsets to centred scores; `shrink` as in `fit_linear`.

    The scale of the numbers off the diagonal is the one whose Laplace evidence is largest among those whose map
    increases. If none does, the result is that of vector scaling.
    """
    n_classes = scores.shape[1]
    if n_classes > MOST_CLASSES:
        raise InvalidInputError(
            f"matrix calibration is for at most {MOST_CLASSES} classes, got {n_classes}: use calibration='vector'"
        )
    rows = CentredRows.of(scores, labels, weights, slope_sd=slope_sd)
    shared = np.hstack([rows.scores, np.ones((len(rows.scores), 1))])  # (n, K + 1)
    features = np.broadcast_to(shared[:, None], (len(shared), n_classes, n_classes + 1))
    mean = np.eye(n_classes, n_classes + 1)
    free = np.ones_like(mean, dtype=bool)
    parameters, fits = mean, []
    for sd in OFF_DIAGONAL_SDS:
        precision = np.full_like(mean, 1.0 / sd**2)
        np.fill_diagonal(precision, 1.0 / rows.slope_sd**2)
        precision[:, -1] = OFFSET_PRECISION
        posterior = MapPosterior(features, rows.labels, rows.counts, rows.log_prior, mean, precision)
        parameters = posterior.maximise(parameters, free)
        curvature = posterior.curvature(parameters)
        log_evidence = np.log(precision).sum() / 2.0 - posterior.loss(parameters)[0]
        log_evidence -= np.linalg.slogdet(curvature)[1] / 2.0
        fits.append((float(log_evidence), parameters, curvature))
    for _, parameters, curvature in sorted(fits, key=lambda fit: -fit[0]):
        inverse: FloatArray = np.linalg.inv(curvature).astype(np.float64, copy=False)
        theta, covariance = rows.estimate(parameters, inverse, shrink=shrink)
        matrix = theta[: n_classes**2].reshape(n_classes, n_classes)
        if _least_increase(matrix) >= SMALLEST_SLOPE:
            return _in_own_unit(np.vstack([theta, principal_axes(covariance)]), rows)
    return _as_matrix(fit_vector(scores, labels, weights, slope_sd=slope_sd, shrink=shrink))


def _least_increase(matrix: FloatArray) -> float:
    """Return the least of c' W c over centred scores c of length 1: a map increases where it is positive."""
    n_classes = len(matrix)
    centring = np.eye(n_classes) - 1.0 / n_classes
    symmetric = centring @ (matrix + matrix.T) @ centring / 2.0
    return float(np.linalg.eigvalsh(symmetric + np.abs(symmetric).sum() / n_classes)[0])  # constants are no scores


def _in_own_unit(thetas: FloatArray, rows: CentredRows) -> MatrixCalibrator:
    """Return the calibrator of parameters, (1 + A, K * K + K - 1), the mean first and then one row for each axis."""
    n_classes = rows.n_classes
    matrices = thetas[:, : n_classes**2].reshape(-1, n_classes, n_classes) / rows.unit
    at_zero = matrices @ rows.zero  # (1 + A, K)
    offsets = np.zeros_like(at_zero)
    offsets[:, 1:] = thetas[:, n_classes**2 :] - (at_zero[:, 1:] - at_zero[:, :1])
    axes = np.concatenate([matrices[1:].transpose(0, 2, 1), offsets[1:, None]], axis=1)
    return MatrixCalibrator(matrices[0], offsets[0], axes)


def _as_matrix(vector: VectorCalibrator) -> MatrixCalibrator:
    """Return vector scaling as the matrix it is."""
    axes = np.stack([np.vstack([np.diag(slopes), offsets]) for slopes, offsets in vector.axes])
    return MatrixCalibrator(np.diag(vector.slopes), vector.offsets, axes)
