"""Add up what each group of a partition says about its prior, and write it in a few thousand bytes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from obil.arrays import FloatArray
from obil.trackers.evidence import N_NODES, BinaryEvidence
from obil.trackers.passes import PassEvidence

Group = tuple[str | None, ...]  # the strings of `carried_columns`
Evidence = TypeVar("Evidence", BinaryEvidence, PassEvidence)


def total_by_group(found: Iterable[tuple[Group, Evidence]]) -> dict[Group, Evidence]:
    """Return the sum of each group's evidence."""
    totals: dict[Group, Evidence] = {}
    for group, evidence in found:
        totals[group] = totals[group] + evidence if group in totals else evidence
    return totals


def rows_of_groups(table: Any, by: Sequence[str]) -> Iterator[tuple[Group, Any]]:
    """Yield each group of a pandas table with the positions of its rows; without `by`, all rows are one group."""
    if not by:
        yield (), slice(None)
        return
    for key, positions in table.groupby(list(by), sort=False, dropna=False).indices.items():
        values = key if isinstance(key, tuple) else (key,)
        yield tuple(value if isinstance(value, str) else None for value in values), positions


def evidence_by_group(
    tables: Iterator[Any],
    by: Sequence[str],
    log_ratios: Callable[[Any], FloatArray],
    evidence_of: Callable[[FloatArray, Group], Evidence],
    *,
    wanted: Collection[Group] | None = None,
) -> dict[Group, Evidence]:
    """Return the evidence of each group, or of those wanted, in the tables of one partition."""

    def parts() -> Iterator[tuple[Group, Evidence]]:
        for table in tables:
            if len(table):
                ratios = log_ratios(table)
                for group, rows in rows_of_groups(table, by):
                    if wanted is None or group in wanted:
                        yield group, evidence_of(ratios[rows], group)

    return total_by_group(parts())


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
