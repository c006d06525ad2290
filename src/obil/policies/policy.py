"""Define what a policy is: settings that, bound to held-out rows, turn a prior into a threshold."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, as_floats
from obil.errors import InvalidInputError
from obil.serving.holdout import Holdout


class BoundPolicy(Protocol):
    """A policy that has read its held-out rows: O(1) from the prior of the positive class to a threshold.

    Decide positive where the log ratio of the positive class against the rest is *above* the threshold;
    +inf alerts nothing, -inf alerts everything.

    >>> from obil.policies import CostPolicy
    >>> CostPolicy().bind(None).log_threshold(0.5)  # equal costs, equal priors
    0.0
    """

    def log_threshold(self, positive_prior: float) -> float:
        """Return the log threshold at one prior, bit for bit that of `log_thresholds`, without the arrays."""

    def log_thresholds(self, positive_priors: npt.ArrayLike) -> FloatArray:
        """Return the log threshold at each prior (n,) of the positive class, (n,)."""

    def reachable(self, positive_priors: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return where some threshold meets the policy, (n,); where none does, nothing is alerted."""


@runtime_checkable
class Policy(Protocol):
    """A frozen, comparable record of settings.

    >>> from obil.policies import RecallFloor
    >>> RecallFloor(0.9).name
    'recall'
    """

    @property
    def name(self) -> str:
        """The name it has in files and on the command line."""

    def bind(self, holdout: Holdout | None, *, positive: int | None = None) -> BoundPolicy:
        """Read the held-out rows once; `positive` is the class number to alert (1 if there are two)."""

    def to_json(self) -> dict[str, Any]:
        """Return the name and the settings as plain JSON values; `policy_from_json` reads them."""


def as_positive_prior(value: float) -> float:
    """Return one prior of the positive class, in [0, 1]."""
    number = float(value)
    if not 0.0 <= number <= 1.0:  # refuses NaN too
        raise InvalidInputError(f"the positive prior must lie in [0, 1], got {value!r}")
    return number


def as_positive_priors(values: npt.ArrayLike) -> FloatArray:
    """Return priors of the positive class as a contiguous array (n,) in [0, 1]."""
    priors = np.ascontiguousarray(as_floats(values, "positive_priors"))
    if np.ndim(values) != 1:
        raise InvalidInputError(f"positive_priors must have shape (n,), got {np.shape(values)}")
    if not ((priors >= 0.0) & (priors <= 1.0)).all():
        raise InvalidInputError("positive_priors must lie in [0, 1]")
    return priors
