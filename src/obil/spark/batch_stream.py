"""Decide one huge stream a micro-batch at a time: partitions send evidence, the driver moves one prior."""

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # what every Spark program calls it
from pyspark.sql.streaming.readwriter import DataStreamWriter

from obil.arrays import FloatArray, PriorLike
from obil.bayes.costs import Costs
from obil.errors import InvalidInputError, InvalidStateError
from obil.policies import Policy
from obil.serving.ratio_model import RatioModel
from obil.spark.batch_bank import BatchBank
from obil.spark.batch_file import AfterBatch, read_after, write_after
from obil.spark.decision_columns import require_free
from obil.spark.evidence_rows import binary_from_bytes
from obil.spark.log_ratio_evidence import evidence_of_log_ratios
from obil.spark.scoring import score
from obil.spark.shipped_model import ShippedModel
from obil.trackers.evidence import BinaryEvidence

Write = Callable[[DataFrame, int], object]
# where Spark says which query a batch is of, one for ever in a checkpoint; None where threads are not pinned
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
    """Return a writer that decides each micro-batch at one prior, then lets the batch move it; start it yourself.

    Parameters
    ----------
    df
        A streaming table.
    model
        A model folder or a fitted classifier, of two classes.
    write
        Takes a decided batch, with the columns of `score` and the `prior` of `classes_[1]` that it was decided at, and
        its number. After a crash Spark may repeat the last batch: it is then decided as
        before, and `write` has to put it in the same place.
    state
        A file of the driver that holds the prior between batches, replaced whole after each. It belongs to one
        checkpoint: a query with another one is refused.
    prior
        Where the stream starts; the training prior if None.
    costs, policy, positive, features, trusted
        As for `score`.

    Notes
    -----
    Labels have no say here, and no monitor watches: `stream` has both.

    >>> query = stream_batches(rows, "model/", write=write_batch, state="prior.json").start()  # doctest: +SKIP
    """
    if not df.isStreaming:
        raise InvalidInputError("stream_batches follows a streaming table: a plain one takes score and estimate_prior")
    follower = BatchFollower(
        model,
        write=write,
        state=state,
        prior=prior,
        settings={"costs": costs, "policy": policy, "positive": positive, "features": features, "trusted": trusted},
    )
    return df.writeStream.foreachBatch(follower)


class BatchFollower:
    """What `foreachBatch` calls: decide at the prior of now, write, gather evidence, absorb it, keep the state."""

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
                f"batches are followed for two classes, the model has {self.model.n_classes}: "
                "use stream with one constant key, or estimate_prior on each batch"
            )
        start = self.model.prior_ if prior is None else self.model.as_prior(prior)
        if "://" in str(state):
            raise InvalidInputError(f"the state is a file of the driver's own file system, got {str(state)!r:.80}")
        self._write, self._path, self._settings = write, Path(state), dict(settings)
        self._after = read_after(self._path)
        self.bank = self._after.bank if self._after is not None else BatchBank(start)

    @property
    def prior(self) -> FloatArray:
        """The prior that the next batch is decided with, (2,)."""
        return self.bank.prior

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Decide a batch, then let it vote, once however often Spark repeats it."""
        last, query = self._after, batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if last is not None and None not in (query, last.query) and query != last.query:
            raise InvalidStateError(
                f"{self._path} belongs to another checkpoint, that of query {last.query}, and this is {query}: a new "
                "checkpoint wants a new state file"
            )
        if last is not None and batch_id < last.batch_id:
            raise InvalidStateError(
                f"{self._path} is at batch {last.batch_id}, Spark at {batch_id}: the checkpoint is older than the "
                "state, or another one"
            )
        expected = 0 if last is None else last.batch_id + 1
        if batch_id > expected:
            warnings.warn(
                f"Spark is at batch {batch_id}, {self._path} expects {expected}: the prior knows nothing of those "
                "between; was this state lost, or put back from an older copy?",
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
                evidence = BinaryEvidence.empty()
                for row in evidence_of_log_ratios(decided, "log_ratio").collect():
                    evidence = evidence + binary_from_bytes(bytes(row["evidence"]))
                self.bank.absorb(evidence)
                self._after = AfterBatch(query, batch_id, prior, self.bank)
            if self._after is not None:  # of a repeated batch too: it may be repeated because the file was not written
                write_after(self._path, self._after)
        finally:
            decided.unpersist()
