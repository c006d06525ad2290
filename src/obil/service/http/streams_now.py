"""Read from the store what /metrics says of streams, so that an alarm is seen whoever asked for it, and when."""

from collections.abc import Sequence

from obil.service.http.metrics import ServiceMetrics, StreamsNow
from obil.service.records import StreamSummary
from obil.service.streams.stream_hub import StreamHub

MOST_ALARMED = 5_000  # exported one by one; a service with more has another problem, and `obil_streams` counts them all
_PAGE = 1_000


class StreamsReader:
    """Reads the streams that are exported: every alarmed one, and those that the metrics name.

    After a start the metrics name streams of the store, by name, so that none is missing until its next row.
    """

    def __init__(self, streams: StreamHub, metrics: ServiceMetrics) -> None:
        self._streams, self._metrics, self._named = streams, metrics, False

    async def read(self) -> StreamsNow:
        """Return how many streams there are, and a summary of each that is exported."""
        first = await self._streams.page(limit=1 if self._named else max(1, min(self._metrics.max_streams, _PAGE)))
        if not self._named:
            self._metrics.name(one.name for one in first.streams)
            self._named = True
        alarmed, n_alarmed = await self._alarmed()
        known = {one.name for one in alarmed}
        others = dict.fromkeys((name for name in self._metrics.named if name not in known), -1)
        return StreamsNow(
            max(first.total, n_alarmed), n_alarmed, [*alarmed, *await self._streams.changed_since(others)]
        )

    async def _alarmed(self) -> tuple[Sequence[StreamSummary], int]:
        found: list[StreamSummary] = []
        after: str | None = None
        while True:
            page = await self._streams.page(after=after, limit=_PAGE, alarmed=True)
            found += page.streams
            after = page.next
            if after is None or len(found) >= MOST_ALARMED:
                return found, page.total
