"""Say what a row of the table of claims is: a claim, its measurement, and a verdict that follows from the figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Settings = dict[str, Any]
Figures = dict[str, float]

HOLDS = "holds"
CORRECTED = "holds with a correction"
NOT_AS_STATED = "not as stated"
FAILS = "fails"
VERDICTS = (HOLDS, CORRECTED, NOT_AS_STATED, FAILS)


class Measured(NamedTuple):
    """What a measurement gives: named numbers, and curves to draw."""

    figures: Figures
    curves: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One claim. `verdict` begins with one of `VERDICTS`, chosen by the figures, so that it cannot outlive them."""

    name: str
    covers: tuple[str, ...]  # labels of the paper, or a name where it gives none
    claim: str
    measure: Callable[[Settings], Measured]
    measured: Callable[[Figures, Settings], str]
    verdict: Callable[[Figures], str]
    shown_by: tuple[str, ...] = ()  # tests, below tests/


def judged(verdict: str, reason: str) -> str:
    """Return a verdict with its reason."""
    return f"**{verdict}**: {reason}"


def short(value: float) -> str:
    """Return a number with as few digits as it needs to be read.

    >>> short(0.01), short(12345.6), short(3e-15)
    ('0.01', '12,346', '3e-15')
    """
    if abs(value) >= 1_000.0:
        return f"{value:,.0f}"
    return f"{value:.2e}".replace(".00e", "e") if 0.0 < abs(value) < 1e-4 else f"{value:.3g}"


def listed(figures: Figures, stem: str, keys: Sequence[object]) -> str:
    """Return the figures `stem.key` of each key, parted by commas."""
    return ", ".join(short(figures[f"{stem}.{key}"]) for key in keys)


def named(values: Sequence[float]) -> str:
    """Return settings as a list to read: '0.01, 0.05 and 0.2'."""
    text = [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in values]
    return text[0] if len(text) == 1 else ", ".join(text[:-1]) + " and " + text[-1]
