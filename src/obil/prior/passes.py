"""Find the most likely prior of any number of classes by repeated passes whose results add up."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from obil.arrays import FloatArray, PriorLike, as_log_ratios, as_prior, require_in
from obil.errors import InvalidInputError
from obil.prior.estimate import PriorEstimate
from obil.prior.evidence import BinaryEvidence

SMALLEST_PRIOR = 1e-9
LARGEST_STEP = 0.9  # of the way to the simplex's edge, so that a Newton step never leaves it
TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class PassEvidence:
    """Log-likelihood, gradient and curvature of some rows at one prior; adds with `+` at the same prior.

    One EM step from it alone is far from the answer (from .05 a truth of .20 comes out as .08 to .12):
    the passes have to be repeated at the prior that `next_prior` gives.
    """

    at: FloatArray  # (K,) the prior the pass was made at
    n_rows: int
    log_likelihood: float
    gradient: FloatArray  # (K,) sums of q_k / (at . q)
    curvature: FloatArray  # (K, K) sums of outer products of q / (at . q)

    @classmethod
    def of(cls, log_ratios: npt.ArrayLike, at: PriorLike) -> "PassEvidence":
        """Return the evidence of rows of log ratios, (n, K), at a prior."""
        prior = as_prior(at)
        rows = as_log_ratios(log_ratios, n_classes=prior.size)
        largest = rows.max(axis=1)
        ratios = np.exp(rows - largest[:, None])
        evidence = ratios @ prior
        scaled = ratios / evidence[:, None]
        return cls(
            at=prior,
            n_rows=len(rows),
            log_likelihood=float((np.log(evidence) + largest).sum()),
            gradient=scaled.sum(axis=0),
            curvature=scaled.T @ scaled,
        )

    def __add__(self, other: "PassEvidence") -> "PassEvidence":
        if not isinstance(other, PassEvidence):
            return NotImplemented
        if not np.array_equal(self.at, other.at):
            raise InvalidInputError("evidence of one pass adds only to evidence at the same prior")
        return PassEvidence(
            at=self.at,
            n_rows=self.n_rows + other.n_rows,
            log_likelihood=self.log_likelihood + other.log_likelihood,
            gradient=self.gradient + other.gradient,
            curvature=self.curvature + other.curvature,
        )

    def em_prior(self) -> FloatArray:
        """Return the prior after one EM step: slow, but its likelihood never falls."""
        return _inside(self.at * self.gradient / self.n_rows)

    def next_prior(self) -> FloatArray:
        """Return the prior after a Newton step along the simplex, cut short at its edge."""
        free = self.at > 2.0 * SMALLEST_PRIOR
        free |= self.gradient > self.n_rows  # a class at the edge that the gradient calls back
        anchor = int(np.argmax(self.at))
        free[anchor] = False
        if not free.any():
            return self.em_prior()
        gradient = self.gradient[free] - self.gradient[anchor]
        curvature = self._relative_curvature(free, anchor)
        step = np.zeros_like(self.at)
        step[free] = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        step[anchor] = -step.sum()
        shrinking = step < 0.0
        room = float((self.at[shrinking] / -step[shrinking]).min(initial=np.inf))
        return _inside(self.at + min(1.0, LARGEST_STEP * room) * step)

    def standard_errors(self) -> FloatArray:
        """Return the standard error of each class's prior from the observed information, (K,)."""
        anchor = int(np.argmax(self.at))
        free = np.arange(self.at.size) != anchor
        covariance = np.linalg.pinv(self._relative_curvature(free, anchor))
        variances = np.empty(self.at.size)
        variances[free] = np.diag(covariance)
        variances[anchor] = covariance.sum()  # the anchor is one minus the others
        return np.sqrt(np.maximum(variances, 0.0))

    def _relative_curvature(self, free: npt.NDArray[np.bool_], anchor: int) -> FloatArray:
        """Return the curvature along moves that take from the anchor what they give to a free class."""
        cross = self.curvature[free, anchor]
        relative: FloatArray = (
            self.curvature[np.ix_(free, free)] - cross[:, None] - cross[None, :] + self.curvature[anchor, anchor]
        )
        return relative


def estimate_by_passes(
    one_pass: Callable[[FloatArray], PassEvidence], start: PriorLike, *, level: float = 0.9, max_passes: int = 100
) -> PriorEstimate:
    """Repeat `one_pass` (which may run on a cluster) until the likelihood no longer rises."""
    tail = (1.0 - require_in("level", level, 1e-6, 1.0 - 1e-6)) / 2.0
    best = one_pass(as_prior(start))
    if best.n_rows == 0:
        raise InvalidInputError("no rows, so no evidence to estimate a prior from")
    candidate = best.next_prior()
    for _ in range(max_passes):
        evidence = one_pass(candidate)
        if evidence.log_likelihood < best.log_likelihood:  # Newton overshot: EM cannot
            fallback = best.em_prior()
            if np.array_equal(fallback, candidate):
                break
            candidate = fallback
            continue
        gained, best = evidence.log_likelihood - best.log_likelihood, evidence
        candidate = best.next_prior()
        if gained <= TOLERANCE * (1.0 + abs(best.log_likelihood)) and np.abs(candidate - best.at).max() < 1e-8:
            break
    errors = best.standard_errors()
    logits = np.log(best.at) - np.log1p(-best.at)
    widths = -ndtri(tail) * np.minimum(errors / (best.at * (1.0 - best.at)), 30.0)
    ends = 1.0 / (1.0 + np.exp(-np.stack([logits - widths, logits + widths], axis=1)))
    return PriorEstimate(best.at, ends, level, best.n_rows)


def estimate_from_rows(log_ratios: npt.ArrayLike, *, level: float = 0.9) -> PriorEstimate:
    """Return the most likely prior of a batch of log ratios, (n, K), with an interval for each class.

    >>> rows = [[0.0, 50.0]] + [[0.0, -50.0]] * 3
    >>> estimate_from_rows(rows).prior.round(6)
    array([0.75, 0.25])
    """
    rows = as_log_ratios(log_ratios)
    if rows.shape[1] == 2:
        return BinaryEvidence.of(rows).estimate(level=level)
    start = np.full(rows.shape[1], 1.0 / rows.shape[1])
    return estimate_by_passes(lambda prior: PassEvidence.of(rows, prior), start, level=level)


def _inside(prior: FloatArray) -> FloatArray:
    kept = np.maximum(prior, SMALLEST_PRIOR)
    inside: FloatArray = kept / kept.sum()
    return inside
