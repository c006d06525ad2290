"""Say what the prior of a batch is, and how sure that is."""

from dataclasses import dataclass

from obil.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate:
    """The prior of a batch of rows with an interval for each class.

    >>> from obil.trackers.pass_search import estimate_from_rows
    >>> found = estimate_from_rows([[0.0, 9.0], [0.0, -9.0], [0.0, -9.0], [0.0, -9.0]])
    >>> found.prior.round(2), found.n_rows
    (array([0.75, 0.25]), 4)
    """

    prior: FloatArray  # (K,)
    interval: FloatArray  # (K, 2) lower and upper ends
    level: float
    n_rows: int
