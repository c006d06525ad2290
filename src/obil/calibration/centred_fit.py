"""Find the most probable linear map of centred scores to logits, and how much the rows leave open."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax

from obil.arrays import FloatArray, IntArray
from obil.errors import EstimationError

OFFSET_PRECISION = 1e-6  # a trace of a prior, so that offsets of separable rows stay finite
TOLERANCE = 1e-7  # of the gradient per row, before the last Newton step


@dataclass(frozen=True, slots=True, eq=False)
class MapPosterior:
    """The density of parameters (K, F) given rows whose class k has the logit `features[:, k] @ parameters[k]`.

    The last feature of each class is 1 and its parameter the offset. Parameters are normal around `mean` before data.
    A number added to all offsets changes no posterior: their sum is held at 0, which favours no class.
    """

    features: FloatArray  # (n, K, F)
    labels: IntArray  # (n,)
    counts: FloatArray  # (n,)
    log_prior: FloatArray  # (K,) of the rows
    mean: FloatArray  # (K, F)
    precision: FloatArray  # (K, F)

    def maximise(self, start: FloatArray, free: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the most probable parameters, (K, F); those that are not `free`, (K, F), stay as at the start."""
        moving = np.flatnonzero(free)

        def full(values: FloatArray) -> FloatArray:
            parameters = start.copy()
            parameters.flat[moving] = values
            return parameters

        def loss(values: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self.loss(full(values))
            return value / scale, gradient.ravel()[moving] / scale

        def curvature(values: FloatArray) -> FloatArray:
            return self.curvature(full(values))[np.ix_(moving, moving)] / scale

        scale = float(self.counts.sum())
        found = minimize(
            loss,
            start.ravel()[moving],
            jac=True,
            hess=curvature,
            method="trust-exact",
            options={"gtol": TOLERANCE, "maxiter": 500},
        ).x
        for _ in range(2):  # the trust region ends where rounding hides further gain; Newton's step does not
            gradient = loss(found)[1]
            step = np.linalg.solve(curvature(found), gradient)
            found = found - step
        if not float(gradient @ step) < 1e-8:
            raise EstimationError("the calibrator did not converge: are these scores of the rows' own labels?")
        return full(found)

    def loss(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Return the negative log density, and its gradient, (K, F)."""
        rows = np.arange(len(self.labels))
        log_posterior = self._log_posterior(parameters)
        away = parameters - self.mean
        total = parameters[:, -1].sum()
        value = -self.counts @ log_posterior[rows, self.labels] + (self.precision * away**2).sum() / 2.0
        residual = np.exp(log_posterior) * self.counts[:, None]  # (n, K)
        residual[rows, self.labels] -= self.counts
        gradient = np.einsum("nk,nkf->kf", residual, self.features) + self.precision * away
        gradient[:, -1] += self._anchor * total
        return float(value + self._anchor * total**2 / 2.0), gradient

    def curvature(self, parameters: FloatArray) -> FloatArray:
        """Return the second derivative of the negative log density, (K * F, K * F)."""
        posterior = np.exp(self._log_posterior(parameters))
        n_rows, n_classes, n_features = self.features.shape
        weighted = (posterior * np.sqrt(self.counts)[:, None])[:, :, None] * self.features
        flat = weighted.reshape(n_rows, -1)
        total: FloatArray = np.diag(self.precision.ravel()) - flat.T @ flat
        for k in range(n_classes):
            own = slice(k * n_features, (k + 1) * n_features)
            features = self.features[:, k]
            total[own, own] += (features * (self.counts * posterior[:, k])[:, None]).T @ features
        total[n_features - 1 :: n_features, n_features - 1 :: n_features] += self._anchor
        return total

    def _log_posterior(self, parameters: FloatArray) -> FloatArray:
        logits = self.log_prior + np.einsum("nkf,kf->nk", self.features, parameters)
        log_posterior: FloatArray = log_softmax(logits, axis=1)
        return log_posterior

    @property
    def _anchor(self) -> float:
        return float(self.counts.sum()) / len(self.mean) ** 2
