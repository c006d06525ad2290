"""Hold the result of a backtest: every method's figures, the recommendation, and both as text or HTML."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from obil.arrays import FloatArray
from obil.evaluation.backtest_advice import STATIC, TITLES, Recommendation, Replayed
from obil.evaluation.stream_changes import StreamChanges
from obil.readable import Table, as_html, as_text

FIGURES = ("method", "cost", "log_loss", "prior_error", "cost_ratio", "log_loss_ratio")
LABEL_DRAWS = 8  # that the method with labels is replayed with: which labels come is chance, too


@dataclass(frozen=True, slots=True, eq=False)
class Backtest:
    """What each method of knowing the prior would have done on the later of the labelled rows.

    `found["bank"]` is one of them by name; `[one.method for one in found.methods]` are all. It prints as a table.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from obil import RatioClassifier, backtest
    >>> y = (np.arange(2_000) % 5 == 0).astype(int)
    >>> X = np.random.default_rng(0).normal(2.0 * y)[:, None]
    >>> found = backtest(RatioClassifier(LogisticRegression()), X, y, time=np.arange(2_000))
    >>> found.n_earlier + found.n_later
    2000
    """

    classes: tuple[object, ...]
    n_earlier: int  # rows that were fitted on
    n_later: int  # rows that were replayed
    n_labels: int  # labels that came in time for the method that uses them
    label_rate: float
    label_delay: int
    methods: tuple[Replayed, ...]
    recommendation: Recommendation
    changes: StreamChanges  # between the held-out earlier rows and the later ones
    truth: FloatArray  # (n, K) local class prior at each of the later rows
    window: int  # rows around each that the local prior is counted in: as many as predict the labels best
    truth_error: float  # of the local prior by chance: a prior error below it is noise
    priors: Mapping[str, FloatArray]  # estimated prevalence before each row, (n, K); with labels read every 20 rows

    def __getitem__(self, method: str) -> Replayed:
        for one in self.methods:
            if one.method == method:
                return one
        raise KeyError(f"method must be one of {[one.method for one in self.methods]}, got {method!r:.40}")

    def __str__(self) -> str:
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    @property
    def rows_around(self) -> str:
        """The rows that the local prior of a row is counted in, as text."""
        return "all of these rows" if self.window >= self.n_later else f"the {self.window:,} rows around each"

    def to_json(self) -> dict[str, Any]:
        """Return all but the paths of the priors as JSON values."""
        advised = self.recommendation
        return {
            "classes": list(self.classes),
            "rows": {"earlier": self.n_earlier, "later": self.n_later},
            "labels": {"rate": self.label_rate, "delay": self.label_delay, "came": self.n_labels, "draws": LABEL_DRAWS},
            "local_prior": {"rows": self.window, "error": self.truth_error},
            "methods": [
                {field: getattr(one, field) for field in FIGURES}
                | {"log_loss_excess": one.excess.mean, "log_loss_excess_error": one.excess.standard_error}
                for one in self.methods
            ],
            "changes": self.changes.to_json(),
            "recommendation": asdict(advised) | {"start_weights": list(advised.start_weights)},
        }

    def _table(self) -> Table:
        return Table(
            f"Backtest: fitted on {self.n_earlier:,} rows, replayed {self.n_later:,}",
            ("method", "cost", "change", "log loss", "change", "prior error"),
            [
                (
                    TITLES[one.method],
                    f"{one.cost:.4f}",
                    change(one, one.cost_ratio),
                    f"{one.log_loss:.4f}",
                    change(one, one.log_loss_ratio),
                    f"{one.prior_error:.4f}",
                )
                for one in self.methods
            ],
            [self.changes.sentence, self.recommendation.sentence],
        )


def change(one: Replayed, ratio: float | None) -> str:
    """Return a ratio to not adapting as a change in percent; not adapting itself has none."""
    return "" if one.method == STATIC or ratio is None else f"{100.0 * (ratio - 1.0):+.1f} %"
