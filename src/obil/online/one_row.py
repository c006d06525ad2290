"""Take one row in whatever form a caller has it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel


def one_row(x: Any, model: RatioModel) -> Any:
    """Return one row as a table of one: from an array, a mapping by column name, or a table of one row."""
    if type(x) is np.ndarray and x.ndim == 1:
        return x[None]
    if isinstance(x, Mapping):
        if model.encoder is None and model.feature_names is None:
            raise InvalidInputError("this model knows no column names: give the row as an array")
        return _table_of_one(x, model)
    if hasattr(x, "index") and hasattr(x, "to_dict") and not hasattr(x, "columns"):
        return one_row(x.to_dict(), model)  # a pandas Series
    if not hasattr(x, "columns") and np.ndim(x) < 2:
        return np.asarray([x]) if np.ndim(x) == 0 else np.asarray(x)[None]
    if len(x) != 1:
        raise InvalidInputError(f"decide takes one row, got {len(x)}; decide_many takes many")
    return x


def _table_of_one(x: Mapping[str, Any], model: RatioModel) -> Any:
    if model.encoder is not None:
        return {name: [value] for name, value in x.items()}
    names = model.feature_names or ()
    if set(x) != set(names):
        missing, unknown = sorted(set(names) - set(x)), sorted(map(str, set(x) - set(names)))
        parts = [f"{', '.join(map(repr, found))} {what}" for found, what in (
            (missing, "missing"), (unknown, "not among them"),
        ) if found]  # fmt: skip
        raise InvalidInputError(f"a row must have the model's columns and no others, got {' and '.join(parts)}")
    return [[x[name] for name in names]]  # plain values: an array would turn numbers beside a string into strings
