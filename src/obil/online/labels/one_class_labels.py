"""Notice labels that are all of one class though the scores expect others: then only that class is reported."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from obil.arrays import FloatArray
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidStateError
from obil.trackers import PriorTracker, SafeTracker

FEWEST_LABELS = 20
# If the scores are right and labels come at random, 5 expected and none found has a chance of 1 in 150.
FEWEST_EXPECTED = 5.0
MOST_ROWS, MOST_NUMBERS = 64, 1_600  # of labelled rows that are kept to look at


class OneClass(NamedTuple):
    """Labels that are all of one class, and how many others the scores expect."""

    label: int  # the class
    n_labels: int
    n_rows: int  # the last of them, that were looked at
    expected_others: float  # labels of other classes among those rows


class OneClassLabels:
    """The labels of a stream as long as all are of one class; from the first other one on, nothing is kept.

    >>> labels = OneClassLabels(2)
    >>> for _ in range(30):
    ...     labels.add(np.zeros(2), 1)
    >>> labels.finding(np.array([0.5, 0.5]))
    OneClass(label=1, n_labels=30, n_rows=30, expected_others=15.0)
    >>> labels.add(np.zeros(2), 0)
    >>> labels.finding(np.array([0.5, 0.5])) is None
    True
    """

    __slots__ = ("_label", "_mixed", "_most", "_n_classes", "_n_labels", "_rows")

    def __init__(self, n_classes: int, *, mixed: bool = False) -> None:
        self._n_classes, self._mixed = n_classes, mixed
        self._most = max(min(MOST_ROWS, MOST_NUMBERS // n_classes), FEWEST_LABELS)
        self._label: int | None = None
        self._n_labels = 0
        self._rows: list[list[float]] = []

    @property
    def suspicious(self) -> bool:
        """Whether there are enough labels, all of one class, to look at what the scores expect."""
        return not self._mixed and self._n_labels >= FEWEST_LABELS

    def add(self, log_ratios: FloatArray, label: int, replaced: int | None = None) -> None:
        """Take in a label with the log ratios of its row, (K,), and the other class that it takes the place of."""
        if self._mixed:
            return
        if replaced is not None or self._label not in (None, label):
            self._mixed, self._label, self._n_labels, self._rows = True, None, 0, []
            return
        self._label = label
        self._n_labels += 1
        self._rows = [*self._rows, log_ratios.tolist()][-self._most :]

    def forget_scores(self) -> None:
        """Look at no row that an earlier model scored."""
        self._rows = []

    def finding(self, prior: FloatArray) -> OneClass | None:
        """Return what is wrong if the prior (K,) holds that the scores alone give; None where nothing is."""
        if not self.suspicious or not self._rows or self._label is None:
            return None
        rows = np.array(self._rows)
        posteriors = posteriors_at(rows, np.tile(prior, (len(rows), 1)))
        expected = float((1.0 - posteriors[:, self._label]).sum())
        if expected < FEWEST_EXPECTED:
            return None
        return OneClass(self._label, self._n_labels, len(rows), expected)

    def finding_beside(self, tracker: PriorTracker) -> OneClass | None:
        """Return what is wrong at the prior that a tracker has from the scores."""
        if not self.suspicious:
            return None
        if not isinstance(tracker, SafeTracker):
            return self.finding(tracker.prior)
        labels = tracker.label_summary()
        return None if labels is None else self.finding(labels.unlabelled_prior)

    def state(self) -> dict[str, Any]:
        """Return everything needed to continue bit for bit, as plain JSON values."""
        rows = [list(row) for row in self._rows]
        return {"mixed": self._mixed, "label": self._label, "labels": self._n_labels, "log_ratios": rows}

    @classmethod
    def from_state(cls, n_classes: int, state: Any) -> Self:
        """Return what continues exactly where the one that made `state` stopped."""
        names = ("mixed", "label", "labels", "log_ratios")
        if not isinstance(state, Mapping) or set(state) != set(names) or type(state["mixed"]) is not bool:
            raise InvalidStateError(f"this state is damaged: its labels of one class hold {', '.join(names)}")
        found = cls(n_classes, mixed=state["mixed"])
        label, n_labels, rows = state["label"], state["labels"], state["log_ratios"]
        if label is None and n_labels == 0 and rows == []:
            return found
        fits = type(label) is int and 0 <= label < n_classes and type(n_labels) is int and not found._mixed
        fits = fits and isinstance(rows, list) and len(rows) <= min(n_labels, found._most)
        try:
            ratios = np.array(rows, dtype=np.float64).reshape(len(rows), n_classes)
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits or not np.isfinite(ratios).all():
            raise InvalidStateError("this state is damaged: its labels of one class are none")
        found._label, found._n_labels, found._rows = label, n_labels, ratios.tolist()
        return found
