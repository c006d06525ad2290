"""Turn evidence into rows of a table and back: what a partition knows of each group in a few thousand bytes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from obil.arrays import FloatArray
from obil.trackers.evidence import N_NODES, BinaryEvidence
from obil.trackers.passes import PassEvidence

Group = tuple[str | None, ...]  # the texts of `carried_columns`


class Adds(Protocol):
    """Evidence: it adds."""

    def __add__(self, other: Self) -> Self: ...


Evidence = TypeVar("Evidence", bound=Adds)


class GroupTotals(Generic[Evidence]):
    """The evidence of each group so far."""

    def __init__(self) -> None:
        self.of_group: dict[Group, Evidence] = {}

    def add(self, group: Group, evidence: Evidence) -> None:
        """Add to a group's evidence."""
        known = self.of_group.get(group)
        self.of_group[group] = evidence if known is None else known + evidence


def rows_of_groups(table: Any, by: Sequence[str]) -> Iterator[tuple[Group, Any]]:
    """Yield each group of a pandas table with the positions of its rows; without `by`, all rows are one group."""
    if not by:
        yield (), slice(None)
        return
    for key, positions in table.groupby(list(by), sort=False, dropna=False).indices.items():
        texts = key if isinstance(key, tuple) else (key,)
        yield tuple(text if isinstance(text, str) else None for text in texts), positions


def partition_evidence(
    tables: Iterator[Any],
    by: Sequence[str],
    log_ratios: Callable[[Any], FloatArray],
    evidence_of: Callable[[FloatArray, Group], Any],
    *,
    wanted: Collection[Group] | None = None,
) -> Mapping[Group, Any]:
    """Return the evidence of each group, or of those wanted, in the tables of one partition."""
    totals: GroupTotals[Any] = GroupTotals()
    for table in tables:
        if len(table):
            ratios = log_ratios(table)
            for group, rows in rows_of_groups(table, by):
                if wanted is None or group in wanted:
                    totals.add(group, evidence_of(ratios[rows], group))
    return totals.of_group


def binary_to_bytes(evidence: BinaryEvidence) -> bytes:
    """Return a row count and 161 log-likelihoods: 1,296 bytes."""
    return np.concatenate([[float(evidence.n_rows)], evidence.log_likelihoods]).astype("<f8").tobytes()


def binary_from_bytes(data: bytes) -> BinaryEvidence:
    """Return the evidence that was written."""
    values = np.frombuffer(data, dtype="<f8")
    return BinaryEvidence(int(values[0]), values[1 : 1 + N_NODES].astype(np.float64))


def pass_to_bytes(evidence: PassEvidence) -> bytes:
    """Return (2 + 2 K + K^2) numbers as bytes: 960 bytes for 10 classes."""
    head = [evidence.n_rows, evidence.log_likelihood]
    parts = [np.array(head), evidence.at, evidence.gradient, evidence.curvature.ravel()]
    return np.concatenate(parts).astype("<f8").tobytes()


def pass_from_bytes(data: bytes, n_classes: int) -> PassEvidence:
    """Return the evidence that was written."""
    values = np.frombuffer(data, dtype="<f8").astype(np.float64)
    at, gradient, curvature = np.split(values[2:], [n_classes, 2 * n_classes])
    return PassEvidence(at, values[0], values[1], gradient, curvature.reshape(n_classes, n_classes))
