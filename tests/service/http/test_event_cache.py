"""What subscribers see is read once for all of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from obil.service.http import event_cache as module
from obil.service.http.event_cache import EventCache
from obil.service.refusals import NotStoredError, UnknownStreamError
from obil.service.streams.operations import Rows, Sender
from tests.service.models import gaussian_rows, saved_model
from tests.service.streams_on_disk import StreamsOnDisk

ROWS = Rows(gaussian_rows(5, 0.3, 1)[0], 5)


@pytest.fixture
def streams(tmp_path: Path) -> Any:
    hub = StreamsOnDisk(saved_model(tmp_path / "model"), tmp_path / "streams.db")
    yield hub
    hub.close()


def counted(streams: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each call of a method."""
    calls, method = [], getattr(streams, name)

    async def call(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        return await method(*arguments, **named)

    monkeypatch.setattr(streams, name, call)
    return calls


def test_twelve_subscribers_of_a_stream_cost_one_report_and_one_look_at_the_store(
    streams: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, looks = counted(streams, "detail", monkeypatch), counted(streams, "changed_since", monkeypatch)

    async def subscribe() -> None:
        await streams.decide("shop", ROWS, Sender())
        cache = EventCache(streams)
        first = await asyncio.gather(*(cache.stream("shop") for _ in range(12)))
        assert (len(reports), len(looks), len(set(first))) == (1, 0, 1)
        monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)
        assert set(await asyncio.gather(*(cache.stream("shop") for _ in range(12)))) == set(first)
        assert (len(reports), len(looks)) == (1, 1)
        await streams.decide("shop", ROWS, Sender())
        later = await cache.stream("shop")
        assert later.seq == first[0].seq + 1
        assert b'"rows":10' in later.content
        assert len(reports) == 2

    asyncio.run(subscribe())


def test_subscribers_of_the_same_page_read_it_once_and_others_their_own(
    streams: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = counted(streams, "page", monkeypatch)

    async def subscribe() -> None:
        await streams.decide("shop", ROWS, Sender())
        cache = EventCache(streams)
        found = await asyncio.gather(
            *(cache.page(after=None, limit=10, search=search, alarmed=False) for search in ("s", "s", "x"))
        )
        assert [page.total for page in found] == [1, 1, 0]
        assert len(pages) == 2

    asyncio.run(subscribe())


def test_an_error_is_told_and_not_kept(streams: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def subscribe() -> None:
        cache = EventCache(streams)
        with pytest.raises(UnknownStreamError):
            await cache.stream("shop")
        await streams.decide("shop", ROWS, Sender())
        seq = (await cache.stream("shop")).seq
        monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)

        async def away(*_: Any) -> None:
            raise NotStoredError("away")

        with monkeypatch.context() as patch:
            patch.setattr(streams, "changed_since", away)
            with pytest.raises(NotStoredError):
                await cache.stream("shop")
        assert (await cache.stream("shop")).seq == seq

    asyncio.run(subscribe())
