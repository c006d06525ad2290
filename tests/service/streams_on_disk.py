"""Keep streams in an SQLite file: the real ones, with a look at everything that a refused request must leave alone."""

from pathlib import Path
from typing import Any

from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.stream_hub import StreamHub


class StreamsOnDisk(StreamHub):
    """The service's own streams."""

    def __init__(self, folder: Path, path: Path) -> None:
        store = open_store(str(path))
        super().__init__(store, ModelRegistry(folder, store))

    def state(self) -> dict[str, Any]:
        """Return every stream with its whole log."""
        rows = self._store.streams(after="", limit=1_000, search="", alarmed=False)
        return {row.name: (row, self._store.log(row.id)) for row in rows}
