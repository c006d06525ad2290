"""Decide one huge stream by micro-batches: partitions send evidence, the driver updates one prior."""

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.streaming.readwriter import DataStreamWriter

from obil.arrays import FloatArray, PriorLike
from obil.bayes.costs import Costs
from obil.errors import InvalidInputError, InvalidStateError
from obil.policies import Policy
from obil.serving.ratio_model import RatioModel
from obil.spark.batch_bank import BatchBank
from obil.spark.batch_file import AfterBatch, read_after, write_after
from obil.spark.decision_columns import require_free
from obil.spark.evidence_tables import EVIDENCE, binary_evidence, total_evidence
from obil.spark.scoring import score
from obil.spark.shipped_model import ShippedModel

Write = Callable[[DataFrame, int], object]
# the local property with the id of the query, kept in its checkpoint; None if threads are not pinned
QUERY_ID = "sql.streaming.queryId"


def stream_batches(
    df: DataFrame,
    model: Any,
    *,
    write: Write,
    state: str | os.PathLike[str],
    prior: PriorLike | Mapping[Any, float] | None = None,
    costs: Costs | None = None,
    policy: Policy | None = None,
    positive: Any = None,
    features: Sequence[str] | None = None,
    trusted: Collection[str] = (),
) -> DataStreamWriter:
    """Return a writer, to be started, that decides each micro-batch at one prior and then updates the prior.

    Parameters
    ----------
    df
        A streaming table.
    model
        A model folder or a fitted classifier, of two classes.
    write
        Takes a decided batch, with the columns of `score` and the `prior` of `classes_[1]`, and its number. After a
        crash Spark may repeat the last batch: it is decided as before, and `write` has to put it in the same place.
    state
        A file of the driver that holds the prior between batches, replaced atomically after each. It belongs to one
        checkpoint: a query with another checkpoint is refused.
    prior
        Where the stream starts; the training prior if None.
    costs, policy, positive, features, trusted
        As for `score`.

    Notes
    -----
    Labels and the monitor need `stream`.

    >>> query = stream_batches(rows, "model/", write=write_batch, state="prior.json").start()  # doctest: +SKIP
    """
    if not df.isStreaming:
        raise InvalidInputError("df must be streaming: use score and estimate_prior for other tables")
    follower = BatchFollower(
        model,
        write=write,
        state=state,
        prior=prior,
        settings={"costs": costs, "policy": policy, "positive": positive, "features": features, "trusted": trusted},
    )
    return df.writeStream.foreachBatch(follower)


class BatchFollower:
    """What `foreachBatch` calls: decide at the current prior, write, add up evidence, update, keep the state."""

    def __init__(
        self,
        model: Any,
        *,
        write: Write,
        state: str | os.PathLike[str],
        prior: PriorLike | Mapping[Any, float] | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._shipped = ShippedModel.of(model, trusted=settings["trusted"])
        self.model: RatioModel = self._shipped.load()
        if self.model.n_classes != 2:
            raise InvalidInputError(
                f"stream_batches needs a model of two classes, got {self.model.n_classes}: "
                "use stream with one constant key, or estimate_prior on each batch"
            )
        start = self.model.prior_ if prior is None else self.model.as_prior(prior)
        if "://" in str(state):
            raise InvalidInputError(f"state must be a file of the driver's file system, got {str(state)!r:.80}")
        self._write, self._path, self._settings = write, Path(state), dict(settings)
        self._after = read_after(self._path)
        self.bank = self._after.bank if self._after is not None else BatchBank(start)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Decide a batch, then update the prior by it, once however often Spark repeats the batch."""
        last, query = self._after, batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if last is not None and None not in (query, last.query) and query != last.query:
            raise InvalidStateError(
                f"{self._path} belongs to the checkpoint of query {last.query}, not of {query}: "
                "use a new state file for a new checkpoint"
            )
        if last is not None and batch_id < last.batch_id:
            raise InvalidStateError(
                f"{self._path} is at batch {last.batch_id}, Spark at {batch_id}: the checkpoint is older than the "
                "state, or another one"
            )
        expected = 0 if last is None else last.batch_id + 1
        if batch_id > expected:
            warnings.warn(
                f"Spark is at batch {batch_id}, {self._path} expects {expected}: the batches between did not update "
                "the prior; was this state lost, or restored from an older copy?",
                stacklevel=2,
            )
        repeated = last is not None and batch_id == last.batch_id
        prior = last.decided_with if last is not None and repeated else self.bank.prior
        require_free(["prior"], batch.columns)
        scored = score(batch, self._shipped, prior=prior, **self._settings)
        decided = scored.withColumn("prior", F.lit(float(prior[1]))).persist()
        try:
            self._write(decided, batch_id)
            if not repeated:
                evidence = binary_evidence(decided.select("log_ratio"), [], _ratios_of_column)
                self.bank.update(total_evidence(row[EVIDENCE] for row in evidence.collect()))
                self._after = AfterBatch(query, batch_id, prior, self.bank)
            if self._after is not None:  # also for a repeated batch: its file may not have been written
                write_after(self._path, self._after)
        finally:
            decided.unpersist()


def _ratios_of_column(table: Any) -> FloatArray:
    """Return the log ratios of two classes, (n, 2), from the column of the second."""
    positive = table["log_ratio"].to_numpy(dtype=np.float64)
    return np.stack([np.zeros(len(positive)), positive], axis=1)
