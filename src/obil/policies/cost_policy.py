"""Threshold at least expected cost: closed form, no held-out rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray
from obil.bayes.costs import EQUAL_COSTS, Costs, log_thresholds_at
from obil.bayes.one_vs_rest import positive_class
from obil.errors import InvalidInputError
from obil.policies.policy import as_positive_prior, as_positive_priors
from obil.serving.holdout import Holdout


@dataclass(frozen=True, slots=True)
class CostThreshold:
    """log Q = log Qc + log((1-P)/P), with the bits of `obil.bayes.costs.log_threshold`."""

    log_cost_ratio: float

    def log_threshold(self, positive_prior: float) -> float:
        """Return the log threshold at one prior of the positive class."""
        if 0.0 < positive_prior < 1.0:
            return float(log_thresholds_at(self.log_cost_ratio, np.float64(positive_prior)))  # type: ignore[arg-type]  # a scalar, for speed
        return float(self._closed_form(as_positive_prior(positive_prior)))

    def log_thresholds(self, positive_priors: npt.ArrayLike) -> FloatArray:
        """Return the log threshold at each prior (n,) of the positive class, (n,)."""
        return self._closed_form(as_positive_priors(positive_priors))

    def reachable(self, positive_priors: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return True at every prior, (n,): one decision is always the cheapest."""
        return np.ones(len(as_positive_priors(positive_priors)), dtype=np.bool_)

    def _closed_form(self, positive: float | FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):  # a class that never comes is never worth an alert
            return log_thresholds_at(self.log_cost_ratio, np.asarray(positive, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class CostPolicy:
    """Decide by what decisions cost.

    Two classes have a threshold: row and column 1 of `costs` are the positive class, whichever class number is
    bound as positive. A matrix over K > 2 classes has none: `OnlineClassifier` decides by the expected cost.

    >>> CostPolicy(Costs(false_positive=1, false_negative=1)).bind(None).log_thresholds([0.5])
    array([0.])
    """

    costs: Costs = EQUAL_COSTS
    name: ClassVar[str] = "cost"

    def __post_init__(self) -> None:
        if not isinstance(self.costs, Costs):
            raise InvalidInputError(f"costs must be an obil.Costs, got {self.costs!r:.40}")

    def bind(self, holdout: Holdout | None = None, *, positive: int | None = None) -> CostThreshold:
        """Return the closed form; held-out rows are not needed and tell only the number of classes."""
        if self.costs.n_classes > 2:
            found = f"a cost matrix over {self.costs.n_classes} classes has no single threshold"
            raise InvalidInputError(f"{found}: leave out positive=, or give the costs of two classes")
        if holdout is not None:
            positive_class(positive, n_classes=holdout.n_classes)
        return CostThreshold(float(np.log(self.costs.ratio)))

    def to_json(self) -> dict[str, Any]:
        """Return the name, the matrix and the class names as plain JSON values."""
        names = self.costs.classes
        return {
            "name": self.name,
            "matrix": self.costs.matrix.tolist(),
            "classes": None if names is None else [_plain(name) for name in names],
        }

    @classmethod
    def from_json(cls, settings: dict[str, Any]) -> "CostPolicy":
        """Return the policy whose settings, all but the name, these are."""
        if set(settings) != {"matrix", "classes"}:
            raise InvalidInputError(f"the policy 'cost' must hold 'matrix' and 'classes', got {list(settings)!r:.80}")
        names = settings["classes"]
        if names is not None and not isinstance(names, list):
            raise InvalidInputError(f"classes must be a list or null, got {names!r:.40}")
        return cls(Costs.from_matrix(settings["matrix"], classes=names))


def _plain(name: object) -> object:
    plain = name.item() if isinstance(name, np.generic) else name
    if not isinstance(plain, str | int | float | bool):
        raise InvalidInputError(f"class names must be strings or numbers to be saved, got {name!r:.40}")
    return plain
