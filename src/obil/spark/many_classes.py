"""Estimate the prior of more than two classes in a few passes over a table, all groups in each pass."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame

from obil.arrays import FloatArray
from obil.bayes.posterior import posterior
from obil.errors import EstimationError, InvalidInputError
from obil.serving.ratio_model import RatioModel
from obil.spark.calibration_interval import with_cached_calibration, with_calibration
from obil.spark.decision_columns import as_binary, from_binary
from obil.spark.evidence_rows import Group, evidence_by_group, pass_from_bytes, pass_to_bytes, total_by_group
from obil.spark.evidence_tables import EVIDENCE, as_table, evidence_schema, result_schema, result_values
from obil.spark.feature_columns import model_input
from obil.spark.shipped_model import ShippedModel
from obil.trackers.bbse import confusion_of_predictions, inverse_of_confusion
from obil.trackers.pass_search import PassSearch
from obil.trackers.passes import PassEvidence

LEAST_START = 1e-3  # the start may estimate that a class is absent; only the likelihood should decide that


def estimate_many_classes(
    table: DataFrame, shipped: ShippedModel, keys: list[str], names: list[str], level: float
) -> Any:
    """Estimate the prior of more than two classes: each pass reads the cached log ratios once, for all groups."""
    model = shipped.load()
    ratios = _log_ratio_rows(table, shipped, keys, names).persist()
    try:
        searches: dict[Group, PassSearch] = {}
        for group, sums in _one_pass(ratios, keys, model, at=None).items():
            searches[group] = PassSearch(start_from_posteriors(model, sums.gradient / sums.n_rows))
        if not keys and not searches:
            raise InvalidInputError("the table has no rows to estimate a prior from")
        while at := {group: search.at for group, search in searches.items() if not search.done}:
            found = _one_pass(ratios, keys, model, at=at)
            if set(found) != set(at):
                raise EstimationError("a pass over the table returned other groups than the one before")
            for group, evidence in found.items():
                searches[group].take(evidence)
    finally:
        ratios.unpersist()
    if not keys:
        return with_calibration(model, searches[()].estimate(level=level))
    priors = [
        [*group, *result_values(with_cached_calibration(shipped, search.estimate(level=level)))]
        for group, search in searches.items()
    ]
    return table.sparkSession.createDataFrame(priors, result_schema(keys, model))


def start_from_posteriors(model: RatioModel, mean_posteriors: npt.ArrayLike) -> FloatArray:
    """Return where the search starts: the mean posterior at the training prior, corrected by soft BBSE."""
    start = np.asarray(mean_posteriors, dtype=np.float64)
    holdout = model.holdout_
    try:
        confusion = confusion_of_predictions(holdout.log_ratios, holdout.labels, prior=model.prior_, soft=True)
        start = inverse_of_confusion(confusion, n_classes=start.size) @ start
    except InvalidInputError:  # the classes overlap too much to invert: start from the posteriors themselves
        pass
    inside = np.maximum(start, LEAST_START)
    return np.asarray(inside / inside.sum())


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
    """Return each group's evidence at its prior; without priors, its summed posteriors, in `gradient`."""
    n_classes, training = model.n_classes, model.prior_
    broadcast = ratios.sparkSession.sparkContext.broadcast(at)

    def evidence_of(rows: FloatArray, group: Group) -> PassEvidence:
        if broadcast.value is not None:
            return PassEvidence.of(rows, broadcast.value[group])
        sums = posterior(rows, training).sum(axis=0)
        return PassEvidence(training, float(len(rows)), 0.0, sums, np.zeros((n_classes, n_classes)))

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = evidence_by_group(
            tables, keys, lambda rows: from_binary(rows[EVIDENCE], n_classes), evidence_of, wanted=broadcast.value
        )
        if found:
            yield as_table(keys, found, pass_to_bytes)

    try:
        return total_by_group(
            (tuple(row[name] for name in keys), pass_from_bytes(bytes(row[EVIDENCE]), n_classes))
            for row in ratios.mapInPandas(gathered, ratios.schema).collect()
        )
    finally:
        broadcast.destroy()
