"""Gather the likelihood of a prior of any number of classes in one pass, whose parts add up."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_log_ratios, as_prior, as_scaled
from obil.errors import InvalidInputError

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
        summed = ("n_rows", "log_likelihood", "gradient", "curvature")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in summed})

    @property
    def gap(self) -> float:
        """How far the log-likelihood can still rise, at most: 0 at the maximum, by concavity."""
        return float(self.gradient.max()) - self.n_rows

    @property
    def at_edge(self) -> npt.NDArray[np.bool_]:
        """Which classes are absent, as far as these rows can tell, (K,)."""
        return np.asarray(self.at <= 10.0 * SMALLEST_PRIOR)

    def em_prior(self) -> FloatArray:
        """Return the prior after one EM step: slow, but the likelihood never falls, but for keeping classes above 0."""
        return inside(self.at * self.gradient / self.n_rows)

    def next_prior(self) -> FloatArray:
        """Return the prior that is best for the quadratic model of the likelihood, held at the edge where need be."""
        best = self._best_by_blocks()
        return inside(self._best_by_steps() if best is None else best)

    def standard_errors(self) -> FloatArray:
        """Return the standard error of each class's prior from the observed information, (K,).

        Directions without information make it infinite; a class at the edge is held there and has none.
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

    def largest_addition(self, drop: float) -> FloatArray:
        """Return how much of each class can be added to the prior with the log-likelihood lower by `drop`, (K,).

        Mixing a fraction f of one class into the prior changes the log-likelihood by (gradient - n) f minus half
        the curvature times f^2; that is solved for f.
        """
        fall = np.maximum(self.n_rows - self.gradient, 0.0)
        bend = np.maximum(np.diag(self.curvature) - 2.0 * self.gradient + self.n_rows, 1e-12)
        fraction = (np.sqrt(fall**2 + 2.0 * bend * drop) - fall) / bend
        return np.minimum(fraction, 1.0)

    def _best_by_blocks(self) -> FloatArray | None:
        """Maximise the model by holding all classes at once that leave the simplex: quick, but it may go in circles."""
        held, seen = np.zeros(self.at.size, dtype=bool), set[bytes]()
        while held.tobytes() not in seen and len(seen) < 3 * held.size:
            seen.add(held.tobytes())
            target, wanted = self._best_with_held(held)
            outside = ~held & (target < SMALLEST_PRIOR)
            if outside.any():
                held |= outside
            elif wanted is not None:
                held[wanted] = False
            else:
                return target
        return None

    def _best_by_steps(self) -> FloatArray:
        """Maximise the model from face to face of the simplex, one class at a time: no step lowers it."""
        point, held = self.at, self.at <= SMALLEST_PRIOR
        for _ in range(10 * held.size):
            target, wanted = self._best_with_held(held)
            outside = np.flatnonzero(~held & (target < SMALLEST_PRIOR))
            if outside.size:  # go as far as the first of them reaches the edge
                steps = (point - SMALLEST_PRIOR)[outside] / (point - target)[outside]
                first = int(np.argmin(steps))
                point = point + steps[first] * (target - point)
                held[outside[first]] = True
                continue
            point = target
            if wanted is None:
                break
            held[wanted] = False
        return point

    def _best_with_held(self, held: npt.NDArray[np.bool_]) -> tuple[FloatArray, int | None]:
        """Maximise the quadratic model with some classes held; return where, and which would raise it most if free."""
        move = np.where(held, SMALLEST_PRIOR - self.at, 0.0)
        free = np.flatnonzero(~held)
        system = np.zeros((free.size + 1, free.size + 1))  # stationarity of the free classes, and a sum of 0
        system[:-1, :-1] = self.curvature[np.ix_(free, free)] / self.n_rows
        system[:-1, -1] = system[-1, :-1] = 1.0
        right = np.append((self.gradient - self.curvature @ move)[free] / self.n_rows, -move.sum())
        solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
        move[free] = solution[:-1]
        slope = np.where(held, self.gradient - self.curvature @ move - solution[-1] * self.n_rows, -np.inf)
        steepest = int(np.argmax(slope))
        return self.at + move, steepest if slope[steepest] > 1e-9 * self.n_rows else None


def inside(prior: FloatArray) -> FloatArray:
    """Return a prior in which no class is absent altogether."""
    kept = np.maximum(prior, SMALLEST_PRIOR)
    scaled: FloatArray = kept / kept.sum()
    return scaled
