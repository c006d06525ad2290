"""Write percentages, odds and row numbers as a person would."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.online.reports.stream_facts import StreamFacts

MOST_SHOWN = 5  # classes of many


def quoted_name(facts: StreamFacts, k: int) -> str:
    """Return a class's name in quotes, fit to be printed."""
    text = facts.class_names[k]
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return f"'{shown:.60}'"


def ends_of(interval: FloatArray | None, k: int) -> tuple[float, float] | None:
    """Return the interval of one class, if there are any."""
    return None if interval is None else (float(interval[k, 0]), float(interval[k, 1]))


def digits_of(fraction: float) -> int:
    """Return how many digits a fraction needs after the point, in percent."""
    small = 100.0 * min(fraction, 1.0 - fraction)
    return 0 if small >= 9.95 else min(1 - math.floor(math.log10(max(small, 1e-9))), 8)


def as_percent(fraction: float) -> str:
    """Return a fraction in percent with two significant digits: 5.1 %, 0.16 %, 99.4 %."""
    return f"{100.0 * fraction:.{digits_of(fraction)}f} %"


def as_percent_range(low: float, high: float) -> str:
    """Return two fractions as a range in percent."""
    few, many = sorted((digits_of(low), digits_of(high)))
    wide = digits_of((high - low) / 2.0) + 1  # no more than it takes to see how wide it is
    digits = min(few + 1, many, wide) if low > 0.0 and high < 1.0 else 1
    return f"{100.0 * low:.{digits}f} to {100.0 * high:.{digits}f} %"


def as_odds(log_ratio: float) -> str:
    """Return a log ratio as odds.

    >>> as_odds(2.9), as_odds(0.0), as_odds(-2.0), as_odds(15.0)
    ('18:1', '1:1', '1:7.4', 'over 1,000,000:1')
    """
    size = math.exp(min(abs(log_ratio), 30.0))
    text = "over 1,000,000" if size > 1e6 else f"{size:,.0f}" if size >= 10.0 else f"{size:.2g}"
    return f"{text}:1" if log_ratio >= 0.0 else f"1:{text}"


def rounded_row(row: int, length: int) -> int:
    """Return a row to the nearest power of ten that its bucket allows."""
    step = int(10 ** math.floor(math.log10(max(length, 1))))
    return round(row / step) * step


def rounded_up(n: int) -> int:
    """Return a number of rows that is easy to remember, and no smaller."""
    step = int(10 ** max(len(str(n)) - 2, 1))
    return -(-n // step) * step


def clipped_logit(fraction: Any) -> Any:
    """Return the logit of probabilities, those of 0 and 1 kept finite."""
    inside = np.clip(fraction, 1e-12, 1.0 - 1e-12)
    return np.log(inside) - np.log1p(-inside)


def prior_text(classes: Sequence[object], prior: FloatArray) -> str:
    """Return the prior of each class, the first five of many.

    >>> prior_text(["ok", "fraud"], np.array([0.98, 0.02])), prior_text(range(9), np.full(9, 1 / 9))[-14:]
    ("{'ok': 0.98, 'fraud': 0.02}", '4: 0.111, ...}')
    """
    pairs = list(zip(classes, prior.tolist(), strict=True))[:MOST_SHOWN]
    more = ", ..." if len(classes) > MOST_SHOWN else ""
    return "{" + ", ".join(f"{name!r:.30}: {probability:.3g}" for name, probability in pairs) + more + "}"
