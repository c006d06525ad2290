"""Run the same model on Apache Spark, in batch and streaming. Importing this needs neither pyspark nor Java."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
