"""Estimate the prevalence of a table, or of each of its groups: partitions send evidence, which adds up."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import LongType, StringType, StructField, StructType

from obil.arrays import FloatArray, require_in
from obil.bayes.posterior import posterior
from obil.errors import EstimationError, InvalidInputError
from obil.serving.ratio_model import RatioModel
from obil.spark import columns
from obil.spark.evidence import (
    EVIDENCE,
    Group,
    as_table,
    binary_evidence,
    evidence_by_group,
    evidence_schema,
    pass_from_bytes,
    pass_to_bytes,
    total_by_group,
    total_evidence,
)
from obil.spark.shipped_model import ShippedModel
from obil.trackers.bbse import confusion_of_predictions, inverse_of_confusion
from obil.trackers.calibration_spread import evidence_variance, widen
from obil.trackers.evidence import PriorEstimate
from obil.trackers.pass_search import PassSearch
from obil.trackers.passes import PassEvidence

RESULT = ("n_rows", "prior", "lower", "upper")
LEAST_START = 1e-3  # the start may estimate that a class is absent; only the likelihood should decide that


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
    names = columns.feature_columns(df, fitted, features)
    if df.isStreaming:
        raise InvalidInputError("df must not be streaming: use stream or stream_batches to track its prior")
    by = [by] if isinstance(by, str) else list(by)
    columns.require_columns(df, by)
    columns.require_free(RESULT, by)
    keys = _group_columns(by)
    groups = [columns.as_text(df, name, role="a group").alias(inner) for name, inner in zip(by, keys, strict=True)]
    table = df.select(*groups, *columns.numbered_features(names))
    if fitted.n_classes > 2:
        found = _estimate_many_classes(table, shipped, keys, names, level)
        return _with_own_groups(found, df, by) if by else found
    broadcast = shipped.broadcast(df.sparkSession.sparkContext)

    def log_ratios(rows: Any) -> FloatArray:
        model = broadcast.value.load()
        return model.evidence_rows(columns.model_input(rows, names, model))

    evidence = binary_evidence(table, keys, log_ratios)
    if not by:
        total = total_evidence(row[EVIDENCE] for row in evidence.collect())
        return _with_calibration(fitted, total.estimate(level=level))
    return _with_own_groups(_solved_groups(evidence, shipped, keys, level), df, by)


def _solved_groups(evidence: DataFrame, shipped: ShippedModel, keys: list[str], level: float) -> DataFrame:
    broadcast = shipped.broadcast(evidence.sparkSession.sparkContext)

    def solved(key: tuple[Any, ...], parts: Any) -> Any:
        found = _with_calibration(broadcast.value.load(), total_evidence(parts[EVIDENCE]).estimate(level=level))
        return pd.DataFrame([[*key, *_result_values(found)]], columns=[*keys, *RESULT])

    return evidence.groupBy(*keys).applyInPandas(solved, _result_schema(keys, shipped.load()))


def _estimate_many_classes(
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
        return _with_calibration(model, searches[()].estimate(level=level))
    priors = [
        [*group, *_result_values(_with_calibration(model, search.estimate(level=level)))]
        for group, search in searches.items()
    ]
    return table.sparkSession.createDataFrame(priors, _result_schema(keys, model))


def start_from_posteriors(model: RatioModel, mean_posteriors: npt.ArrayLike) -> FloatArray:
    """Return where the search starts: the mean posterior at the training prior, corrected by soft BBSE."""
    start = np.asarray(mean_posteriors, dtype=np.float64)
    holdout = model.evidence_holdout
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
                kept[EVIDENCE] = columns.as_binary(model.evidence_rows(columns.model_input(rows, names, model)))
                yield kept

    return table.mapInPandas(scored, evidence_schema(keys))


def _one_pass(
    ratios: DataFrame, keys: list[str], model: RatioModel, *, at: Mapping[Group, FloatArray] | None
) -> dict[Group, PassEvidence]:
    """Return each group's evidence at its prior; without priors, its summed posteriors, in `gradient`."""
    n_classes, n_folds, training = model.n_classes, model.n_own_folds, model.prior_
    broadcast = ratios.sparkSession.sparkContext.broadcast(at)

    def evidence_of(rows: FloatArray, group: Group) -> PassEvidence:
        n_rows, rows = len(rows), rows.reshape(-1, n_classes)  # the folds' log-likelihoods are averaged
        if broadcast.value is not None:
            weights = np.full(len(rows), n_rows / max(len(rows), 1))
            return PassEvidence.of(rows, broadcast.value[group], weights=weights)
        sums = posterior(rows, training).sum(axis=0) / n_folds
        return PassEvidence(training, float(n_rows), 0.0, sums, np.zeros((n_classes, n_classes)))

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = evidence_by_group(
            tables,
            keys,
            lambda rows: columns.from_binary(rows[EVIDENCE], n_folds, n_classes),
            evidence_of,
            wanted=broadcast.value,
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


def _group_columns(by: Sequence[str]) -> list[str]:
    """Return the internal names of the groups' columns."""
    return [f"obil_group{number}" for number in range(len(by))]


def _result_schema(groups: list[str], model: RatioModel) -> StructType:
    """Return the columns of priors by group, the groups as strings."""
    priors = [StructField(name, columns.vector_type(model)) for name in RESULT[1:]]
    strings = [StructField(name, StringType()) for name in groups]
    return StructType([*strings, StructField("n_rows", LongType()), *priors])


def _with_own_groups(result: DataFrame, df: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return priors by group with the group columns of the table, in their own types."""
    groups = zip(_group_columns(by), by, strict=True)
    own = [columns.from_text(F.col(inner), df.schema[name].dataType).alias(name) for inner, name in groups]
    return result.select(*own, *RESULT)


def _result_values(found: PriorEstimate) -> list[Any]:
    """Return an estimate as the values of those columns."""
    low, high = np.minimum(found.interval[:, 0], found.prior), np.maximum(found.interval[:, 1], found.prior)
    ends = [found.prior, low, high]  # the prior of a class that is all but absent is the end of its own interval
    return [found.n_rows, *(float(end[1]) if end.size == 2 else end.tolist() for end in ends)]


def _with_calibration(model: RatioModel, found: PriorEstimate) -> PriorEstimate:
    """Return an estimate whose interval covers the uncertainty of the calibration map as well."""
    wider = widen(found.prior, found.interval, evidence_variance(model, found.prior), level=found.level)
    return PriorEstimate(found.prior, wider, found.level, found.n_rows)
