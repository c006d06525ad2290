"""Lay out evidence by group, and the priors found from it, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # what every Spark program calls it
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from obil.serving.ratio_model import RatioModel
from obil.spark.carried_columns import from_text
from obil.spark.decision_columns import share_type
from obil.spark.evidence_rows import Group
from obil.trackers.estimate import PriorEstimate

EVIDENCE, GROUP = "evidence", "obil_group"
RESULT = ("n_rows", "prior", "lower", "upper")


def as_table(keys: list[str], found: Mapping[Group, Any], to_bytes: Any) -> Any:
    """Return the evidence of groups as a pandas table, a row each."""
    columns: dict[str, Any] = {name: [group[i] for group in found] for i, name in enumerate(keys)}
    return pd.DataFrame(columns | {EVIDENCE: [to_bytes(evidence) for evidence in found.values()]})


def group_columns(by: Sequence[str]) -> list[str]:
    """Return the names that the groups' columns go by on their way."""
    return [f"{GROUP}{number}" for number in range(len(by))]


def evidence_schema(groups: list[str]) -> StructType:
    """Return the columns of evidence: the groups as text, and bytes."""
    return StructType([*(StructField(name, StringType()) for name in groups), StructField(EVIDENCE, BinaryType())])


def result_schema(groups: list[str], model: RatioModel) -> StructType:
    """Return the columns of priors by group, which are texts still."""
    shares = [StructField(name, share_type(model)) for name in RESULT[1:]]
    texts = [StructField(name, StringType()) for name in groups]
    return StructType([*texts, StructField("n_rows", LongType()), *shares])


def with_own_groups(result: DataFrame, df: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return priors by group with the columns of the table they are of, in their own types."""
    groups = zip(group_columns(by), by, strict=True)
    own = [from_text(F.col(inner), df.schema[name].dataType).alias(name) for inner, name in groups]
    return result.select(*own, *RESULT)


def result_values(found: PriorEstimate) -> list[Any]:
    """Return an estimate as the values of those columns."""
    low, high = np.minimum(found.interval[:, 0], found.prior), np.maximum(found.interval[:, 1], found.prior)
    ends = [found.prior, low, high]  # a class that is all but absent stands at the end of its own interval
    return [found.n_rows, *(float(end[1]) if end.size == 2 else end.tolist() for end in ends)]
