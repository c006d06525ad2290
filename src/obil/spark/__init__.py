"""Run the same model on Apache Spark: batch and streaming.

Names are loaded when they are first used, so that importing this package needs neither pyspark nor Java.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obil.spark.batch_stream import stream_batches as stream_batches
    from obil.spark.keyed_stream import stream as stream
    from obil.spark.prevalence import estimate_prior as estimate_prior
    from obil.spark.scoring import score as score

_HOMES = {
    "estimate_prior": "obil.spark.prevalence",
    "score": "obil.spark.scoring",
    "stream": "obil.spark.keyed_stream",
    "stream_batches": "obil.spark.batch_stream",
}

__all__ = ["estimate_prior", "score", "stream", "stream_batches"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'obil.spark' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
