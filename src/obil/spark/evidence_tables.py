"""Lay out evidence by group, and the priors estimated from it, as tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from obil.arrays import FloatArray
from obil.serving.ratio_model import RatioModel
from obil.spark.carried_columns import from_text
from obil.spark.decision_columns import vector_type
from obil.spark.evidence_rows import Group, binary_from_bytes, binary_to_bytes, evidence_by_group
from obil.trackers.evidence import BinaryEvidence, PriorEstimate

EVIDENCE, GROUP = "evidence", "obil_group"
RESULT = ("n_rows", "prior", "lower", "upper")


def binary_evidence(table: DataFrame, keys: list[str], log_ratios: Callable[[Any], FloatArray]) -> DataFrame:
    """Return one row per group of each partition: its evidence as bytes."""

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        found = evidence_by_group(tables, keys, log_ratios, lambda ratios, _: BinaryEvidence.of(ratios))
        if found:
            yield as_table(keys, found, binary_to_bytes)

    return table.mapInPandas(gathered, evidence_schema(keys))


def total_evidence(parts: Any) -> BinaryEvidence:
    """Return the sum of evidence written as bytes."""
    return sum((binary_from_bytes(bytes(data)) for data in parts), BinaryEvidence.empty())


def as_table(keys: list[str], found: Mapping[Group, Any], to_bytes: Any) -> Any:
    """Return the evidence of groups as a pandas table with one row per group."""
    columns: dict[str, Any] = {name: [group[i] for group in found] for i, name in enumerate(keys)}
    return pd.DataFrame(columns | {EVIDENCE: [to_bytes(evidence) for evidence in found.values()]})


def group_columns(by: Sequence[str]) -> list[str]:
    """Return the internal names of the groups' columns."""
    return [f"{GROUP}{number}" for number in range(len(by))]


def evidence_schema(groups: list[str]) -> StructType:
    """Return the columns of evidence: the groups as strings, and bytes."""
    return StructType([*(StructField(name, StringType()) for name in groups), StructField(EVIDENCE, BinaryType())])


def result_schema(groups: list[str], model: RatioModel) -> StructType:
    """Return the columns of priors by group, the groups as strings."""
    priors = [StructField(name, vector_type(model)) for name in RESULT[1:]]
    strings = [StructField(name, StringType()) for name in groups]
    return StructType([*strings, StructField("n_rows", LongType()), *priors])


def with_own_groups(result: DataFrame, df: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return priors by group with the group columns of the table, in their own types."""
    groups = zip(group_columns(by), by, strict=True)
    own = [from_text(F.col(inner), df.schema[name].dataType).alias(name) for inner, name in groups]
    return result.select(*own, *RESULT)


def result_values(found: PriorEstimate) -> list[Any]:
    """Return an estimate as the values of those columns."""
    low, high = np.minimum(found.interval[:, 0], found.prior), np.maximum(found.interval[:, 1], found.prior)
    ends = [found.prior, low, high]  # the prior of a class that is all but absent is the end of its own interval
    return [found.n_rows, *(float(end[1]) if end.size == 2 else end.tolist() for end in ends)]
