"""Look thresholds up: a table over the logit of the prior, computed once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.policies.policy import as_positive_prior, as_positive_priors

# The logit of the prior runs from -14 (one in a million) to 14 in steps of 1/20; beyond, the ends hold.
LOGIT_END = 14.0
CELLS_PER_LOGIT = 20.0
N_CELLS = 560


def grid_priors() -> FloatArray:
    """Return the priors a table is computed at, evenly spaced in the logit, (561,).

    >>> float(grid_priors()[280])
    0.5
    """
    grid: FloatArray = np.asarray(expit(np.arange(N_CELLS + 1) / CELLS_PER_LOGIT - LOGIT_END))
    return grid


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdTable:
    """Straight lines in the logit of the prior; beside an infinite entry, the higher of the two.

    So a floor that is out of reach at either neighbour alerts nothing.

    >>> table = ThresholdTable.of(np.full(561, 1.5))
    >>> table.log_thresholds([0.01, 0.5])
    array([1.5, 1.5])
    >>> table.reachable([0.01, 0.5])
    array([ True,  True])
    """

    starts: FloatArray  # (560,) the threshold at the lower end of each cell
    slopes: FloatArray  # (560,) what it gains to the upper end

    @classmethod
    def of(cls, log_thresholds: FloatArray) -> "ThresholdTable":
        """Build the table from the thresholds at `grid_priors()`, (561,)."""
        if log_thresholds.shape != (N_CELLS + 1,) or np.isnan(log_thresholds).any():
            raise InvalidInputError(f"a table holds {N_CELLS + 1} thresholds, none NaN, got {log_thresholds.shape}")
        lower, upper = log_thresholds[:-1], log_thresholds[1:]
        with np.errstate(invalid="ignore", over="ignore"):
            slopes = upper - lower
        straight = np.isfinite(slopes)
        return cls(np.where(straight, lower, np.maximum(lower, upper)), np.where(straight, slopes, 0.0))

    def log_threshold(self, positive_prior: float) -> float:
        """Return the log threshold at one prior of the positive class."""
        place = (float(logit(as_positive_prior(positive_prior))) + LOGIT_END) * CELLS_PER_LOGIT
        place = min(max(place, 0.0), float(N_CELLS))
        cell = min(int(place), N_CELLS - 1)
        return float(self.starts[cell]) + (place - cell) * float(self.slopes[cell])

    def log_thresholds(self, positive_priors: npt.ArrayLike) -> FloatArray:
        """Return the log threshold at each prior (n,) of the positive class, (n,)."""
        places = (logit(as_positive_priors(positive_priors)) + LOGIT_END) * CELLS_PER_LOGIT
        places = np.minimum(np.maximum(places, 0.0), float(N_CELLS))
        cells = np.minimum(places.astype(np.int64), N_CELLS - 1)
        found: FloatArray = self.starts[cells] + (places - cells) * self.slopes[cells]
        return found

    def reachable(self, positive_priors: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return where some threshold meets the policy, (n,)."""
        return self.log_thresholds(positive_priors) < np.inf
