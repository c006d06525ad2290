"""Hold what a backtest advises a tracker to start with: it travels in the model's folder."""

from dataclasses import dataclass

from obil.arrays import as_floats
from obil.errors import InvalidInputError

LEADS = ("auto", "training", "fast")
SMALLEST_WEIGHT = 1e-6


@dataclass(frozen=True, slots=True)
class TrackerAdvice:
    """What leads a `SafeTracker` before any label comes, and how its experts are weighed when the first does.

    >>> TrackerAdvice("fast").start_weights is None  # those of every tracker
    True
    """

    lead: str  # "auto", "training" or "fast"
    start_weights: tuple[float, ...] | None = None  # of each expert, summing to 1

    def __post_init__(self) -> None:
        if self.lead not in LEADS:
            raise InvalidInputError(f"lead must be one of {', '.join(LEADS)}, got {self.lead!r:.40}")
        if self.start_weights is None:
            return
        weights = as_floats(self.start_weights, "start_weights")
        if weights.ndim != 1 or not (weights >= SMALLEST_WEIGHT).all() or not abs(weights.sum() - 1.0) <= 1e-6:
            raise InvalidInputError(f"start_weights must be positive and sum to 1, got {self.start_weights!r:.120}")
        object.__setattr__(self, "start_weights", tuple(weights.tolist()))
