"""Write a calibrated posterior and the decision at a prior as SQL expressions over a score column.

The public interface is `sql_expressions` and the record that it returns.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from obil.arrays import FloatArray, PriorLike
from obil.errors import InvalidInputError
from obil.online.decision_rule import DecisionRule
from obil.policies import Policy
from obil.serving.calibrators import LinearCalibrator, MonotoneCalibrator
from obil.serving.ratio_model import as_ratio_model, class_named
from obil.serving.scorers import PROBABILITY, ColumnScorer

__all__ = ["SqlExpressions", "sql_expressions"]

FLOATS = {"duckdb": "DOUBLE", "postgres": "DOUBLE PRECISION", "bigquery": "FLOAT64"}
LONGEST_NAME = {"duckdb": 255, "postgres": 63, "bigquery": 300}  # bytes; PostgreSQL cuts longer ones silently
LARGEST_MARGIN = 1e300
LARGEST_EXPONENT = 700.0  # of e in double precision


@dataclass(frozen=True, slots=True)
class SqlExpressions:
    """SQL expressions over one score column; each is NULL where the score is NULL, NaN or out of range.

    >>> print(SqlExpressions("a", "b", "c").select_list())
    a AS log_ratio,
      b AS posterior,
      c AS alert
    """

    log_ratio: str  # the calibrated log-likelihood ratio
    posterior: str  # P(positive | score) at the prior
    alert: str  # whether the positive class is decided: TRUE or FALSE

    def select_list(self) -> str:
        """Return the expressions with their names, to stand after SELECT."""
        return f"{self.log_ratio} AS log_ratio,\n  {self.posterior} AS posterior,\n  {self.alert} AS alert"


def sql_expressions(
    model: Any,
    score: str,
    *,
    prior: PriorLike | None = None,
    dialect: str = "duckdb",
    policy: Policy | str | None = None,
    positive: Any = None,
) -> SqlExpressions:
    """Return log ratio, posterior and decision of a model of scores as SQL over the column `score`.

    Parameters
    ----------
    model : RatioClassifier or RatioModel
        One that calibrates a score: `RatioClassifier.from_scores`, or a folder of `obil fit --score`.
    score
        The column; it is quoted, so any name that the dialect can hold will do.
    prior
        The prior to decide at; that of training if None.
    dialect
        "duckdb", "postgres" or "bigquery".
    policy, positive
        As in `OnlineClassifier`.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10)
    >>> print(sql_expressions(model, "risk", prior=0.02).alert.partition(" THEN ")[0])
    CASE WHEN CAST("risk" AS DOUBLE) BETWEEN (-1e+300) AND 1e+300
    """
    fitted = as_ratio_model(model)
    scorer = fitted.scorer
    if fitted.n_classes != 2 or not isinstance(scorer, ColumnScorer):
        raise InvalidInputError(
            f"SQL needs a model that calibrates one score of two classes, got {fitted!r:.80}: make one by "
            "RatioClassifier.from_scores or obil fit --score"
        )
    if dialect not in FLOATS:
        raise InvalidInputError(f"dialect must be one of {', '.join(FLOATS)}, got {dialect!r:.40}")
    column = f"CAST({quoted(score, dialect)} AS {FLOATS[dialect]})"
    place = 1 if positive is None else class_named(positive, fitted.classes_)
    rule = DecisionRule(fitted, policy, place)
    at = fitted.prior_ if prior is None else fitted.as_prior(prior)
    raw, low, high = column, -LARGEST_MARGIN, LARGEST_MARGIN
    if scorer.link == PROBABILITY:
        low, high = 0.0, 1.0
        floor = _number(max(scorer.floor, 1e-300))
        raw = (
            f"(LN(GREATEST({column}, {floor})) - LN(GREATEST(1.0 - {column}, {floor})) - "
            f"{_number(_log_odds(scorer.training_prior))})"
        )
    ratio = _calibrated(raw, fitted.calibrator)
    exponent = f"({ratio} + {_number(_log_odds(at))})"
    clamped = f"LEAST(GREATEST({exponent}, {_number(-LARGEST_EXPONENT)}), {_number(LARGEST_EXPONENT)})"
    sign = "-" if place == 1 else ""
    threshold = rule.log_threshold(at)
    assert threshold is not None  # two classes always have one
    own = ratio if place == 1 else f"(-{ratio})"
    alert = (
        f"{own} > {_number(threshold)}" if abs(threshold) < LARGEST_MARGIN else ("FALSE" if threshold > 0 else "TRUE")
    )
    inside = f"{column} BETWEEN {_number(low)} AND {_number(high)}"  # neither NULL nor NaN is
    return SqlExpressions(
        *(f"CASE WHEN {inside} THEN {value} END" for value in (ratio, f"1.0 / (1.0 + EXP({sign}({clamped})))", alert))
    )


def quoted(name: str, dialect: str) -> str:
    """Return an identifier as the dialect quotes it, or refuse one that it cannot hold.

    >>> print(quoted("a b", "postgres"))
    "a b"
    """
    if not name or "\0" in name or len(name.encode()) > LONGEST_NAME[dialect]:
        raise InvalidInputError(
            f"a column name of {dialect} must be a text of 1 to {LONGEST_NAME[dialect]} bytes without NUL, got "
            f"{name!r:.60}"
        )
    if dialect == "bigquery":
        if not name.isprintable() or "." in name:  # a point would part a table from its column
            raise InvalidInputError(
                f"a column name of bigquery must be printable and without a point, got {name!r:.60}"
            )
        escaped = name.replace("\\", "\\\\").replace("`", "\\`")
        return f"`{escaped}`"
    return '"' + name.replace('"', '""') + '"'


def _calibrated(raw: str, calibrator: Any) -> str:
    """Return the expression of the log ratio of a raw score."""
    if isinstance(calibrator, LinearCalibrator):
        return f"({_number(calibrator.slopes[1])} * {raw} + {_number(calibrator.offsets[1])})"
    if not isinstance(calibrator, MonotoneCalibrator):
        raise InvalidInputError(
            f"SQL knows affine, temperature, spline and isotonic calibration, got {type(calibrator).__name__}"
        )
    knots, values, tail = calibrator.knots.tolist(), calibrator.values.tolist(), calibrator.tail_slope
    parts = [f"WHEN {raw} < {_number(knots[0])} THEN {_line(raw, knots[0], values[0], tail)}"]
    for (start, end), (low, high) in zip(pairwise(knots), pairwise(values), strict=True):
        slope = (high - low) / (end - start)
        parts.append(f"WHEN {raw} < {_number(end)} THEN {_line(raw, start, low, slope)}")
    return f"(CASE {' '.join(parts)} ELSE {_line(raw, knots[-1], values[-1], tail)} END)"


def _line(raw: str, knot: float, value: float, slope: float) -> str:
    return f"{_number(value)} + {_number(slope)} * ({raw} - {_number(knot)})"


def _number(value: float) -> str:
    """Return a double-precision literal, in parentheses if it is negative: `--` starts a comment."""
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def _log_odds(prior: FloatArray) -> float:
    return math.log(prior[1]) - math.log(prior[0])
