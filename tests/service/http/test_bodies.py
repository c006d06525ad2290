import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from obil.service.http.bodies import UNCOUNTED, Bodies, Body
from obil.service.refusals import BadInputError, BusyError, TooLargeError, TooSlowError


def bodies(**limits: Any) -> Bodies:
    return Bodies(**{"max_bytes": 400_000, "memory_bytes": 500_000, "seconds": 0.2, "most": 10} | limits)


def sent(*parts: bytes) -> Callable[[], Awaitable[Any]]:
    """Return a `receive` that gives some parts; after the last one it says that no more come."""
    left = list(parts)

    async def receive() -> Any:
        part = left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    return receive


async def never() -> Any:
    await asyncio.Event().wait()


def read(of: Bodies, *parts: bytes, length: bytes | None = None) -> Body:
    return asyncio.run(of.read(sent(*parts), length))


def test_reads_a_body_whole() -> None:
    assert read(bodies(), b"12", b"", b"34", length=b"4").content == b"1234"
    assert read(bodies(), b"12").content == b"12"


@pytest.mark.parametrize("length", [b"400001", b"9" * 30])
def test_refuses_a_body_that_announces_too_much_before_reading_it(length: bytes) -> None:
    with pytest.raises(TooLargeError, match="400,000 bytes"):
        asyncio.run(bodies().read(never, length))


def test_refuses_a_body_in_chunks_once_it_is_too_large() -> None:
    of = bodies()
    with pytest.raises(TooLargeError):
        read(of, *[b" " * 50_000] * 9)
    assert of.held_bytes == 0


@pytest.mark.parametrize("length", [b"-1", b"+1", b"1 2", b"0x1", b""])
def test_refuses_a_length_that_is_no_number(length: bytes) -> None:
    with pytest.raises(BadInputError, match="whole number"):
        read(bodies(), b"1", length=length)


def test_large_bodies_count_until_they_are_released_and_small_ones_never() -> None:
    of = bodies()
    held = read(of, b" " * 300_000, length=b"300000")
    assert of.held_bytes == held.held == 300_000
    with pytest.raises(BusyError, match="300,000 bytes"):
        read(of, b"", length=b"300000")
    with pytest.raises(BusyError):  # in chunks: it may become as large as any
        read(of, b" " * 70_000, b"")
    assert read(of, b" " * UNCOUNTED, length=str(UNCOUNTED).encode()).held == 0
    of.release(held.held)
    assert of.held_bytes == 0
    assert read(of, b" " * 70_000, b"").held == 400_000


def test_one_body_fits_whatever_the_memory() -> None:
    assert read(bodies(memory_bytes=1_000), b" " * 300_000, length=b"300000").held == 300_000


def test_a_body_that_does_not_come_is_given_up_and_no_longer_counts() -> None:
    of = bodies()
    with pytest.raises(TooSlowError, match=r"within 0\.2 s"):
        asyncio.run(of.read(never, b"300000"))
    assert of.held_bytes == 0


def test_a_client_that_leaves_is_no_body() -> None:
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    of = bodies()
    with pytest.raises(ClientDisconnect):
        asyncio.run(of.read(gone, b"300000"))
    assert of.held_bytes == 0


def test_the_slowest_body_makes_room_for_a_new_one() -> None:
    async def run() -> list[str]:
        of = bodies(most=2, seconds=60.0)
        slow = [asyncio.create_task(of.read(never, b"10")) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await of.read(sent(b"quick"), b"5")).content == b"quick"
        await asyncio.wait(slow[:1], timeout=5.0)
        states = [type(slow[0].exception()).__name__, str(slow[1].done())]
        slow[1].cancel()
        return states

    assert asyncio.run(run()) == ["TooSlowError", "False"]
