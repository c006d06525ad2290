"""Write decisions as JSON or CSV, column by column, so that a thousand rows cost little more than their digits."""

import csv
import io
import json
import math
from collections.abc import Sequence
from itertools import starmap
from typing import Any

import numpy as np
from pydantic_core import to_json

from obil.bayes.posterior import posteriors_at
from obil.service.streams.operations import Decided

_TRUTH = {True: "true", False: "false"}


class DecisionWriter:
    """Knows the classes of a model as JSON writes them; makes the answer to a request."""

    def __init__(self, classes: Sequence[Any]) -> None:
        self.classes = list(classes)
        self._labels = {label: json.dumps(label) for label in self.classes}
        self._numbers = {label: number for number, label in enumerate(self.classes)}
        # a class may be called "100 %": the template is filled in by the % operator
        keys = [json.dumps(str(label)).replace("%", "%%") for label in self.classes]
        by_class = "{" + ",".join(f"{key}:%r" for key in keys) + "}"
        self._template = (
            f'{{"id":%s,"label":%s,"probability":%r,"posterior":{by_class},"log_ratio":%s,"log_ratios":{by_class},'
            f'"prior":{by_class},"threshold":%s,"trusted":%s,"reachable":%s}}'
        )

    def positive(self, decided: Decided) -> Any:
        """Return the class that the thresholds speak of, None where a cost matrix of many classes decided."""
        number = self._positive(decided)
        return None if number is None else self.classes[number]

    def json(self, decided: Decided) -> bytes:
        """Return the whole answer."""
        head = f'{{"stream":{json.dumps(decided.stream)},"model":{json.dumps(decided.model)},'
        head = f'{head}"repeated":{_TRUTH[decided.repeated]},"decisions":'
        if len(decided.labels) == 1 and len(self.classes) == 2:
            return f"{head}[{self._template % self._one_row(decided)}]}}".encode()
        return head.encode() + to_json(self._rows(decided), inf_nan_mode="null") + b"}"

    def _rows(self, decided: Decided) -> list[dict[str, Any]]:
        n = len(self.classes)
        columns = self._columns(decided)
        posteriors, own, ratios, priors = columns[3 : 3 + n], columns[3 + n], columns[4 + n :], columns[4 + 2 * n :]
        cells = zip(
            *columns[:3], self._by_class(posteriors), own, self._by_class(ratios[:n]), self._by_class(priors[:n]),
            *columns[-3:], strict=True,
        )  # fmt: skip
        return list(starmap(_row, cells))

    def _by_class(self, columns: Sequence[Sequence[float]]) -> list[dict[str, float]]:
        names = [str(label) for label in self.classes]
        if len(names) == 2:  # what most have, at a fifth of the price
            first, second = names
            return [{first: one, second: two} for one, two in zip(*columns, strict=True)]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def csv(self, decided: Decided) -> bytes:
        """Return the decisions below a header line."""
        names = [str(label) for label in self.classes]
        header = ["id", "label", "probability", *(f"posterior_{name}" for name in names), "log_ratio"]
        header += [*(f"log_ratio_{name}" for name in names), *(f"prior_{name}" for name in names)]
        header += ["threshold", "trusted", "reachable"]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        columns = [_written(column) for column in self._columns(decided)]
        writer.writerows(zip(*columns, strict=True))
        return text.getvalue().encode()

    def _one_row(self, decided: Decided) -> tuple[Any, ...]:
        """Return the cells of a single row of two classes, without the cost of array operations."""
        ratio, (first, second) = decided.log_ratios.item(1), decided.priors[0].tolist()
        log_odds = ratio + math.log(second / first) if first > 0.0 < second else math.copysign(math.inf, second - first)
        odds = math.exp(-abs(log_odds))  # never overflows
        likely, other = 1.0 / (1.0 + odds), odds / (1.0 + odds)
        posterior = (other, likely) if log_odds > 0.0 else (likely, other)
        positive = self._positive(decided)
        own = "null" if positive is None else repr(ratio if positive == 1 else -ratio)
        probability = posterior[self._numbers[decided.labels[0]] if positive is None else positive]
        threshold = math.nan if decided.thresholds is None else decided.thresholds.item(0)
        name = decided.ids[0]
        return (
            json.dumps(name) if type(name) is str else str(name),
            self._labels[decided.labels[0]],
            probability,
            *posterior,
            own,
            0.0,
            ratio,
            first,
            second,
            repr(threshold) if math.isfinite(threshold) else "null",
            _TRUTH[decided.trusted.item(0)],
            _TRUTH[decided.reachable.item(0)],
        )

    def _columns(self, decided: Decided) -> list[Sequence[Any]]:
        ratios, n_rows, n_classes = decided.log_ratios, len(decided.labels), len(self.classes)
        posteriors = posteriors_at(ratios, decided.priors)
        by_class = posteriors.T.tolist()
        positive = self._positive(decided)
        if positive is None:
            numbers = [self._numbers[label] for label in decided.labels]
            probability = posteriors[np.arange(n_rows), numbers].tolist()
        else:
            probability = by_class[positive]
        own: Sequence[Any] = [None] * n_rows
        if n_classes == 2:
            own = (ratios[:, 1] if positive == 1 else -ratios[:, 1]).tolist()
        return [
            list(decided.ids),
            _plain(decided.labels),
            probability,
            *by_class,
            own,
            *ratios.T.tolist(),
            *decided.priors.T.tolist(),
            [None] * n_rows if decided.thresholds is None else decided.thresholds.tolist(),
            decided.trusted.tolist(),
            decided.reachable.tolist(),
        ]

    def _positive(self, decided: Decided) -> int | None:
        return 1 if decided.positive is None and len(self.classes) == 2 else decided.positive


def _row(
    id: Any,  # noqa: A002  # the word users know
    label: Any,
    probability: float,
    posterior: dict[str, float],
    log_ratio: float | None,
    log_ratios: dict[str, float],
    prior: dict[str, float],
    threshold: float | None,
    trusted: bool,
    reachable: bool,
) -> dict[str, Any]:
    return {
        "id": id,
        "label": label,
        "probability": probability,
        "posterior": posterior,
        "log_ratio": log_ratio,
        "log_ratios": log_ratios,
        "prior": prior,
        "threshold": threshold,
        "trusted": trusted,
        "reachable": reachable,
    }


def _written(column: Sequence[Any]) -> list[Any]:
    """Return cells as a table shows them: true and false, and nothing where there is no finite number."""
    return [
        _TRUTH[cell] if type(cell) is bool else "" if type(cell) is float and not math.isfinite(cell) else cell
        for cell in column
    ]


def _plain(labels: Sequence[Any]) -> Sequence[Any]:
    plain: Sequence[Any] = labels.tolist() if hasattr(labels, "tolist") else labels
    return plain
