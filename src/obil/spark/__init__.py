"""Run the same model on Apache Spark, in batch and streaming. Importing this needs neither pyspark nor Java."""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.spark.batch_stream import stream_batches as stream_batches
    from obil.spark.keyed_stream import stream as stream
    from obil.spark.prevalence import estimate_prior as estimate_prior
    from obil.spark.scoring import score as score
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
