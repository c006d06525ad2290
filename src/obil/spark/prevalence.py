"""Estimate the prior of a table, or of each of its groups: partitions send evidence, which adds."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from obil.arrays import require_in
from obil.errors import InvalidInputError
from obil.spark.calibrator_share import with_calibrator, with_shared_calibrator
from obil.spark.carried_columns import as_text
from obil.spark.decision_columns import require_free
from obil.spark.evidence_rows import GroupTotals, binary_from_bytes, binary_to_bytes, partition_evidence
from obil.spark.evidence_tables import (
    EVIDENCE,
    RESULT,
    as_table,
    evidence_schema,
    group_columns,
    result_schema,
    result_values,
    with_own_groups,
)
from obil.spark.feature_columns import feature_columns, model_input, numbered_features, require_columns
from obil.spark.many_classes import estimate_many_classes
from obil.spark.shipped_model import ShippedModel
from obil.trackers.evidence import BinaryEvidence


def estimate_prior(
    df: DataFrame,
    model: Any,
    *,
    by: str | Sequence[str] = (),
    level: float = 0.9,
    features: Sequence[str] | None = None,
    trusted: Collection[str] = (),
) -> Any:
    """Return the most likely prior of a whole table, or of each group of it, with an interval.

    With two classes the table is read once, and each partition sends 1,296 bytes a group: its log-likelihood at
    161 nodes, from which the maximum is found as if the rows were at hand. With more, log ratios are kept in
    Spark's cache, soft votes give a start, and a few passes follow that all groups share.

    Parameters
    ----------
    df
        A table of unlabelled rows.
    model
        A model folder, a fitted classifier, or what `obil.load` returns.
    by
        The columns that make the groups.
    level
        Of the interval: what the rows leave open and what the calibrator does not know about itself.
    features, trusted
        As for `score`.

    Returns
    -------
    PriorEstimate or DataFrame
        Without `by`, a `PriorEstimate`; with it, a table of the groups with `n_rows`, `prior`, `lower` and
        `upper`: numbers of `classes_[1]` for two classes, arrays for more.

    >>> estimate_prior(table, "model/", by="country").columns  # doctest: +SKIP
    ['country', 'n_rows', 'prior', 'lower', 'upper']
    """
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    shipped = ShippedModel.of(model, trusted=trusted)
    fitted = shipped.load()
    names = feature_columns(df, fitted, features)
    if df.isStreaming:
        raise InvalidInputError("a stream has no end to estimate at: follow it by stream or stream_batches")
    by = [by] if isinstance(by, str) else list(by)
    require_columns(df, by)
    require_free(RESULT, by)
    keys = group_columns(by)
    texts = [as_text(df, name, role="a group").alias(inner) for name, inner in zip(by, keys, strict=True)]
    table = df.select(*texts, *numbered_features(names))
    if fitted.n_classes > 2:
        found = estimate_many_classes(table, shipped, keys, names, level)
        return with_own_groups(found, df, by) if by else found
    evidence = _binary_evidence(table, shipped, keys, names)
    if not by:
        totals: GroupTotals[BinaryEvidence] = GroupTotals()
        for row in evidence.collect():
            totals.add((), binary_from_bytes(bytes(row[EVIDENCE])))
        return with_calibrator(fitted, totals.of_group.get((), BinaryEvidence.empty()).estimate(level=level))
    return with_own_groups(_solved_groups(evidence, shipped, keys, level), df, by)


def _binary_evidence(table: DataFrame, shipped: ShippedModel, keys: list[str], names: list[str]) -> DataFrame:
    """Return a row for each group of each partition: its evidence as bytes."""
    broadcast = shipped.broadcast(table.sparkSession.sparkContext)

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        model = broadcast.value.load()
        found = partition_evidence(
            tables,
            keys,
            lambda rows: model.log_ratios(model_input(rows, names, model)),
            lambda ratios, _: BinaryEvidence.of(ratios),
        )
        if found:
            yield as_table(keys, found, binary_to_bytes)

    return table.mapInPandas(gathered, evidence_schema(keys))


def _solved_groups(evidence: DataFrame, shipped: ShippedModel, keys: list[str], level: float) -> DataFrame:
    broadcast = shipped.broadcast(evidence.sparkSession.sparkContext)

    def solved(key: tuple[Any, ...], parts: Any) -> Any:
        total = BinaryEvidence.empty()
        for data in parts[EVIDENCE]:
            total = total + binary_from_bytes(bytes(data))
        found = with_shared_calibrator(broadcast.value, total.estimate(level=level))
        return pd.DataFrame([[*key, *result_values(found)]], columns=[*keys, *RESULT])

    return evidence.groupBy(*keys).applyInPandas(solved, result_schema(keys, shipped.load()))
