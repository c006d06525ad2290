"""Lay out evidence by group, and the priors found from it, as tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from obil.model.ratio_model import RatioModel
from obil.prior.estimate import PriorEstimate
from obil.spark.decision_columns import share_type
from obil.spark.evidence_rows import Group

EVIDENCE = "evidence"
RESULT = ("n_rows", "prior", "lower", "upper")


def as_table(keys: list[str], found: Mapping[Group, Any], to_bytes: Any) -> Any:
    """Return the evidence of groups as a pandas table, a row each."""
    columns: dict[str, Any] = {name: [group[i] for group in found] for i, name in enumerate(keys)}
    return pd.DataFrame(columns | {EVIDENCE: [to_bytes(evidence) for evidence in found.values()]})


def evidence_schema(table: DataFrame, keys: list[str]) -> StructType:
    """Return the columns of evidence: the groups' own, and bytes."""
    return StructType([*(table.schema[name] for name in keys), StructField(EVIDENCE, BinaryType())])


def result_schema(table: DataFrame, keys: list[str], model: RatioModel) -> StructType:
    """Return the columns of priors by group."""
    shares = [StructField(name, share_type(model)) for name in RESULT[1:]]
    return StructType([*(table.schema[name] for name in keys), StructField("n_rows", LongType()), *shares])


def result_values(found: PriorEstimate) -> list[Any]:
    """Return an estimate as the values of those columns."""
    ends = [found.prior, found.interval[:, 0], found.interval[:, 1]]
    return [found.n_rows, *(float(end[1]) if end.size == 2 else end.tolist() for end in ends)]
