"""Write decisions as JSON or CSV, column by column, so that a thousand rows cost little more than their digits."""

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.posterior import posteriors_at
from obil.service.operations import Decided

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
        template = self._template
        rows = ",".join([template % row for row in zip(*self._columns(decided), strict=True)])
        head = f'{{"stream":{json.dumps(decided.stream)},"model":{json.dumps(decided.model)},'
        return f'{head}"repeated":{_TRUTH[decided.repeated]},"decisions":[{rows}]}}'.encode()

    def csv(self, decided: Decided) -> bytes:
        """Return the decisions below a header line."""
        names = [str(label) for label in self.classes]
        header = ["id", "label", "probability", *(f"posterior_{name}" for name in names), "log_ratio"]
        header += [*(f"log_ratio_{name}" for name in names), *(f"prior_{name}" for name in names)]
        header += ["threshold", "trusted", "reachable"]
        columns = self._columns(decided)
        columns[0] = list(decided.ids)
        columns[1] = _plain(decided.labels)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        empty = {"null": ""}
        writer.writerows([empty.get(cell, cell) if type(cell) is str else cell for cell in row]
                         for row in zip(*columns, strict=True))  # fmt: skip
        return text.getvalue().encode()

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
        own: Sequence[Any] = ["null"] * n_rows
        if n_classes == 2:
            own = _numbers(ratios[:, 1] if positive == 1 else -ratios[:, 1])
        labels = self._labels
        return [
            [json.dumps(name) if type(name) is str else str(name) for name in decided.ids],
            [labels[label] for label in decided.labels],
            probability,
            *by_class,
            own,
            *ratios.T.tolist(),
            *decided.priors.T.tolist(),
            ["null"] * n_rows if decided.thresholds is None else _numbers(decided.thresholds),
            [_TRUTH[one] for one in decided.trusted.tolist()],
            [_TRUTH[one] for one in decided.reachable.tolist()],
        ]

    def _positive(self, decided: Decided) -> int | None:
        return 1 if decided.positive is None and len(self.classes) == 2 else decided.positive


def _numbers(values: FloatArray) -> list[str]:
    """Return numbers as JSON writes them; an infinite threshold alerts nothing, or all, and is null."""
    return [repr(value) if math.isfinite(value) else "null" for value in values.tolist()]


def _plain(labels: Sequence[Any]) -> Sequence[Any]:
    plain: Sequence[Any] = labels.tolist() if hasattr(labels, "tolist") else labels
    return plain
