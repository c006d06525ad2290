import asyncio
from pathlib import Path

import pytest

from obil.service.refusals import NotStoredError
from obil.service.storage.store import StoreProbe, open_store
from obil.service.storage.writing import Writing


def test_many_who_ask_write_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path / "streams.db"))
    written: list[str] = []
    monkeypatch.setattr(Writing, "set_meta", lambda _self, name, _value: written.append(name))
    probe = StoreProbe(store)

    async def ask_often() -> list[bool]:
        return await asyncio.gather(*(probe.ready() for _ in range(20)))

    assert all(asyncio.run(ask_often()))
    assert written == ["probe", "probe"]
    store.close()


def test_a_store_that_failed_is_asked_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotStoredError("full")

    store = open_store(str(tmp_path / "streams.db"))
    probe = StoreProbe(store)
    with monkeypatch.context() as broken:
        broken.setattr(Writing, "set_meta", refuse)
        assert not asyncio.run(probe.ready())
    assert asyncio.run(probe.ready())
    store.close()
