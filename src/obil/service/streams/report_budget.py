"""Bound the processor time that reports take from decisions, and make one report for all who wait for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

FRACTION = 0.06  # of one processor
BURST = 1.0  # seconds of processor time after a rest: few readers never wait

Result = TypeVar("Result")


class ReportBudget:
    """Starts reports one after the other, and not before those so far are within the budget.

    Whoever asks for a report that waits to start gets that one; never one that was begun before it was asked for.
    """

    def __init__(self, *, fraction: float = FRACTION, burst: float = BURST) -> None:
        self._fraction, self._burst = fraction, burst
        self._credit, self._counted_at = burst, time.monotonic()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._turn = asyncio.Lock()

    def charge(self, seconds: float) -> None:
        """Count processor time that a report took; from any thread."""
        now = time.monotonic()
        earned = (now - self._counted_at) * self._fraction
        self._credit = min(self._credit + earned, self._burst) - seconds
        self._counted_at = now

    async def read(self, name: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        """Make a report in its turn, or wait for the one of that name that has not started yet."""
        task = self._waiting.get(name)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._waiting[name] = asyncio.create_task(self._make(name, make))
            task.add_done_callback(_note_error)
        result: Result = await asyncio.shield(task)  # others wait for it too
        return result

    async def _make(self, name: Hashable, make: Callable[[], Awaitable[Result]]) -> Result:
        try:
            async with self._turn:
                self.charge(0.0)
                if self._credit < 0.0:
                    await asyncio.sleep(-self._credit / self._fraction)
                self._waiting.pop(name, None)
                return await make()
        finally:
            if self._waiting.get(name) is asyncio.current_task():
                del self._waiting[name]


def _note_error(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # seen, also where whoever asked has gone
