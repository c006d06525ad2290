"""Write responses: records as JSON, decisions as JSON or CSV."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from fastapi import Response
from pydantic_core import to_json

from obil.arrays import FloatArray
from obil.online.decision import Decisions
from obil.service.streams.operations import Decided


def json_bytes(value: Any) -> bytes:
    """Return records and plain values as JSON; numbers that JSON does not have become null.

    >>> json_bytes({"threshold": float("inf")})
    b'{"threshold":null}'
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(json_bytes(value), status, media_type="application/json")


def time_text(seconds: float) -> str:
    """Return a time, in seconds since 1970, as ISO 8601 in UTC.

    >>> time_text(0.0)
    '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class DecisionWriter:
    """Writes decisions, with the class names of one model; column by column, so that many rows cost little."""

    def __init__(self, classes: Sequence[Any]) -> None:
        self._names = [str(label) for label in classes]

    def json(self, decided: Decided) -> bytes:
        """Return the decisions, with the stream and the version of the model."""
        head = {"stream": decided.stream, "model": decided.model, "repeated": decided.repeated}
        return to_json(head | {"decisions": self.rows(decided.decisions)}, inf_nan_mode="null")

    def rows(self, decisions: Decisions) -> list[dict[str, Any]]:
        """Return the decisions as plain values, one record per row."""
        by_class = map(self._by_class, (decisions.posteriors, decisions.log_ratios, decisions.effective_priors))
        first, last = _columns(decisions)
        return [
            {
                "id": id, "label": label, "probability": probability, "posterior": posterior, "log_ratio": log_ratio,
                "log_ratios": log_ratios, "effective_prior": prior, "threshold": threshold, "trusted": trusted,
                "reachable": reachable,
            }
            for id, label, probability, log_ratio, posterior, log_ratios, prior, threshold, trusted, reachable in zip(  # noqa: A001
                *first, *by_class, *last, strict=True
            )
        ]  # fmt: skip

    def csv(self, decided: Decided) -> bytes:
        """Return the decisions as a table with a header."""
        one = decided.decisions
        (ids, labels, probability, log_ratio), last = _columns(one)
        table = {"id": ids, "label": labels, "probability": probability}
        table |= self._columns_of("posterior", one.posteriors) | {"log_ratio": log_ratio}
        table |= self._columns_of("log_ratio", one.log_ratios) | self._columns_of(
            "effective_prior", one.effective_priors
        )
        table |= dict(zip(("threshold", "trusted", "reachable"), last, strict=True))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*([_csv_cell(cell) for cell in column] for column in table.values()), strict=True))
        return text.getvalue().encode()

    def _columns_of(self, quantity: str, values: FloatArray) -> dict[str, Sequence[Any]]:
        return {f"{quantity}_{name}": column for name, column in zip(self._names, values.T.tolist(), strict=True)}

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


def _csv_cell(cell: Any) -> Any:
    """Return a cell as CSV has it: true or false, and nothing where there is no finite number."""
    if type(cell) is bool:
        return "true" if cell else "false"
    return "" if type(cell) is float and not math.isfinite(cell) else cell


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return time_text(value.timestamp())
    if is_dataclass(value):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return _plain(value.tolist())
    return [_plain(inner) for inner in value]
