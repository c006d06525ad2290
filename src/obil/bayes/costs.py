"""Say what decisions cost, any number of classes, and where two classes have their threshold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_prior
from obil.errors import InvalidInputError

LARGEST_COST = 1e305
LEAST_RELATIVE_COST = 1e-305  # to the largest: beyond that their ratio is not a float


@dataclass(frozen=True, slots=True, init=False)
class Costs:
    """What each decision costs: `matrix[i, j]` is the cost of deciding class i when j is true.

    Parameters
    ----------
    false_positive, false_negative
        Cost of a false alarm and of a miss (the paper's C10 and C01).
    true_positive, true_negative
        Cost of being right (C11 and C00); a review that costs money even when it finds fraud has one.

    >>> Costs(false_positive=1, false_negative=9).ratio
    0.1111111111111111
    """

    matrix: FloatArray  # (K, K)
    classes: tuple[object, ...] | None

    def __init__(
        self, *, false_positive: float, false_negative: float, true_positive: float = 0.0, true_negative: float = 0.0
    ) -> None:
        self._set([[true_negative, false_negative], [false_positive, true_positive]], None)

    @classmethod
    def from_matrix(cls, matrix: npt.ArrayLike, *, classes: Sequence[object] | None = None) -> "Costs":
        """Build costs for K classes from a matrix (rows: decided, columns: true).

        `classes` names the rows and columns; without it they are in the model's own order, and those of two
        classes are (negative, positive).

        >>> Costs.from_matrix([[0, 5, 9], [1, 0, 9], [1, 1, 0]]).n_classes
        3
        """
        costs = object.__new__(cls)
        costs._set(matrix, classes)
        return costs

    def _set(self, matrix: npt.ArrayLike, classes: Sequence[object] | None) -> None:
        try:
            values = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError(f"costs must be numbers, got {matrix!r:.80}") from None
        if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
            raise InvalidInputError(f"a cost matrix must be square with K >= 2, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise InvalidInputError(f"costs must be finite, got {values.tolist()}")
        if np.abs(values).max() > LARGEST_COST:
            raise InvalidInputError(f"costs must be at most {LARGEST_COST:g} in size, got {values.tolist()}")
        wrong = values - np.diag(values)  # (decided, true): what a wrong decision costs beyond the right one
        np.fill_diagonal(wrong, 1.0)
        if (wrong <= 0.0).any():
            decided, true = (int(index[0]) for index in np.nonzero(wrong <= 0.0))
            raise InvalidInputError(
                f"a wrong decision must cost more than the right one, got {values[decided, true]} for deciding "
                f"{decided} when {true} is true against {values[true, true]} for being right"
            )
        beyond = wrong[~np.eye(len(values), dtype=bool)]
        if beyond.min() < beyond.max() * LEAST_RELATIVE_COST:
            raise InvalidInputError(
                f"costs must be comparable, the smallest at least {LEAST_RELATIVE_COST:g} of the largest, got "
                f"{beyond.min():g} and {beyond.max():g}"
            )
        if classes is not None and len(classes) != len(values):
            raise InvalidInputError(f"classes must name all {len(values)} rows of the cost matrix, got {len(classes)}")
        values += 0.0  # -0.0 equals 0.0 and has to hash like it
        values.flags.writeable = False
        object.__setattr__(self, "matrix", values)
        object.__setattr__(self, "classes", None if classes is None else tuple(classes))

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.matrix)

    @property
    def ratio(self) -> float:
        """The cost ratio Qc = (C10 - C00) / (C01 - C11) of a binary problem: it weighs the false alarm."""
        if self.n_classes != 2:
            raise InvalidInputError(f"only a binary problem has one cost ratio, got {self.n_classes} classes")
        return float((self.matrix[1, 0] - self.matrix[0, 0]) / (self.matrix[0, 1] - self.matrix[1, 1]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Costs):
            return NotImplemented
        return self.classes == other.classes and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.matrix.tobytes(), self.classes))


EQUAL_COSTS = Costs(false_positive=1.0, false_negative=1.0)


def log_threshold(prior: PriorLike, costs: Costs = EQUAL_COSTS) -> float:
    """Return log Q = log Qc + log((1-P)/P): decide 1 where the log ratio is above it (binary).

    >>> log_threshold(0.5)
    0.0
    """
    return float(log_thresholds_at(np.log(costs.ratio), as_prior(prior, n_classes=2)[1]))


def log_thresholds_at(log_cost_ratio: float, positive_priors: FloatArray) -> FloatArray:
    """Return log Qc + log((1-P)/P): the formula itself, for a cost ratio that was worked out before."""
    thresholds: FloatArray = log_cost_ratio + np.log1p(-positive_priors) - np.log(positive_priors)
    return thresholds
