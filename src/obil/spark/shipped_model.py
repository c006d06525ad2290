"""Ship a model to Spark's workers as the bytes of its folder, and load it there once per process."""

import gc
import hashlib
import os
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import Broadcast, SparkContext, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from obil.errors import ModelFileError
from obil.serving.files import listed_files, load, save
from obil.serving.ratio_model import RatioModel


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """The files of a model folder, sent as bytes: `load` checks them before it builds anything.

    Equal fingerprints mean the same model; with the same `trusted`, a process loads it once.
    """

    files: tuple[tuple[str, bytes], ...] = field(compare=False)
    trusted: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(cls, model: Any, *, trusted: Collection[str] = ()) -> "ShippedModel":
        """Read the folder of a model, or write a fitted one to such a folder first."""
        if isinstance(model, ShippedModel):
            return model
        if isinstance(model, str | os.PathLike):
            return cls._read(Path(model), trusted)
        with tempfile.TemporaryDirectory(prefix="obil-") as place:
            save(model, Path(place) / "model")
            return cls._read(Path(place) / "model", trusted)

    @classmethod
    def _read(cls, folder: Path, trusted: Collection[str]) -> "ShippedModel":
        if not folder.is_dir():
            raise ModelFileError(f"there is no folder {folder}: a model is read from the driver's file system")
        files = tuple((name, (folder / name).read_bytes()) for name in listed_files(folder))
        # the manifest holds the hashes of the others
        return cls(files, tuple(sorted(trusted)), hashlib.sha256(files[0][1]).hexdigest())

    def load(self) -> RatioModel:
        """Return the model, checked and built once in this process."""
        return _loaded(self)

    def loader(self, df: DataFrame) -> Callable[[], RatioModel]:
        """Return what loads the model in the workers that process a table.

        The files are broadcast, once per model and application; Spark Connect has no broadcasts, so there they are a
        part of the function that a query sends.
        """
        if not is_classic(df):
            return self.load
        broadcast = _broadcast(df.sparkSession.sparkContext, self)
        return lambda: broadcast.value.load()  # noqa: PLW0108  # the value is read in the worker, not here


def is_classic(df: DataFrame) -> bool:
    """Return whether a table belongs to a session that is not one of Spark Connect."""
    return isinstance(df, ClassicDataFrame)


@lru_cache(maxsize=16)
def _broadcast(context: SparkContext, shipped: ShippedModel) -> Broadcast[ShippedModel]:
    return context.broadcast(shipped)


@lru_cache(maxsize=4)  # a query holds one model, or two during a replacement
def _loaded(shipped: ShippedModel) -> RatioModel:
    with tempfile.TemporaryDirectory(prefix="obil-") as place:
        for name, content in shipped.files:
            (Path(place) / Path(name).name).write_bytes(content)
        model = load(place, trusted=shipped.trusted)
    if TaskContext.get() is not None:
        _freeze_imports()
    return model


def _freeze_imports() -> None:
    """Exempt what this worker has imported and loaded from garbage collection.

    Spark's worker collects after every task, which takes a tenth of a second with scikit-learn and numba in memory.
    """
    gc.collect()
    gc.freeze()
