"""A keyed query that runs all the time and is given one micro-batch after the other."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from benchmarks.core_seconds import core_seconds
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.ratio_model import RatioModel
from obil.spark import stream

SCHEMA = "site string, at long, id string, score double, truth long"


class Taken(NamedTuple):
    """What a micro-batch took."""

    seconds: float  # from its planning to its commit
    core_seconds: float  # of processor time, of this process, Spark and its workers


class KeyedQuery:
    """Decides what it is given, and says what Spark took for it."""

    def __init__(self, spark: SparkSession, place: Path, **settings: Any) -> None:
        self.checkpoint, self._inbox, self._n_batches = place / "checkpoint", place / "in", 0
        self._inbox.mkdir(parents=True)
        df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self._inbox))
        decided = stream(df, keyed_model(), key="site", time="at", id="id", features=["score"], **settings)
        writer = decided.writeStream.format("noop").option("checkpointLocation", str(self.checkpoint))
        self._query = writer.trigger(processingTime="1 second").start()

    def take(self, lines: pd.DataFrame) -> Taken:
        """Decide these lines in a micro-batch."""
        name = f"part-{self._n_batches:04d}.json"
        hidden = self._inbox / f".{name}"
        lines.to_json(hidden, orient="records", lines=True, double_precision=15)
        dated = 1_700_000_000 + self._n_batches  # the source takes files by age
        os.utime(hidden, (dated, dated))
        used = core_seconds()
        hidden.rename(self._inbox / name)  # whole, or not there
        self._query.processAllAvailable()
        used = core_seconds() - used
        progress = self._progress()
        if progress["batchId"] != self._n_batches:
            raise RuntimeError(f"batch {self._n_batches} was to be taken, and Spark reports {progress['batchId']}")
        self._n_batches += 1
        return Taken(float(progress["durationMs"]["triggerExecution"]) / 1e3, used)

    @property
    def memory_bytes(self) -> int:
        """What the state store says it holds in memory."""
        return int(self._progress()["stateOperators"][0]["memoryUsedBytes"])

    @property
    def disk_bytes(self) -> int:
        """All files of the state: Spark keeps those of several batches, so this is what a disk needs."""
        return sum(path.stat().st_size for path in (self.checkpoint / "state").rglob("*") if path.is_file())

    def stop(self) -> None:
        """End the query; its checkpoint stays."""
        self._query.stop()

    def _progress(self) -> Any:
        """Return what Spark reports of the last batch that had rows."""
        return [one for one in self._query.recentProgress if one["numInputRows"] > 0][-1]


def keyed_model() -> RatioModel:
    """Return a model of one score."""
    training = GaussianClasses.pair(2.0).draw(np.full(2_000, 0.1), random_state=0)
    return RatioClassifier.from_scores(training.log_ratios[:, 1], training.labels, kind="margin").model_
