"""Run one online classifier a key inside Spark's state store."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from obil.spark.key_rows import RowLayout, decided_rows
from obil.spark.key_state import KeyRestorer, packed
from obil.spark.shipped_model import ShippedModel

STREAM = "stream"  # the state variable: one, so that a key costs one reading and one writing
STATE = "model string, data binary, pending binary"


class KeyProcessor(StatefulProcessor):
    """Restores the stream of a key, decides its rows, and puts it back; Spark commits all keys at once.

    What waits for labels is a column of its own: it grows with the rows, the stream itself does not.
    """

    def __init__(
        self,
        shipped: ShippedModel,
        replaced: tuple[ShippedModel, ...],
        fresh: tuple[bytes, bytes],
        layout: RowLayout,
        key_columns: list[str],
        expire_after_ms: int | None,
    ) -> None:
        self._shipped, self._replaced, self._fresh = shipped, replaced, fresh
        self._layout, self._key_columns, self._expire_after_ms = layout, key_columns, expire_after_ms
        self._restorer: KeyRestorer | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variable."""
        self._state = handle.getValueState(STREAM, STATE, self._expire_after_ms)

    def handleInputRows(  # noqa: N802  # Spark's name
        self, key: Any, rows: Iterator[Any], timerValues: Any
    ) -> Iterator[Any]:
        """Decide the rows of one key in a micro-batch."""
        if self._restorer is None:
            self._restorer = KeyRestorer(self._shipped, self._replaced, self._fresh)
        known = self._state.get()
        if known is None:
            online = self._restorer.fresh()
        else:
            online = self._restorer.restored(str(known[0]), bytes(known[1]), bytes(known[2]))
        chunks = list(rows)
        table = chunks[0] if len(chunks) == 1 else pd.concat(chunks, ignore_index=True)
        for columns in decided_rows(online, table, self._layout):
            n_rows = len(columns["decision"])
            keys = {name: [value] * n_rows for name, value in zip(self._key_columns, key, strict=True)}
            yield pd.DataFrame(keys | columns, copy=False)  # joining columns of a kind would cost more than deciding
        self._state.update((self._restorer.name, *packed(online)))

    def close(self) -> None:
        """Keep nothing: what a key knows lies in the state store."""
