"""Estimate the prior of a table, or of each of its groups: partitions send evidence, which adds."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from obil.arrays import FloatArray, require_in
from obil.bayes.posterior import posterior
from obil.errors import InvalidInputError
from obil.model.ratio_model import RatioModel
from obil.prior.calibration_spread import calibration_variance, logits_of, widen
from obil.prior.estimate import PriorEstimate
from obil.prior.evidence import BinaryEvidence
from obil.prior.passes import PassEvidence
from obil.spark.decision_columns import as_binary, from_binary, require_free, share_type
from obil.spark.evidence_rows import (
    Group,
    GroupTotals,
    binary_from_bytes,
    binary_to_bytes,
    partition_evidence,
    pass_from_bytes,
    pass_to_bytes,
    plain_group,
)
from obil.spark.feature_columns import feature_columns, model_input
from obil.spark.pass_search import PassSearch, start_from_votes
from obil.spark.shipped_model import ShippedModel

EVIDENCE = "evidence"
RESULT = ("n_rows", "prior", "lower", "upper")


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
    """
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    keys = [by] if isinstance(by, str) else list(by)
    missing = [name for name in keys if name not in df.columns]
    if missing:
        raise InvalidInputError(f"columns are missing: {', '.join(missing)}; there are {', '.join(df.columns)}")
    require_free([*RESULT, EVIDENCE], keys)
    shipped = ShippedModel.of(model, trusted=trusted)
    fitted = shipped.load()
    names = feature_columns(df, fitted, features)
    table = df.select(*keys, *(name for name in names if name not in keys))
    if fitted.n_classes > 2:
        return _by_passes(table, shipped, keys, names, level)
    evidence = _binary_evidence(table, shipped, keys, names)
    if not keys:
        totals: GroupTotals[BinaryEvidence] = GroupTotals()
        for row in evidence.collect():
            totals.add((), binary_from_bytes(bytes(row[EVIDENCE])))
        found = totals.of_group.get((), BinaryEvidence.empty()).estimate(level=level)
        return with_calibrator(fitted, found)
    return _solved_groups(evidence, shipped, keys, level)


def with_calibrator(model: RatioModel, found: PriorEstimate) -> PriorEstimate:
    """Return an estimate whose interval also carries the calibrator's own uncertainty."""
    variance = calibration_variance(model.calibrator, model.holdout_, found.prior)
    wider = widen(found.prior, found.interval, variance, level=found.level)
    return PriorEstimate(found.prior, wider, found.level, found.n_rows)


def _with_shared_calibrator(shipped: ShippedModel, found: PriorEstimate) -> PriorEstimate:
    """Do what `with_calibrator` does at a prior near by: many groups then share one calculation."""
    near = tuple((np.round(10.0 * logits_of(found.prior)) / 10.0).tolist())
    wider = widen(found.prior, found.interval, _variance_near(shipped, near), level=found.level)
    return PriorEstimate(found.prior, wider, found.level, found.n_rows)


@lru_cache(maxsize=4_096)
def _variance_near(shipped: ShippedModel, logits: tuple[float, ...]) -> FloatArray:
    prior = 1.0 / (1.0 + np.exp(-np.array(logits)))
    model = shipped.load()
    return calibration_variance(model.calibrator, model.holdout_, prior / prior.sum())


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
            yield _as_table(keys, found, binary_to_bytes)

    return table.mapInPandas(gathered, _evidence_schema(table, keys))


def _solved_groups(evidence: DataFrame, shipped: ShippedModel, keys: list[str], level: float) -> DataFrame:
    broadcast = shipped.broadcast(evidence.sparkSession.sparkContext)

    def solved(key: tuple[Any, ...], parts: Any) -> Any:
        total = BinaryEvidence.empty()
        for data in parts[EVIDENCE]:
            total = total + binary_from_bytes(bytes(data))
        found = _with_shared_calibrator(broadcast.value, total.estimate(level=level))
        return pd.DataFrame([[*key, *_result(found)]], columns=[*keys, *RESULT])

    schema = _result_schema(evidence, keys, shipped.load())
    return evidence.groupBy(*keys).applyInPandas(solved, schema)


