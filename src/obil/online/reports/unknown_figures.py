"""Answer "unknown" where no label gives a figure and its interval is too wide for an answer."""

import math
from dataclasses import replace

from obil.online.reports.performance_report import Estimate, Performance

WIDEST = 0.5  # interval of a rate that is still an answer
WIDEST_COST = 2.0  # likewise of a cost, in the size of that cost


def with_unknown_figures(found: Performance, *, least_cost: float) -> Performance:
    """Return the figures, those without labels whose interval is too wide for an answer as unknown.

    F1 is no better known than precision and recall, which it is made of. `least_cost` is the least that a row can cost.
    """
    precision, recall, cost = _answer(found.precision, WIDEST), _answer(found.recall, WIDEST), found.cost
    f1 = _unknown(found.f1) if "unknown" in (precision.source, recall.source) else _answer(found.f1, WIDEST)
    return replace(
        found,
        precision=precision,
        recall=recall,
        f1=f1,
        cost=None if cost is None else _answer(cost, WIDEST_COST * _size(cost.value, least_cost)),
    )


def _size(cost: float, least_cost: float) -> float:
    """Return the size of a cost, counted from 0 or from the least that a row can cost, whichever is nearer.

    Where right decisions cost something, that part is no reason for a wide interval. Where they earn something, gains
    and losses may nearly cancel, and the distance from the most that a row can earn would allow any interval.
    """
    return min(abs(cost), cost - least_cost)


def _answer(one: Estimate, widest: float) -> Estimate:
    guessed = one.source in ("expected", "both") and not math.isnan(one.value)
    return _unknown(one) if guessed and one.high - one.low > widest else one


def _unknown(one: Estimate) -> Estimate:
    return replace(one, value=math.nan, source="unknown")
