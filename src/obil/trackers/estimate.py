"""Hold the prevalence estimate of a batch (quantification) with its confidence interval."""

from dataclasses import dataclass
from typing import Any

from obil.arrays import FloatArray
from obil.readable import Table, as_html, as_text


@dataclass(frozen=True, slots=True, eq=False)
class PriorEstimate:
    """The prior of a batch of rows with a confidence interval for each class.

    >>> from obil.trackers.pass_search import estimate_from_rows
    >>> found = estimate_from_rows([[0.0, 9.0], [0.0, -9.0], [0.0, -9.0], [0.0, -9.0]])
    >>> found.prior.round(2), found.n_rows
    (array([0.75, 0.25]), 4)
    """

    prior: FloatArray  # (K,)
    interval: FloatArray  # (K, 2) lower and upper ends
    level: float
    n_rows: int
    classes: tuple[Any, ...] = ()  # (K,) the user's own; none where they are not known

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _table(self) -> Table:
        names = self.classes or range(len(self.prior))
        rows = [
            (f"{name!s:.60}", f"{prior:.4g}", f"{low:.4g} to {high:.4g}")
            for name, prior, (low, high) in zip(names, self.prior.tolist(), self.interval.tolist(), strict=True)
        ]
        title = f"Class prior of {self.n_rows:,} rows"
        return Table(title, ("class", "prior", f"{100 * self.level:.3g} % interval"), rows)
