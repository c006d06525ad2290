"""Say what the prior of a batch is, and how sure that is."""

from dataclasses import dataclass

from obil.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate:
    """The prior of a batch of rows with an interval for each class."""

    prior: FloatArray  # (K,)
    interval: FloatArray  # (K, 2) lower and upper ends
    level: float
    n_rows: int
