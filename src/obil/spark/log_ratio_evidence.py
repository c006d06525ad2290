"""Gather the evidence in a column of log ratios, a few thousand bytes a partition."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from obil.spark.evidence_rows import binary_to_bytes
from obil.trackers.evidence import BinaryEvidence


def evidence_of_log_ratios(df: DataFrame, column: str) -> DataFrame:
    """Return one row a partition that has rows: its binary evidence as bytes, in `evidence`."""

    def gathered(tables: Iterator[Any]) -> Iterator[Any]:
        total = BinaryEvidence.empty()
        for table in tables:
            positive = table[column].to_numpy(dtype=np.float64)
            total = total + BinaryEvidence.of(np.stack([np.zeros(len(positive)), positive], axis=1))
        if total.n_rows:
            yield pd.DataFrame({"evidence": [binary_to_bytes(total)]})

    return df.select(column).mapInPandas(gathered, StructType([StructField("evidence", BinaryType())]))
