"""Estimate the prevalence of a table, or of each of its groups: partitions send evidence, which adds up."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from obil.arrays import FloatArray, require_in
from obil.bayes.posterior import posterior
from obil.errors import InvalidInputError
from obil.online.estimate_prior import estimate_by_segment, with_calibration
from obil.online.segments import SegmentEstimates
from obil.serving.ratio_model import RatioModel
from obil.spark import columns
from obil.spark.evidence import (
    EVIDENCE,
    Group,
    as_table,
    binary_evidence,
    binary_from_bytes,
    binary_to_bytes,
    collected_by_group,
    counts_from_bytes,
    counts_to_bytes,
    evidence_by_group,
    evidence_schema,
    pass_from_bytes,
    pass_to_bytes,
    row_counts,
    total_evidence,
)
from obil.spark.shipped_model import ShippedModel
from obil.trackers.bbse import confusion_of_predictions, inverse_of_confusion
from obil.trackers.evidence import PriorEstimate
from obil.trackers.pass_search import PassSearch
from obil.trackers.passes import PassEvidence

RESULT = ("n_rows", "prior", "lower", "upper", "alone", "q_value")
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

    Groups learn from each other as segments do in `obil.estimate_prior(by=...)`, with the same figures. With two
    classes the table is read once, and each partition sends 1,296 bytes per group: its log-likelihood at 161 nodes,
    which determine the maximum to rounding. With more classes it sends the counts of a group's rows by their rounded
    log ratios; the prior of a whole table is found by a few passes over log ratios that Spark caches.

    Parameters
    ----------
    df
        A table of unlabeled rows.
    model
        A model folder, a fitted classifier, or what `obil.load` returns.
    by
        The columns that make the groups.
    level
        Of the interval, which covers sampling noise and the uncertainty of the calibration map: a confidence interval
        of a table, credible intervals of groups.
    features, trusted
        As for `score`.

    Returns
    -------
    PriorEstimate or DataFrame
        Without `by`, a `PriorEstimate`; with it, a table of the groups with `n_rows`, `prior`, `lower` and
        `upper`, the prior by the group's rows `alone`, and the false discovery rate, `q_value`, at which it is said to
        differ from the others. Priors are numbers of `classes_[1]` for two classes, arrays for more.

    >>> estimate_prior(table, "model/", by="country").columns  # doctest: +SKIP
    ['country', 'n_rows', 'prior', 'lower', 'upper', 'alone', 'q_value']
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
    if fitted.n_classes > 2 and not by:
        return _estimate_many_classes(table, shipped, names, level)
    load = shipped.loader(df)

    def log_ratios(rows: Any) -> FloatArray:
        model = load()
        return model.evidence_rows(columns.model_input(rows, names, model))

    if not by:
        total = total_evidence(row[EVIDENCE] for row in binary_evidence(table, keys, log_ratios).collect())
        return with_calibration(fitted, total.estimate(level=level))
    found: Mapping[Group, Any]
    if fitted.n_classes == 2:
        found = collected_by_group(binary_evidence(table, keys, log_ratios), keys, binary_from_bytes, binary_to_bytes)
    else:
        n_classes, n_folds = fitted.n_classes, fitted.n_own_folds
        counted = collected_by_group(
            row_counts(table, keys, log_ratios),
            keys,
            lambda data: counts_from_bytes(data, n_classes, n_folds),
            counts_to_bytes,
        )
        found = {group: counts.weighted() for group, counts in counted.items()}
    return _with_own_groups(_estimate_groups(df, fitted, found, keys, level), df, by)


def _estimate_groups(
    df: DataFrame, model: RatioModel, evidence: Mapping[Group, Any], keys: list[str], level: float
) -> DataFrame:
    """Estimate the priors of groups on the driver, as segments that learn from each other."""
    schema, rows = _result_schema(keys, model), []
    if evidence:
        ordered = sorted(evidence, key=lambda group: tuple((name is None, name or "") for name in group))
        found = estimate_by_segment(model, {group: evidence[group] for group in ordered}, level=level)
        rows = [[*group, *_result_values(found, group)] for group in ordered]
    return df.sparkSession.createDataFrame(rows, schema)


def _estimate_many_classes(table: DataFrame, shipped: ShippedModel, names: list[str], level: float) -> PriorEstimate:
    """Estimate the prior of more than two classes: each pass reads the cached log ratios once."""
    model = shipped.load()
    ratios = _log_ratio_rows(table, shipped, names).persist()
    try:
        sums = _one_pass(ratios, model, at=None)
        search = PassSearch(start_from_posteriors(model, sums.gradient / sums.n_rows))
        while not search.done:
            search.take(_one_pass(ratios, model, at=search.at))
    finally:
        ratios.unpersist()
    return with_calibration(model, search.estimate(level=level))


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


def _log_ratio_rows(table: DataFrame, shipped: ShippedModel, names: list[str]) -> DataFrame:
    load = shipped.loader(table)

    def scored(tables: Iterator[Any]) -> Iterator[Any]:
        model = load()
        for rows in tables:
            if len(rows):
                ratios = model.evidence_rows(columns.model_input(rows, names, model))
                yield pd.DataFrame({EVIDENCE: columns.as_binary(ratios)})

    return table.mapInPandas(scored, evidence_schema([]))


def _one_pass(ratios: DataFrame, model: RatioModel, *, at: FloatArray | None) -> PassEvidence:
    """Return the evidence of all rows at a prior; without one, their summed posteriors, in `gradient`."""
    n_classes, n_folds, training = model.n_classes, model.n_own_folds, model.prior_

    def evidence_of(rows: FloatArray) -> PassEvidence:
        n_rows, rows = len(rows), rows.reshape(-1, n_classes)  # the folds' log-likelihoods are averaged
        if at is not None:
            return PassEvidence.of(rows, at, weights=np.full(len(rows), n_rows / max(len(rows), 1)))
        sums = posterior(rows, training).sum(axis=0) / n_folds
        return PassEvidence(training, float(n_rows), 0.0, sums, np.zeros((n_classes, n_classes)))

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = evidence_by_group(
            tables, [], lambda rows: columns.from_binary(rows[EVIDENCE], n_folds, n_classes), evidence_of
        )
        if found:
            yield as_table([], found, pass_to_bytes)

    sent = ratios.mapInPandas(gathered, ratios.schema).collect()
    if not sent:
        raise InvalidInputError("the table has no rows to estimate a prior from")
    return reduce(add, (pass_from_bytes(bytes(row[EVIDENCE]), n_classes) for row in sent))


def _group_columns(by: Sequence[str]) -> list[str]:
    """Return the internal names of the groups' columns."""
    return [f"obil_group{number}" for number in range(len(by))]


def _result_schema(groups: list[str], model: RatioModel) -> StructType:
    """Return the columns of priors by group, the groups as strings."""
    priors = [StructField(name, columns.vector_type(model)) for name in RESULT[1:-1]]
    strings = [StructField(name, StringType()) for name in groups]
    return StructType([*strings, StructField("n_rows", LongType()), *priors, StructField("q_value", DoubleType())])


def _with_own_groups(result: DataFrame, df: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return priors by group with the group columns of the table, in their own types."""
    groups = zip(_group_columns(by), by, strict=True)
    own = [columns.from_text(F.col(inner), df.schema[name].dataType).alias(name) for inner, name in groups]
    return result.select(*own, *RESULT)


def _result_values(found: SegmentEstimates, group: Group) -> list[Any]:
    """Return what was found of a group as the values of those columns."""
    own = found[group]
    low, high = np.minimum(own.interval[:, 0], own.prior), np.maximum(own.interval[:, 1], own.prior)
    ends = [own.prior, low, high, found.alone[group].prior]
    values = [float(end[1]) if end.size == 2 else end.tolist() for end in ends]
    return [own.n_rows, *values, found.q_values[group]]
