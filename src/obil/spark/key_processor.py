"""Run one online classifier per key inside Spark's state store."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from obil.spark.key_rows import RowLayout, decided_rows
from obil.spark.key_state import KeyRestorer, packed
from obil.spark.shipped_model import ShippedModel

STREAM = "stream"  # one state variable: one read and one write per key
STATE = "model string, data binary, pending binary"


class KeyProcessor(StatefulProcessor):
    """Restore the stream of a key, decide its rows, and store it; Spark commits all keys at once.

    Decisions that wait for labels have their own column: they grow with the rows, the rest does not.
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
            yield pd.DataFrame(keys | columns, copy=False)  # consolidating columns would cost more than deciding
        self._state.update((self._restorer.name, *packed(online)))

    def close(self) -> None:
        """Do nothing: the state is in the state store."""
