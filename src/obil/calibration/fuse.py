"""Find the weights with which members' log ratios are fused, on rows that no member has seen."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from obil.arrays import FloatArray, IntArray
from obil.calibration.cross_fit import deal_folds
from obil.calibration.linear import SLOPE_SD, class_prior, fit_linear

TEMPERATURES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf)  # in units of the typical variance; infinite: equal weights
N_FOLDS = 5


def dropout_weights(variances: FloatArray, temperature: float) -> FloatArray:
    """Return exp(-variance / temperature) of each member, (n, M), scaled to sum to 1 in each row.

    >>> dropout_weights(np.array([[0.1, 0.1], [0.0, 50.0]]), 1.0).round(3).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    weights: FloatArray = softmax(-variances / temperature, axis=1)
    return weights


def choose_temperature(
    scores: FloatArray,
    variances: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    slope_sd: float | None = SLOPE_SD,
    random_state: int,
) -> float:
    """Return the temperature tau whose fused and calibrated scores predict left-out labels best.

    `scores` (n, M, K) and `variances` (n, M) are of held-out rows. It is on the scale of the variances, and infinite,
    which makes the weights equal, where the rows are too few to tell.
    """
    typical = float(np.median(variances))
    if not typical > 0.0 or np.bincount(labels, minlength=scores.shape[2]).min() < N_FOLDS:
        return float("inf")
    folds = deal_folds(labels, n_folds=N_FOLDS, n_classes=scores.shape[2], random_state=random_state)
    losses = []
    for relative in TEMPERATURES:
        fused = (dropout_weights(variances, relative * typical)[:, :, None] * scores).sum(axis=1)
        losses.append(sum(_left_out_loss(fused, labels, weights, folds == fold, slope_sd) for fold in np.unique(folds)))
    return TEMPERATURES[int(np.argmin(losses))] * typical


def mean_log_loss(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Return the mean log loss of calibrated scores, (n, K), at the class prior of the rows."""
    logs = log_softmax(np.log(class_prior(labels, weights, scores.shape[1])) + scores, axis=1)
    return float(-np.average(logs[np.arange(len(labels)), labels], weights=weights))


def _left_out_loss(
    fused: FloatArray, labels: IntArray, weights: FloatArray, left_out: npt.NDArray[np.bool_], slope_sd: float | None
) -> float:
    kept = ~left_out
    calibrator = fit_linear(fused[kept], labels[kept], weights[kept], slope_sd=slope_sd, shrink=True)
    logs = log_softmax(
        np.log(class_prior(labels[kept], weights[kept], fused.shape[1])) + calibrator.apply(fused[left_out]), axis=1
    )
    return float(-(weights[left_out] * logs[np.arange(left_out.sum()), labels[left_out]]).sum())


def stacked_weights(scores: FloatArray, labels: IntArray, weights: FloatArray, *, spread: float = 1.0) -> FloatArray:
    """Return the weights of members, (M,), not negative and of sum 1, whose fused scores predict the labels best.

    `scores` (n, M, K) are of held-out rows. The coefficients of the members are found by likelihood with an offset
    per class, under a normal prior around equal weights with standard deviation `spread` / M:
    few rows leave them equal.
    """
    n_members, n_classes = scores.shape[1:]
    if n_members == 1:
        return np.ones(1)
    log_prior = np.log(class_prior(labels, weights, n_classes))
    rows = np.arange(len(labels))
    equal, precision = 1.0 / n_members, (n_members / spread) ** 2

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        coefficients, offsets = theta[:n_members], np.concatenate([[0.0], theta[n_members:]])
        logs = log_softmax(log_prior + np.einsum("nmk,m->nk", scores, coefficients) + offsets, axis=1)
        residual = np.exp(logs)
        residual[rows, labels] -= 1.0
        residual *= weights[:, None]
        away = coefficients - equal
        value = -(weights * logs[rows, labels]).sum() + 0.5 * precision * (away**2).sum()
        slope = np.concatenate(
            [np.einsum("nmk,nk->m", scores, residual) + precision * away, residual[:, 1:].sum(axis=0)]
        )
        return float(value), slope

    start = np.concatenate([np.full(n_members, equal), np.zeros(n_classes - 1)])
    bounds = [(0.0, None)] * n_members + [(None, None)] * (n_classes - 1)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x[:n_members]
    total = found.sum()
    return found / total if total > 0.0 else np.full(n_members, equal)
