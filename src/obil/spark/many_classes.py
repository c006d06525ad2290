"""Find the prior of more than two classes in a few passes over a table, all its groups in each."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from obil.arrays import FloatArray
from obil.bayes.posterior import posterior
from obil.errors import EstimationError, InvalidInputError
from obil.serving.ratio_model import RatioModel
from obil.spark.calibrator_share import with_calibrator, with_shared_calibrator
from obil.spark.decision_columns import as_binary, from_binary
from obil.spark.evidence_rows import (
    Group,
    GroupTotals,
    partition_evidence,
    pass_from_bytes,
    pass_to_bytes,
)
from obil.spark.evidence_tables import EVIDENCE, as_table, evidence_schema, result_schema, result_values
from obil.spark.feature_columns import model_input
from obil.spark.search_start import start_from_posteriors
from obil.spark.shipped_model import ShippedModel
from obil.trackers.pass_search import PassSearch
from obil.trackers.passes import PassEvidence


def estimate_many_classes(
    table: DataFrame, shipped: ShippedModel, keys: list[str], names: list[str], level: float
) -> Any:
    """Find the prior of more than two classes: each pass reads the kept log ratios once, for all groups."""
    model = shipped.load()
    ratios = _log_ratio_rows(table, shipped, keys, names).persist()
    try:
        searches: dict[Group, PassSearch] = {}
        for group, votes in _one_pass(ratios, keys, model, at=None).items():
            searches[group] = PassSearch(start_from_posteriors(model, votes.gradient / votes.n_rows))
        if not keys and not searches:
            raise InvalidInputError("no rows, so no evidence to estimate a prior from")
        while at := {group: search.at for group, search in searches.items() if not search.done}:
            found = _one_pass(ratios, keys, model, at=at)
            if set(found) != set(at):
                raise EstimationError("a pass over the table brought back other groups than the one before")
            for group, evidence in found.items():
                searches[group].take(evidence)
    finally:
        ratios.unpersist()
    if not keys:
        return with_calibrator(model, searches[()].estimate(level=level))
    priors = [
        [*group, *result_values(with_shared_calibrator(shipped, search.estimate(level=level)))]
        for group, search in searches.items()
    ]
    return table.sparkSession.createDataFrame(priors, result_schema(keys, model))


def _log_ratio_rows(table: DataFrame, shipped: ShippedModel, keys: list[str], names: list[str]) -> DataFrame:
    broadcast = shipped.broadcast(table.sparkSession.sparkContext)

    def scored(tables: Iterator[Any]) -> Iterator[Any]:
        model = broadcast.value.load()
        for rows in tables:
            if len(rows):
                kept = rows[keys].copy()
                kept[EVIDENCE] = as_binary(model.log_ratios(model_input(rows, names, model)))
                yield kept

    return table.mapInPandas(scored, evidence_schema(keys))


def _one_pass(
    ratios: DataFrame, keys: list[str], model: RatioModel, *, at: Mapping[Group, FloatArray] | None
) -> dict[Group, PassEvidence]:
    """Return each group's evidence at its prior; without priors, its soft votes, in `gradient`."""
    n_classes, training = model.n_classes, model.prior_
    broadcast = ratios.sparkSession.sparkContext.broadcast(at)

    def evidence_of(rows: FloatArray, group: Group) -> PassEvidence:
        if broadcast.value is not None:
            return PassEvidence.of(rows, broadcast.value[group])
        votes = posterior(rows, training).sum(axis=0)
        return PassEvidence(training, float(len(rows)), 0.0, votes, np.zeros((n_classes, n_classes)))

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = partition_evidence(
            tables, keys, lambda rows: from_binary(rows[EVIDENCE], n_classes), evidence_of, wanted=broadcast.value
        )
        if found:
            yield as_table(keys, found, pass_to_bytes)

    totals: GroupTotals[PassEvidence] = GroupTotals()
    try:
        for row in ratios.mapInPandas(gathered, ratios.schema).collect():
            group = tuple(row[name] for name in keys)
            totals.add(group, pass_from_bytes(bytes(row[EVIDENCE]), n_classes))
    finally:
        broadcast.destroy()
    return totals.of_group
