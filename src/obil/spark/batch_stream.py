"""Decide one huge stream by micro-batches: partitions send evidence, the driver updates one prior."""

import json
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.streaming.readwriter import DataStreamWriter

from obil.arrays import FloatArray, PriorLike, as_prior
from obil.bayes.costs import Costs
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.state.checkpoint import sync_folder
from obil.policies import Policy
from obil.serving.ratio_model import RatioModel
from obil.serving.scorers import ColumnScorer
from obil.spark.batch_bank import BatchBank
from obil.spark.columns import feature_columns, model_input, numbered_features, require_free
from obil.spark.evidence import EVIDENCE, binary_evidence, total_evidence
from obil.spark.scoring import score
from obil.spark.shipped_model import ShippedModel, is_classic

Write = Callable[[DataFrame, int], object]
# the local property with the id of the query, kept in its checkpoint; None if threads are not pinned
QUERY_ID = "sql.streaming.queryId"
KIND = "obil_batches"
FORMAT = 2


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
    if not is_classic(df):
        raise InvalidInputError("stream_batches needs a classic session, got one of Spark Connect: use stream there")
    settings = {"costs": costs, "policy": policy, "positive": positive, "features": features, "trusted": trusted}
    return df.writeStream.foreachBatch(BatchFollower(model, write=write, state=state, prior=prior, settings=settings))


class BatchFollower:
    """What `foreachBatch` calls: decide at the current prior, write, add up evidence, update, keep the state."""

    def __init__(
        self, model: Any, *, write: Write, state: str | os.PathLike[str], prior: Any, settings: Mapping[str, Any]
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
                evidence = self._evidence(decided)
                self.bank.update(total_evidence(row[EVIDENCE] for row in evidence.collect()))
                self._after = AfterBatch(query, batch_id, prior, self.bank)
            if self._after is not None:  # also for a repeated batch: its file may not have been written
                write_after(self._path, self._after)
        finally:
            decided.unpersist()

    def _evidence(self, decided: DataFrame) -> DataFrame:
        """Return the evidence of a batch in parts that add up: the decided log ratios, or those of the folds.

        Where rows are not scores themselves, some may have no feature, which the decided log ratio does not say.
        """
        own = self.model.evidence is None and self.model.n_own_folds == 1
        if own and isinstance(self.model.scorer, ColumnScorer):
            return binary_evidence(decided.select("log_ratio"), [], _ratios_of_column)
        names = feature_columns(decided, self.model, self._settings["features"])
        load = self._shipped.loader(decided)

        def of_rows(rows: Any) -> FloatArray:
            model = load()
            return model.evidence_rows(model_input(rows, names, model))

        return binary_evidence(decided.select(*numbered_features(names)), [], of_rows)


def _ratios_of_column(table: Any) -> FloatArray:
    """Return the log ratios of two classes, (n, 2), from the column of the second."""
    positive = table["log_ratio"].to_numpy(dtype=np.float64)
    return np.stack([np.zeros(len(positive)), positive], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class AfterBatch:
    """A tracker after a micro-batch, with the batch's query, its number and the prior it was decided at.

    Number and prior let a batch that Spark repeats after a crash be decided as before and counted once.
    """

    query: str | None  # the id that Spark keeps in the checkpoint; None if unknown
    batch_id: int
    decided_with: FloatArray  # (K,)
    bank: BatchBank


def read_after(path: Path) -> AfterBatch | None:
    """Return the state in the file, None if there is no file yet."""
    if not path.exists():
        return None
    try:
        saved: Any = json.loads(path.read_text(encoding="utf-8"))
        if saved["kind"] != KIND or saved["format"] != FORMAT:
            raise InvalidStateError(f"{path} is not the state of a stream of batches that this version reads")
        prior = as_prior(saved["decided_with"])
        query = None if saved["query"] is None else str(saved["query"])
        return AfterBatch(query, int(saved["batch"]), prior, BatchBank.from_state(saved["bank"]))
    except (KeyError, TypeError, ValueError, InvalidInputError) as error:
        if isinstance(error, InvalidStateError):
            raise
        raise InvalidStateError(
            f"{path} is damaged ({type(error).__name__}: {error!s:.80}): restore a copy, or start a new checkpoint"
        ) from None


def write_after(path: Path, after: AfterBatch) -> None:
    """Replace the file atomically, and on disk before this returns."""
    saved = {
        "kind": KIND,
        "format": FORMAT,
        "query": after.query,
        "batch": after.batch_id,
        "decided_with": after.decided_with.tolist(),
        "bank": after.bank.state(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(saved, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)
