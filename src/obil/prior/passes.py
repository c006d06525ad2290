"""Find the most likely prior of any number of classes by repeated passes whose results add up."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from obil.arrays import FloatArray, PriorLike, as_log_ratios, as_prior, as_scaled, require_in
from obil.errors import EstimationError, InvalidInputError
from obil.prior.estimate import PriorEstimate
from obil.prior.evidence import BinaryEvidence

SMALLEST_PRIOR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PassEvidence:
    """Log-likelihood, gradient and curvature of some rows at one prior; adds with `+` at the same prior.

    One EM step from it alone is far from the answer (from .05 a truth of .20 comes out as .08 to .12):
    the passes have to be repeated at the prior that `next_prior` gives.

    >>> PassEvidence.of([[0.0, 1.0]] * 4, 0.5).n_rows
    4.0
    """

    at: FloatArray  # (K,) the prior the pass was made at
    n_rows: float  # their total weight
    log_likelihood: float
    gradient: FloatArray  # (K,) sums of q_k / (at . q)
    curvature: FloatArray  # (K, K) sums of outer products of q / (at . q)

    @classmethod
    def of(cls, log_ratios: npt.ArrayLike, at: PriorLike, *, weights: FloatArray | None = None) -> "PassEvidence":
        """Return the evidence of rows of log ratios, (n, K), at a prior; `weights` count rows more than once."""
        prior = as_prior(at)
        rows = as_log_ratios(log_ratios, n_classes=prior.size)
        ratios = np.exp(as_scaled(rows))
        evidence = ratios @ prior
        scaled = ratios / evidence[:, None]
        counted = np.ones(len(rows)) if weights is None else weights
        return cls(
            at=prior,
            n_rows=float(counted.sum()),
            log_likelihood=float(counted @ np.log(evidence)),  # up to a constant: each row's largest ratio is 1
            gradient=counted @ scaled,
            curvature=(scaled * counted[:, None]).T @ scaled,
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

    @property
    def gap(self) -> float:
        """How far the log-likelihood can still rise, at most: 0 at the maximum, by concavity."""
        return float(self.gradient.max()) - self.n_rows

    @property
    def at_edge(self) -> npt.NDArray[np.bool_]:
        """Which classes are absent, as far as these rows can tell, (K,)."""
        return np.asarray(self.at <= 10.0 * SMALLEST_PRIOR)

    def em_prior(self) -> FloatArray:
        """Return the prior after one EM step: slow, but its likelihood never falls."""
        return _inside(self.at * self.gradient / self.n_rows)

    def next_prior(self) -> FloatArray:
        """Return the prior that is best for the quadratic model of the likelihood, held at the edge where need be."""
        held = np.zeros(self.at.size, dtype=bool)
        target = self.at
        for _ in range(3 * self.at.size):
            target, slope = self._best_with_held(held)
            outside = ~held & (target < SMALLEST_PRIOR)
            wanted = held & (slope > 1e-9 * self.n_rows)  # the model would rise if the class came back
            if outside.any():
                held |= outside
            elif wanted.any():
                held[int(np.argmax(np.where(wanted, slope, -np.inf)))] = False
            else:
                break
        return _inside(target)

    def standard_errors(self) -> FloatArray:
        """Return the standard error of each class's prior from the observed information, (K,).

        Directions the rows say nothing about make it infinite; a class at the edge is held there and has none.
        """
        anchor = int(np.argmax(self.at))
        free = ~self.at_edge
        free[anchor] = False
        cross = self.curvature[free, anchor]
        information = self.curvature[np.ix_(free, free)] - cross[:, None] - cross + self.curvature[anchor, anchor]
        values, vectors = np.linalg.eigh(information)
        known = values > 1e-10 * values.max(initial=1.0)
        spread = np.where(known, 1.0 / np.where(known, values, 1.0), 0.0)
        moves = np.zeros((self.at.size, values.size))  # how each eigenvector moves each class
        moves[free] = vectors
        moves[anchor] = -vectors.sum(axis=0)
        variances = moves**2 @ spread
        unknown = (np.abs(moves[:, ~known]) > 1e-6).any(axis=1)
        return np.where(unknown, np.inf, np.sqrt(variances))

    def share_that_could_be_added(self, drop: float) -> FloatArray:
        """Return how much more of each class there could be with the log-likelihood lower by `drop`, (K,).

        Mixing a share of one class into the prior changes the log-likelihood by (gradient - n) share minus
        half the curvature along the way; that is solved for the share.
        """
        fall = np.maximum(self.n_rows - self.gradient, 0.0)
        bend = np.maximum(np.diag(self.curvature) - 2.0 * self.gradient + self.n_rows, 1e-12)
        share = (np.sqrt(fall**2 + 2.0 * bend * drop) - fall) / bend
        return np.minimum(share, 1.0)

    def _best_with_held(self, held: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Maximise the quadratic model with some classes held at the edge; return it and the slope of each class."""
        move = np.where(held, SMALLEST_PRIOR - self.at, 0.0)
        free = np.flatnonzero(~held)
        system = np.zeros((free.size + 1, free.size + 1))  # stationarity of the free classes, and a sum of 0
        system[:-1, :-1] = self.curvature[np.ix_(free, free)] / self.n_rows
        system[:-1, -1] = system[-1, :-1] = 1.0
        wanted = np.append((self.gradient - self.curvature @ move)[free] / self.n_rows, -move.sum())
        solution = np.linalg.lstsq(system, wanted, rcond=1e-13)[0]
        move[free] = solution[:-1]
        slope = self.gradient - self.curvature @ move - solution[-1] * self.n_rows
        return self.at + move, slope


