"""Order the lines of many keys and decide them: key by key, by time, labels in between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import IntArray
from obil.online.decision import Decisions
from obil.online.online_classifier import OnlineClassifier
from obil.serving.ratio_model import Scores
from obil.spark.columns import class_values, from_binary, vector_values

TIME, ID, LABEL, PROPENSITY = "obil_time", "obil_id", "obil_label", "obil_propensity"
RATIOS, EVIDENCE = "obil_ratios", "obil_evidence"
DECIDED = ("log_ratio", "effective_prior", "posterior", "threshold", "decision", "trusted")

Key = tuple[str | None, ...]  # the key columns of a line, as text


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which columns the lines of a query have."""

    keys: tuple[str, ...]
    n_classes: int
    evidence: tuple[int, int] | None  # folds, and 1 + views + inputs; None where log ratios are the evidence
    has_ids: bool
    has_labels: bool
    has_propensities: bool


class BucketLines:
    """The lines of a micro-batch that fell into one bucket; the lines of a key are together, by time.

    At equal times rows come before labels, then by id, then by content, so that a repeated Spark task decides them as
    before.
    """

    def __init__(self, table: Any, layout: RowLayout) -> None:
        numbers: dict[Key, int] = {}
        columns = (table[name].tolist() for name in layout.keys)
        key_of = np.array([numbers.setdefault(key, len(numbers)) for key in zip(*columns, strict=True)], dtype=np.int64)
        is_label = table[LABEL].notna().to_numpy() if layout.has_labels else np.zeros(len(table), dtype=bool)
        by_id = [table[ID].to_numpy()] if layout.has_ids else []
        order = np.lexsort((*_content(table, layout), *by_id, is_label, table[TIME].to_numpy(), key_of))
        self._keys = list(numbers)
        self._starts = np.searchsorted(key_of[order], np.arange(len(numbers) + 1))  # (keys + 1,) first line of each
        self._is_label, self._key_of = is_label[order], key_of[order]
        self._rows_before = np.concatenate([[0], np.cumsum(~self._is_label)])  # (lines + 1,)
        self._ids = table[ID].to_numpy()[order] if layout.has_ids else None
        self._labels = table[LABEL].to_numpy()[order] if layout.has_labels else None
        self._propensities = table[PROPENSITY].fillna(1.0).to_numpy()[order] if layout.has_propensities else None
        rows = order[~self._is_label]
        self._times = table[TIME].to_numpy()[rows]
        self._ratios = from_binary(table[RATIOS].to_numpy()[rows], layout.n_classes)  # (rows, K)
        self._evidence = self._ratios[:, None, None]  # (rows, folds, 1 + views + inputs, K)
        if layout.evidence is not None:
            self._evidence = from_binary(table[EVIDENCE].to_numpy()[rows], *layout.evidence, layout.n_classes)
        self._layout = layout

    @property
    def keys(self) -> Sequence[Key]:
        """The keys, in the order in which their lines lie."""
        return self._keys

    def decided(self, key: int, online: OnlineClassifier) -> Iterator[Decisions]:
        """Pass the lines of one key, by its number, to its stream; yield the decisions between its labels."""
        first, end = self._starts[key : key + 2].tolist()
        for start, stop in _runs(self._is_label[first:end], first):
            if self._is_label[start]:
                self._feed_back(online, slice(start, stop))
            else:
                rows = slice(self._rows_before[start], self._rows_before[stop])
                ids = None if self._ids is None else self._ids[start:stop].tolist()
                yield online.decide_scores(Scores(self._ratios[rows], self._evidence[rows]), ids=ids)

    def columns(self, decided: Sequence[Decisions]) -> dict[str, Any]:
        """Return the decisions of all keys, in their order, as columns with their keys and times."""
        of_rows = [self._keys[key] for key in self._key_of[~self._is_label].tolist()]
        found: dict[str, Any] = dict(zip(self._layout.keys, zip(*of_rows, strict=True), strict=True))
        found |= {TIME: self._times, ID: [name for part in decided for name in part.ids]}
        return found | decided_columns(decided)

    def _feed_back(self, online: OnlineClassifier, lines: slice) -> None:
        assert self._ids is not None  # labels need ids
        assert self._labels is not None
        labels = self._labels[lines].tolist()
        known = [1.0] * len(labels) if self._propensities is None else self._propensities[lines].tolist()
        for name, label, propensity in zip(self._ids[lines].tolist(), labels, known, strict=True):
            online.feedback(name, label, propensity=propensity)


def decided_columns(decided: Sequence[Decisions]) -> dict[str, Any]:
    """Return decisions, which are not none, as columns."""

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in decided])

    labels = joined("labels")
    return {
        "log_ratio": vector_values(joined("log_ratios")),
        "effective_prior": vector_values(joined("effective_priors")),
        "posterior": vector_values(joined("posteriors")),
        "threshold": np.full(len(labels), np.nan) if decided[0].thresholds is None else joined("thresholds"),
        "decision": class_values(labels),
        "trusted": joined("trusted"),
    }


def _content(table: Any, layout: RowLayout) -> list[npt.NDArray[Any]]:
    """Return what orders lines of one time and one id."""
    labels = [np.array([str(label) for label in table[LABEL]], dtype=object)] if layout.has_labels else []
    propensities = [table[PROPENSITY].to_numpy(dtype=np.float64)] if layout.has_propensities else []
    columns = [RATIOS, *([] if layout.evidence is None else [EVIDENCE])]
    return [*propensities, *labels, *(np.array([v or b"" for v in table[name]], dtype=object) for name in columns)]


def _runs(is_label: npt.NDArray[np.bool_], first: int) -> Iterator[tuple[int, int]]:
    """Yield the longest stretches of lines that are all rows, or all labels; the lines are counted from `first`."""
    changes: IntArray = np.flatnonzero(is_label[1:] != is_label[:-1]) + 1
    bounds = [0, *changes.tolist(), len(is_label)]
    for start, stop in pairwise(bounds):
        yield first + start, first + stop
