"""Find the columns a model reads in a Spark table, and hand their values over as the model takes them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType

from obil.errors import InvalidInputError
from obil.model.ratio_model import RatioModel


def feature_columns(df: DataFrame, model: RatioModel, features: Sequence[str] | None) -> list[str]:
    """Return the names of the columns that the model reads, in its order.

    A model fitted on named columns knows them; one fitted on arrays is told by `features`, which may also
    name one column of arrays.
    """
    known = model.encoder.names if model.encoder is not None else model.feature_names
    if features is None and known is None:
        raise InvalidInputError("the model was fitted without column names: name the columns by features=[...]")
    chosen = known if features is None else features
    names = [chosen] if isinstance(chosen, str) else list(chosen or ())
    if known is not None and set(names) != set(known):
        raise InvalidInputError(f"the model reads the columns {', '.join(known)}, got features {', '.join(names)}")
    missing = [name for name in names if name not in df.columns]
    if missing:
        raise InvalidInputError(f"columns are missing: {', '.join(missing)}; there are {', '.join(df.columns)}")
    width = model.scorer.n_features
    is_array = len(names) == 1 and isinstance(df.schema[names[0]].dataType, ArrayType)
    if width is not None and len(names) != width and not is_array:
        raise InvalidInputError(f"a row has {width} features, got {len(names)} columns")
    return list(known) if known is not None else names


def model_input(table: Any, names: Sequence[str], model: RatioModel) -> Any:
    """Return what the model takes of a pandas table: the table itself where it goes by names, else an array."""
    if model.encoder is not None or model.feature_names is not None:
        return table[list(names)]
    if len(names) == 1 and len(table) and isinstance(table[names[0]].iloc[0], np.ndarray | list):
        return np.stack(table[names[0]].to_numpy()).astype(np.float64)
    return table[list(names)].to_numpy(dtype=np.float64)


def model_input_of_arrow(batch: pa.RecordBatch, names: Sequence[str], model: RatioModel) -> Any:
    """Return what the model takes of an Arrow batch: `model_input`, without a pandas table in between where it can."""
    columns = [batch.column(name) for name in names]
    plain = all(pa.types.is_floating(one.type) or pa.types.is_integer(one.type) for one in columns)
    if model.encoder is not None or model.feature_names is not None or not plain:
        return model_input(batch.select(list(names)).to_pandas(), names, model)
    matrix = np.empty((batch.num_rows, len(columns)))
    for number, column in enumerate(columns):
        matrix[:, number] = column.to_numpy(zero_copy_only=False)  # a null comes out as NaN
    return matrix
