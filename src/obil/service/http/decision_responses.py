"""Write decisions as JSON or CSV, column by column, so that many rows cost little."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic_core import to_json

from obil.arrays import FloatArray
from obil.online.decision import Decisions
from obil.service.streams.operations import Decided


class DecisionWriter:
    """Writes the responses to requests, with the class names of one model."""

    def __init__(self, classes: Sequence[Any]) -> None:
        self._names = [str(label) for label in classes]

    def json(self, decided: Decided) -> bytes:
        """Return the decisions, with the stream and the version of the model."""
        one = decided.decisions
        by_class = map(self._by_class, (one.posteriors, one.log_ratios, one.priors))
        first, last = _columns(one)
        rows = [
            {
                "id": id, "label": label, "probability": probability, "posterior": posterior, "log_ratio": log_ratio,
                "log_ratios": log_ratios, "prior": prior, "threshold": threshold, "trusted": trusted,
                "reachable": reachable,
            }
            for id, label, probability, log_ratio, posterior, log_ratios, prior, threshold, trusted, reachable in zip(  # noqa: A001
                *first, *by_class, *last, strict=True
            )
        ]  # fmt: skip
        head = {"stream": decided.stream, "model": decided.model, "repeated": decided.repeated}
        return to_json(head | {"decisions": rows}, inf_nan_mode="null")

    def csv(self, decided: Decided) -> bytes:
        """Return the decisions as a table with a header."""
        one = decided.decisions
        (ids, labels, probability, log_ratio), last = _columns(one)
        posteriors, log_ratios, priors = (
            {f"{quantity}_{name}": column for name, column in zip(self._names, values.T.tolist(), strict=True)}
            for quantity, values in (
                ("posterior", one.posteriors),
                ("log_ratio", one.log_ratios),
                ("prior", one.priors),
            )
        )
        table = {"id": ids, "label": labels, "probability": probability, **posteriors, "log_ratio": log_ratio}
        table |= {**log_ratios, **priors} | dict(zip(("threshold", "trusted", "reachable"), last, strict=True))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*map(_csv_cells, table.values()), strict=True))
        return text.getvalue().encode()

    def _by_class(self, values: FloatArray) -> list[dict[str, float]]:
        if len(self._names) == 2:  # the usual case, five times faster
            first, second = self._names
            return [{first: one, second: two} for one, two in values.tolist()]
        return [dict(zip(self._names, row, strict=True)) for row in values.tolist()]


def _columns(decisions: Decisions) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
    """Return the columns before and after those by class."""
    n_rows, positive = len(decisions), decisions.positive
    chosen = decisions.numbers if positive is None else positive
    log_ratio: Sequence[Any] = [None] * n_rows
    if len(decisions.classes) == 2:
        log_ratio = (decisions.log_ratios[:, 1] if positive == 1 else -decisions.log_ratios[:, 1]).tolist()
    thresholds = [None] * n_rows if decisions.thresholds is None else decisions.thresholds.tolist()
    probability = decisions.posteriors[np.arange(n_rows), chosen].tolist()
    return (
        [list(decisions.ids), decisions.labels.tolist(), probability, log_ratio],
        [thresholds, decisions.trusted.tolist(), decisions.reachable.tolist()],
    )


def _csv_cells(column: Sequence[Any]) -> list[Any]:
    """Return cells as CSV has them: true and false, and nothing where there is no finite number."""
    return [
        ("false", "true")[cell]
        if type(cell) is bool
        else ""
        if type(cell) is float and not math.isfinite(cell)
        else cell
        for cell in column
    ]
