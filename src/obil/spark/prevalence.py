"""Estimate the prevalence of a table, or of each of its groups: partitions send evidence, which adds up."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from obil.arrays import FloatArray, require_in
from obil.errors import InvalidInputError
from obil.spark.calibration_interval import with_cached_calibration, with_calibration
from obil.spark.carried_columns import as_text
from obil.spark.decision_columns import require_free
from obil.spark.evidence_tables import (
    EVIDENCE,
    RESULT,
    binary_evidence,
    group_columns,
    result_schema,
    result_values,
    total_evidence,
    with_own_groups,
)
from obil.spark.feature_columns import feature_columns, model_input, numbered_features, require_columns
from obil.spark.many_classes import estimate_many_classes
from obil.spark.shipped_model import ShippedModel


def estimate_prior(
    df: DataFrame,
    model: Any,
    *,
    by: str | Sequence[str] = (),
    level: float = 0.9,
    features: Sequence[str] | None = None,
    trusted: Collection[str] = (),
) -> Any:
    """Return the maximum-likelihood prior of a table, or of each of its groups, with a confidence interval.

    With two classes the table is read once, and each partition sends 1,296 bytes per group: its log-likelihood at
    161 nodes, which determine the maximum to rounding. With more classes the log ratios are cached by Spark, and a few
    passes over them estimate the priors of all groups.

    Parameters
    ----------
    df
        A table of unlabeled rows.
    model
        A model folder, a fitted classifier, or what `obil.load` returns.
    by
        The columns that make the groups.
    level
        Of the interval, which covers sampling noise and the uncertainty of the calibration map.
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
        raise InvalidInputError("df must not be streaming: use stream or stream_batches to track its prior")
    by = [by] if isinstance(by, str) else list(by)
    require_columns(df, by)
    require_free(RESULT, by)
    keys = group_columns(by)
    groups = [as_text(df, name, role="a group").alias(inner) for name, inner in zip(by, keys, strict=True)]
    table = df.select(*groups, *numbered_features(names))
    if fitted.n_classes > 2:
        found = estimate_many_classes(table, shipped, keys, names, level)
        return with_own_groups(found, df, by) if by else found
    broadcast = shipped.broadcast(df.sparkSession.sparkContext)

    def log_ratios(rows: Any) -> FloatArray:
        model = broadcast.value.load()
        return model.log_ratios(model_input(rows, names, model))

    evidence = binary_evidence(table, keys, log_ratios)
    if not by:
        total = total_evidence(row[EVIDENCE] for row in evidence.collect())
        return with_calibration(fitted, total.estimate(level=level))
    return with_own_groups(_solved_groups(evidence, shipped, keys, level), df, by)


def _solved_groups(evidence: DataFrame, shipped: ShippedModel, keys: list[str], level: float) -> DataFrame:
    broadcast = shipped.broadcast(evidence.sparkSession.sparkContext)

    def solved(key: tuple[Any, ...], parts: Any) -> Any:
        found = with_cached_calibration(broadcast.value, total_evidence(parts[EVIDENCE]).estimate(level=level))
        return pd.DataFrame([[*key, *result_values(found)]], columns=[*keys, *RESULT])

    return evidence.groupBy(*keys).applyInPandas(solved, result_schema(keys, shipped.load()))
