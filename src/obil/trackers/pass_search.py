"""Find the most likely prior of any number of classes, one pass over the rows at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from obil.arrays import FloatArray, PriorLike, as_prior, require_in
from obil.errors import EstimationError, InvalidInputError
from obil.trackers.evidence import BinaryEvidence, PriorEstimate, by_folds
from obil.trackers.passes import SMALLEST_PRIOR, PassEvidence, inside

MOST_PASSES = 100


@dataclass(slots=True)
class PassSearch:
    """Choose the prior of the next pass, and take what it found, until the likelihood cannot rise any more.

    It walks to the best point of the quadratic model, half as far where that overshot, and by an EM step where
    halving does not help or a class is far too small. Many searches, one for each group of rows, can use the
    same pass over a table.

    >>> rows = [[0.0, 50.0, 0.0]] + [[0.0, -50.0, -50.0]] * 3
    >>> search = PassSearch(np.array([0.2, 0.4, 0.4]))
    >>> while not search.done:
    ...     search.take(PassEvidence.of(rows, search.at))
    >>> search.estimate().prior.round(6)
    array([0.75, 0.25, 0.  ])
    """

    at: FloatArray  # (K,) where the next pass is to be made
    best: PassEvidence | None = field(default=None, init=False)
    done: bool = field(default=False, init=False)
    passes: int = field(default=0, init=False)
    _target: FloatArray = field(init=False)
    _step: float = field(default=1.0, init=False)  # length, as a fraction of the distance to the target

    def __post_init__(self) -> None:
        self._target = self.at = inside(self.at)  # or the first step would lift classes to the edge, which costs

    def take(self, evidence: PassEvidence) -> None:
        """Take the evidence of a pass at `at`."""
        if evidence.n_rows == 0:
            raise InvalidInputError("no rows, so no evidence to estimate a prior from")
        self.passes += 1
        rise = np.inf if self.best is None else evidence.log_likelihood - self.best.log_likelihood
        if self.best is None or rise >= 0.0:
            self.best, self._step = evidence, 1.0
            self.done = _nothing_left(evidence, rise)
            if self.done:
                return
            # the quadratic model at most doubles a class that has rows of its own: from far below EM is there at once
            far_below = evidence.gap > 3.0 * evidence.n_rows
            self._target = evidence.em_prior() if far_below else evidence.next_prior()
        elif self._step <= 0.1:  # not even EM rises: the rest is rounding
            self.done = True
            return
        else:
            self._step /= 2.0  # the quadratic model overshot
        if self.passes >= MOST_PASSES:
            raise EstimationError(
                f"the most likely prior was not found in {MOST_PASSES} passes (gap {self.best.gap:.3g})"
            )
        towards = self._target - self.best.at
        self.at = inside(self.best.at + self._step * towards) if self._step > 0.1 else self.best.em_prior()

    def estimate(self, *, level: float = 0.9) -> PriorEstimate:
        """Return the estimate with its confidence interval."""
        if self.best is None or not self.done:
            raise EstimationError("the search is not finished")
        return _with_interval(self.best, level)


def estimate_by_passes(
    one_pass: Callable[[FloatArray], PassEvidence], start: PriorLike, *, level: float = 0.9
) -> PriorEstimate:
    """Repeat `one_pass` (which may run on a cluster) until the likelihood cannot rise any more."""
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    search = PassSearch(as_prior(start))
    while not search.done:
        search.take(one_pass(search.at))
    return search.estimate(level=level)


def estimate_from_rows(log_ratios: npt.ArrayLike, *, level: float = 0.9) -> PriorEstimate:
    """Return the most likely prior of a batch of log ratios, (n, K), with a confidence interval for each class.

    Of log ratios by F folds, (n, F, K), the log-likelihoods are averaged.

    >>> rows = [[0.0, 50.0]] + [[0.0, -50.0]] * 3
    >>> estimate_from_rows(rows).prior.round(6)
    array([0.75, 0.25])
    """
    if np.shape(log_ratios)[-1:] == (2,):
        return BinaryEvidence.of(log_ratios).estimate(level=level)
    rows, n_folds = by_folds(log_ratios)
    if not len(rows):
        raise InvalidInputError("no rows, so no evidence to estimate a prior from")
    start, weights = np.full(rows.shape[1], 1.0 / rows.shape[1]), np.full(len(rows), 1.0 / n_folds)
    return estimate_by_passes(lambda prior: PassEvidence.of(rows, prior, weights=weights), start, level=level)


def _nothing_left(evidence: PassEvidence, rise: float) -> bool:
    """Return whether a pass ends the search: nothing is left to gain, or little and it hardly rises."""
    edge = 2.0 * SMALLEST_PRIOR * evidence.at.size * evidence.n_rows  # what keeping every class above 0 costs
    stuck = rise <= 1e-3 * evidence.gap <= 1e-9 * evidence.n_rows  # classes that the rows hardly separate
    return evidence.gap <= edge or stuck


def _with_interval(best: PassEvidence, level: float) -> PriorEstimate:
    tail = (1.0 - require_in("level", level, 1e-6, 1.0 - 1e-6)) / 2.0
    errors = best.standard_errors()
    logits = np.log(best.at) - np.log1p(-best.at)
    widths = np.minimum(-ndtri(tail) * errors / (best.at * (1.0 - best.at)), 40.0)
    ends = expit(np.stack([logits - widths, logits + widths], axis=1))
    # where a symmetric interval would miss its coverage
    near_edge = best.at_edge | (np.isfinite(errors) & (best.at <= 2.0 * errors))
    addable = best.largest_addition(ndtri(tail) ** 2 / 2.0)
    ends[near_edge, 1] = (best.at + (1.0 - best.at) * addable)[near_edge]
    ends[best.at_edge, 0] = 0.0
    # what an absent class may still take, it takes from the others
    taken = float(addable[near_edge].max(initial=0.0))
    ends[:, 0] = np.minimum(ends[:, 0], best.at * (1.0 - taken))
    ends[:, 1] = np.maximum(ends[:, 1], best.at)
    return PriorEstimate(best.at, ends, level, round(best.n_rows))
