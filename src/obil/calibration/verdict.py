"""Record what the gate decided and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from obil.readable import JsonRecord, Table, as_html, as_text

Judgement: TypeAlias = Literal["deploy", "warn", "refuse", "too few"]


@dataclass(frozen=True, slots=True)
class Figure(JsonRecord):
    """One measured figure with what it is held against."""

    value: float
    allowed: float
    refused: float  # beyond this it is refused, not only warned of
    chance: float  # a calibrated model of this size stays below it

    @property
    def counts(self) -> bool:
        """Whether it counts against the model: beyond what is allowed and beyond chance.

        >>> Figure(value=0.4, allowed=0.35, refused=0.7, chance=0.5).counts
        False
        """
        return self.value > max(self.allowed, self.chance)

    @property
    def refuses(self) -> bool:
        """Whether it is bad enough to refuse the model."""
        return self.value > max(self.refused, self.chance)


@dataclass(frozen=True, slots=True)
class Verdict(JsonRecord):
    """What the gate decided: one plain sentence, the reasons one by one, and the figures behind them.

    >>> Verdict("deploy", "Deploy: calibrated as far as 500 rows tell.", (), {}).decision
    'deploy'
    """

    decision: Judgement
    sentence: str
    reasons: tuple[str, ...]
    figures: Mapping[str, Figure] = field(hash=False)

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        figures = [
            (name, *(f"{number:.3f}" for number in (figure.value, figure.allowed, figure.refused, figure.chance)))
            for name, figure in self.figures.items()
        ]
        header = ("figure", "found", "allowed", "refused above", "chance alone")
        return Table(f"Verdict: {self.decision}", header, figures, [self.sentence, *self.reasons[1:]])