def _by_passes(table: DataFrame, shipped: ShippedModel, keys: list[str], names: list[str], level: float) -> Any:
    """Find the prior of more than two classes: each pass reads the kept log ratios once, for all groups."""
    model = shipped.load()
    ratios = _log_ratio_rows(table, shipped, keys, names).persist()
    try:
        searches: dict[Group, PassSearch] = {}
        for group, votes in _one_pass(ratios, keys, model, at=None).items():
            searches[group] = PassSearch(start_from_votes(model, votes.gradient / votes.n_rows))
        if not keys and not searches:
            raise InvalidInputError("no rows, so no evidence to estimate a prior from")
        while at := {group: search.at for group, search in searches.items() if not search.done}:
            for group, evidence in _one_pass(ratios, keys, model, at=at).items():
                searches[group].take(evidence)
    finally:
        ratios.unpersist()
    if not keys:
        return with_calibrator(model, searches[()].estimate(level=level))
    found = [
        [*group, *_result(_with_shared_calibrator(shipped, search.estimate(level=level)))]
        for group, search in searches.items()
    ]
    return table.sparkSession.createDataFrame(found, _result_schema(table, keys, model))


def _log_ratio_rows(table: DataFrame, shipped: ShippedModel, keys: list[str], names: list[str]) -> DataFrame:
    broadcast = shipped.broadcast(table.sparkSession.sparkContext)

    def scored(tables: Iterator[Any]) -> Iterator[Any]:
        model = broadcast.value.load()
        for rows in tables:
            if len(rows):
                kept = rows[keys].copy()
                kept[EVIDENCE] = as_binary(model.log_ratios(model_input(rows, names, model)))
                yield kept

    return table.mapInPandas(scored, _evidence_schema(table, keys))


def _one_pass(
    ratios: DataFrame, keys: list[str], model: RatioModel, *, at: Mapping[Group, FloatArray] | None
) -> dict[Group, PassEvidence]:
    """Return each group's evidence at its prior; without priors, its soft votes, in `gradient`."""
    n_classes, training = model.n_classes, model.prior_
    broadcast = ratios.sparkSession.sparkContext.broadcast(at)

    def evidence_of(rows: FloatArray, group: Group) -> PassEvidence:
        if broadcast.value is not None:
            return PassEvidence.of(rows, broadcast.value.get(group, training))
        votes = posterior(rows, training).sum(axis=0)
        return PassEvidence(training, float(len(rows)), 0.0, votes, np.zeros((n_classes, n_classes)))

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = partition_evidence(tables, keys, lambda rows: from_binary(rows[EVIDENCE], n_classes), evidence_of)
        wanted = {group: one for group, one in found.items() if broadcast.value is None or group in broadcast.value}
        if wanted:
            yield _as_table(keys, wanted, pass_to_bytes)

    totals: GroupTotals[PassEvidence] = GroupTotals()
    for row in ratios.mapInPandas(gathered, ratios.schema).collect():
        group = plain_group([row[name] for name in keys])
        totals.add(group, pass_from_bytes(bytes(row[EVIDENCE]), n_classes))
    return totals.of_group


def _as_table(keys: list[str], found: Mapping[Group, Any], to_bytes: Any) -> Any:
    columns: dict[str, Any] = {name: [group[i] for group in found] for i, name in enumerate(keys)}
    return pd.DataFrame(columns | {EVIDENCE: [to_bytes(evidence) for evidence in found.values()]})


def _evidence_schema(table: DataFrame, keys: list[str]) -> StructType:
    return StructType([*(table.schema[name] for name in keys), StructField(EVIDENCE, BinaryType())])


def _result_schema(table: DataFrame, keys: list[str], model: RatioModel) -> StructType:
    shares = [StructField(name, share_type(model)) for name in RESULT[1:]]
    return StructType([*(table.schema[name] for name in keys), StructField("n_rows", LongType()), *shares])


def _result(found: PriorEstimate) -> list[Any]:
    ends = [found.prior, found.interval[:, 0], found.interval[:, 1]]
    return [found.n_rows, *(float(end[1]) if end.size == 2 else end.tolist() for end in ends)]
