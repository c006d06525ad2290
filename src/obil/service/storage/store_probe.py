"""Find out whether a store can be written to, by writing to it, once a second at most."""

import asyncio
import threading
import time

from obil.errors import ObilError
from obil.service.storage.store import Store

LONGER_THAN_A_PAGE = 10_000  # of either database, in bytes
READY_SECONDS = 1.0  # for which a store that was written to is taken for ready


class StoreProbe:
    """Writes what a few decisions would take.

    Whoever likes may ask, without a key: together they cost the disk next to nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._one, self._ready_until = store, threading.Lock(), 0.0

    async def ready(self) -> bool:
        """Return whether the store can be written to."""
        try:
            if time.monotonic() >= self._ready_until:
                await asyncio.to_thread(self._write)
        except ObilError:
            return False
        return True

    def _write(self) -> None:
        with self._one:
            if time.monotonic() < self._ready_until:
                return  # somebody else has written while this one waited
            with self._store.writing() as session:
                session.set_meta("probe", "-" * LONGER_THAN_A_PAGE)  # where a page is full, one word may still fit
                session.set_meta("probe", "1")
            self._ready_until = time.monotonic() + READY_SECONDS
