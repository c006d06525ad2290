"""Keep one online classifier per key in Spark's state store, and decide the keys of a bucket in one call.

A call costs Spark about a millisecond, whatever it does, so keys are not groups: they are hashed into buckets. The
stream of each key is an entry of its bucket's map, so only those of active keys are read and written, and each expires
by itself.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from obil.errors import InvalidStateError
from obil.online.decision import Decisions
from obil.spark.bucket_lines import BucketLines, RowLayout
from obil.spark.key_restorer import KeyRestorer
from obil.spark.shipped_model import ShippedModel

BUCKET = "obil_bucket"
GUARD = -1  # a bucket without keys, called with every batch: it remembers the number of the others
STREAMS, STREAM = "streams", "model string, data binary"
N_BUCKETS = "n_buckets"


class BucketProcessor(StatefulProcessor):
    """Restore the streams of a bucket's active keys, decide their lines, and store them; Spark commits all at once."""

    def __init__(
        self,
        shipped: ShippedModel,
        replaced: tuple[ShippedModel, ...],
        fresh: bytes,
        layout: RowLayout,
        n_buckets: int,
        expire_after_ms: int | None,
    ) -> None:
        self._shipped, self._replaced, self._fresh = shipped, replaced, fresh
        self._layout, self._n_buckets, self._expire_after_ms = layout, n_buckets, expire_after_ms
        self._restorer: KeyRestorer | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables."""
        key = ", ".join(f"{name} string" for name in self._layout.keys)
        self._streams = handle.getMapState(STREAMS, key, STREAM, self._expire_after_ms)
        self._known_buckets = handle.getValueState(N_BUCKETS, "n int")

    def handleInputRows(  # noqa: N802  # Spark's name
        self, key: Any, rows: Iterator[Any], timerValues: Any
    ) -> Iterator[Any]:
        """Decide the lines of one bucket in a micro-batch."""
        chunks = list(rows)
        if key[0] == GUARD:
            self._require_same_buckets()
            return
        if self._restorer is None:
            self._restorer = KeyRestorer(self._shipped, self._replaced, self._fresh)
        table = chunks[0] if len(chunks) == 1 else pd.concat(chunks, ignore_index=True)
        lines, decided = BucketLines(table, self._layout), list[Decisions]()
        for number, name in enumerate(lines.keys):
            known = self._streams.getValue(name)
            online = self._restorer.fresh() if known is None else self._restorer.restored(known[0], bytes(known[1]))
            decided += lines.decided(number, online)
            self._streams.updateValue(name, (self._restorer.name, online.state()))
        if decided:
            # consolidating columns would cost more than deciding
            yield pd.DataFrame(lines.columns(decided), copy=False)

    def close(self) -> None:
        """Do nothing: the streams are in the state store."""

    def _require_same_buckets(self) -> None:
        known = self._known_buckets.get()
        if known is None:
            self._known_buckets.update((self._n_buckets,))
        elif known[0] != self._n_buckets:
            raise InvalidStateError(
                f"this query was started with buckets={self._n_buckets}, its checkpoint has {known[0]}: the number of "
                f"buckets belongs to a checkpoint. Give buckets={known[0]}, or start a new checkpoint"
            )