def estimate_by_passes(
    one_pass: Callable[[FloatArray], PassEvidence], start: PriorLike, *, level: float = 0.9, max_passes: int = 100
) -> PriorEstimate:
    """Repeat `one_pass` (which may run on a cluster) until the likelihood cannot rise any more.

    >>> rows = [[0.0, 50.0, 0.0]] + [[0.0, -50.0, -50.0]] * 3
    >>> estimate_by_passes(lambda prior: PassEvidence.of(rows, prior), [0.2, 0.4, 0.4]).prior.round(6)
    array([0.75, 0.25, 0.  ])
    """
    tail = (1.0 - require_in("level", level, 1e-6, 1.0 - 1e-6)) / 2.0
    best = one_pass(as_prior(start))
    if best.n_rows == 0:
        raise InvalidInputError("no rows, so no evidence to estimate a prior from")
    enough = 2.0 * SMALLEST_PRIOR * best.at.size * best.n_rows  # what keeping every class above 0 costs
    target, share = best.next_prior(), 1.0
    for _ in range(max_passes):
        if best.gap <= enough:
            break
        evidence = one_pass(_inside(best.at + share * (target - best.at)) if share > 0.1 else best.em_prior())
        if evidence.log_likelihood >= best.log_likelihood:
            best, share = evidence, 1.0
            target = best.next_prior()
        elif share <= 0.1:  # not even EM rises: the rest is rounding
            break
        else:
            share /= 2.0  # the quadratic model overshot
    else:
        raise EstimationError(f"the most likely prior was not found in {max_passes} passes (gap {best.gap:.3g})")
    errors = best.standard_errors()
    logits = np.log(best.at) - np.log1p(-best.at)
    widths = np.minimum(-ndtri(tail) * errors / (best.at * (1.0 - best.at)), 40.0)
    ends = expit(np.stack([logits - widths, logits + widths], axis=1))
    # where no symmetric interval is honest
    near_edge = best.at_edge | (np.isfinite(errors) & (best.at <= 2.0 * errors))
    addable = best.share_that_could_be_added(ndtri(tail) ** 2 / 2.0)
    ends[near_edge, 1] = (best.at + (1.0 - best.at) * addable)[near_edge]
    ends[best.at_edge, 0] = 0.0
    # what an absent class may still take, it takes from the others
    taken = float(addable[near_edge].max(initial=0.0))
    ends[:, 0] = np.minimum(ends[:, 0], best.at * (1.0 - taken))
    ends[:, 1] = np.maximum(ends[:, 1], best.at)
    return PriorEstimate(best.at, ends, level, round(best.n_rows))


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
