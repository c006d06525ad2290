"""Add up what each group of a table says about its prior, in a few thousand bytes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from obil.arrays import FloatArray, IntArray
from obil.online.row_counts import RowCounts
from obil.trackers.evidence import BinaryEvidence
from obil.trackers.passes import PassEvidence

EVIDENCE = "evidence"  # the column of bytes

Group = tuple[str | None, ...]  # the strings of `as_text`
Evidence = TypeVar("Evidence", BinaryEvidence, RowCounts, PassEvidence)


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
    evidence_of: Callable[[FloatArray], Evidence],
) -> dict[Group, Evidence]:
    """Return the evidence of each group in the tables of one partition."""

    def parts() -> Iterator[tuple[Group, Evidence]]:
        for table in tables:
            if len(table):
                ratios = log_ratios(table)
                for group, rows in rows_of_groups(table, by):
                    yield group, evidence_of(ratios[rows])

    return total_by_group(parts())


def binary_to_bytes(evidence: BinaryEvidence) -> bytes:
    """Return a row count and 161 log-likelihoods: 1,296 bytes."""
    return np.concatenate([[float(evidence.n_rows)], evidence.log_likelihoods]).astype("<f8").tobytes()


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


def counts_to_bytes(evidence: RowCounts) -> bytes:
    """Return 2 K + 8 bytes for each line of counts."""
    return evidence.steps.astype("<i2").tobytes() + evidence.counts.astype("<i8").tobytes()


def counts_from_bytes(data: bytes, n_classes: int, n_folds: int) -> RowCounts:
    """Return the counts that were written."""
    n_lines = len(data) // (2 * n_classes + 8)
    steps: IntArray = np.frombuffer(data, dtype="<i2", count=n_lines * n_classes).astype(np.int64)
    counts: IntArray = np.frombuffer(data, dtype="<i8", offset=2 * n_lines * n_classes).astype(np.int64)
    return RowCounts(steps.reshape(n_lines, n_classes), counts, n_folds)


def binary_from_bytes(data: bytes) -> BinaryEvidence:
    """Return the evidence that was written."""
    values = np.frombuffer(data, dtype="<f8").astype(np.float64)
    return BinaryEvidence(int(values[0]), values[1:])


def binary_evidence(table: DataFrame, keys: list[str], log_ratios: Callable[[Any], FloatArray]) -> DataFrame:
    """Return one row per group of each partition: its evidence as bytes."""
    return _evidence(table, keys, log_ratios, BinaryEvidence.of, binary_to_bytes)


def row_counts(table: DataFrame, keys: list[str], log_ratios: Callable[[Any], FloatArray]) -> DataFrame:
    """Return one row per group of each partition: its counts of rows as bytes."""
    return _evidence(table, keys, log_ratios, RowCounts.of, counts_to_bytes)


def total_evidence(parts: Any) -> BinaryEvidence:
    """Return the sum of evidence written as bytes."""
    return sum((binary_from_bytes(bytes(data)) for data in parts), BinaryEvidence.empty())


def collected_by_group(
    evidence: DataFrame,
    keys: list[str],
    from_bytes: Callable[[bytes], Evidence],
    to_bytes: Callable[[Evidence], bytes],
) -> dict[Group, Evidence]:
    """Return the evidence of each group on the driver, after Spark has added up what the partitions sent."""

    def summed(key: tuple[Any, ...], parts: Any) -> Any:
        total = reduce(add, (from_bytes(bytes(data)) for data in parts[EVIDENCE]))
        return pd.DataFrame([[*key, to_bytes(total)]], columns=[*keys, EVIDENCE])

    rows = evidence.groupBy(*keys).applyInPandas(summed, evidence.schema).collect()
    return {tuple(row[name] for name in keys): from_bytes(bytes(row[EVIDENCE])) for row in rows}


def _evidence(
    table: DataFrame,
    keys: list[str],
    log_ratios: Callable[[Any], FloatArray],
    evidence_of: Callable[[FloatArray], Evidence],
    to_bytes: Callable[[Evidence], bytes],
) -> DataFrame:
    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = evidence_by_group(tables, keys, log_ratios, evidence_of)
        if found:
            yield as_table(keys, found, to_bytes)

    return table.mapInPandas(gathered, evidence_schema(keys))


def as_table(keys: list[str], found: Mapping[Group, Any], to_bytes: Any) -> Any:
    """Return the evidence of groups as a pandas table with one row per group."""
    columns: dict[str, Any] = {name: [group[i] for group in found] for i, name in enumerate(keys)}
    return pd.DataFrame(columns | {EVIDENCE: [to_bytes(evidence) for evidence in found.values()]})


def evidence_schema(groups: list[str]) -> StructType:
    """Return the columns of evidence: the groups as strings, and bytes."""
    return StructType([*(StructField(name, StringType()) for name in groups), StructField(EVIDENCE, BinaryType())])
