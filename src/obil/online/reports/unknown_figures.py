"""Answer "unknown" where no label gives a figure and its interval is too wide for an answer."""

import math
from dataclasses import replace

from obil.online.reports.performance_report import Estimate, Performance

WIDEST = 0.5  # interval of a rate that is still an answer
WIDEST_COST = 2.0  # likewise of a cost, in that cost


def with_unknown_figures(found: Performance, *, least_cost: float) -> Performance:
    """Return the figures, those without labels whose interval is too wide for an answer as unknown.

    `least_cost` is the least that a row can cost.
    """
    cost = found.cost
    return replace(
        found,
        precision=_answer(found.precision, WIDEST),
        recall=_answer(found.recall, WIDEST),
        f1=_answer(found.f1, WIDEST),
        cost=None if cost is None else _answer(cost, WIDEST_COST * (cost.value - least_cost)),
    )


def _answer(one: Estimate, widest: float) -> Estimate:
    guessed = one.source in ("expected", "both") and not math.isnan(one.value)
    return replace(one, value=math.nan, source="unknown") if guessed and one.high - one.low > widest else one
