"""Search for the most likely prior one pass at a time, so that many groups can share each pass over a table."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.errors import EstimationError, InvalidInputError
from obil.model.ratio_model import RatioModel
from obil.prior.confusion import confusion_of_votes, inverse_of_confusion
from obil.prior.estimate import PriorEstimate
from obil.prior.passes import SMALLEST_PRIOR, PassEvidence, estimate_by_passes

MOST_PASSES = 60
LEAST_START = 1e-3  # soft votes may say that a class is absent; the likelihood is to find that out


@dataclass(slots=True)
class PassSearch:
    """Says at which prior the next pass is to be made, and takes what it found, until nothing is left to gain.

    It walks as `estimate_by_passes` does: to the best point of the quadratic model, half as far where that
    overshot, and by an EM step where halving does not help.
    """

    at: FloatArray  # (K,) where the next pass is to be made
    best: PassEvidence | None = None
    done: bool = False
    passes: int = 0
    _target: FloatArray = field(default_factory=lambda: np.empty(0))
    _share: float = 1.0

    def take(self, evidence: PassEvidence) -> None:
        """Take the evidence of a pass at `at`."""
        self.passes += 1
        if evidence.n_rows == 0:
            raise InvalidInputError("no rows, so no evidence to estimate a prior from")
        if self.passes > MOST_PASSES:
            raise EstimationError(f"the most likely prior was not found in {MOST_PASSES} passes")
        if self.best is None or evidence.log_likelihood >= self.best.log_likelihood:
            self.best, self._share = evidence, 1.0
            self._target = evidence.next_prior()
            self.done = evidence.gap <= 2.0 * SMALLEST_PRIOR * evidence.at.size * evidence.n_rows
        elif self._share <= 0.1:  # not even EM rises: the rest is rounding
            self.done = True
        else:
            self._share /= 2.0
        step = self.best.at + self._share * (self._target - self.best.at)
        kept = np.maximum(step, SMALLEST_PRIOR)
        self.at = kept / kept.sum() if self._share > 0.1 else self.best.em_prior()

    def estimate(self, *, level: float) -> PriorEstimate:
        """Return what was found, with an interval."""
        best = self.best
        if best is None or not self.done:
            raise EstimationError("the search is not finished")
        passes = iter([best])
        no_better = replace(best, log_likelihood=-np.inf)  # whatever is tried from here on: the search has ended
        return estimate_by_passes(lambda _: next(passes, no_better), best.at, level=level)


def start_from_votes(model: RatioModel, mean_votes: npt.ArrayLike) -> FloatArray:
    """Return where to start: the mean soft vote at the training prior, unmixed by the held-out rows' (soft BBSE)."""
    votes = np.asarray(mean_votes, dtype=np.float64)
    holdout = model.holdout_
    try:
        confusion = confusion_of_votes(holdout.log_ratios, holdout.labels, prior=model.prior_, soft=True)
        votes = inverse_of_confusion(confusion, n_classes=votes.size) @ votes
    except InvalidInputError:  # votes that do not tell the classes apart: the passes start from them as they are
        pass
    inside = np.maximum(votes, LEAST_START)
    return np.asarray(inside / inside.sum())
