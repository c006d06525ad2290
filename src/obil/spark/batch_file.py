"""Keep the driver's state between micro-batches in one file, replaced atomically."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obil.arrays import FloatArray, as_prior
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.state.checkpoint import sync_folder
from obil.spark.batch_bank import BatchBank

KIND = "obil_batches"
FORMAT = 2


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
