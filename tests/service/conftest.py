"""Serve a small model to the tests of this folder."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs obil[service]")
pytest.importorskip("prometheus_client", reason="the service needs obil[service]")
pytest.importorskip("pydantic_settings", reason="the service needs obil[service]")
pytest.importorskip("httpx", reason="the tests of the service need httpx")

import httpx
import pandas as pd
from fastapi import FastAPI

import obil
from obil.estimators.table_fit import fit_table
from obil.service.http.app import create_app
from obil.service.service_settings import ServiceSettings
from obil.service.storage.api_keys import SCOPES, make_key
from obil.serving.ratio_model import RatioModel
from tests.service.keys_in_memory import KeysInMemory
from tests.service.streams_in_memory import StreamsInMemory
from tests.service.streams_on_disk import StreamsOnDisk

BASE_URL = "http://127.0.0.1:8642"
ROW = {"amount": 3.2, "age": 41, "country": "DE"}
NOW = 1_800_000_000.0


def payments(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows of two numbers and a category, and labels 0 or 1."""
    random = np.random.default_rng(seed)
    labels = (random.random(n) < 0.2).astype(int)
    rows = {
        "amount": random.normal(2.0 * labels, 1.0),
        "age": random.integers(18, 90, n).astype(float),
        "country": np.where(random.random(n) < 0.3 + 0.4 * labels, "DE", "FR"),
    }
    return pd.DataFrame(rows), labels


@pytest.fixture(scope="session")
def model() -> RatioModel:
    rows, labels = payments(1_500)
    return fit_table(rows, labels, model="logistic").model


class Client:
    """Sends requests to an app without a network."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url=BASE_URL) as client:
                return await client.request(method, path, **request)

        return asyncio.run(send())

    def get(self, path: str, **request: Any) -> httpx.Response:
        return self.request("GET", path, **request)

    def post(self, path: str, **request: Any) -> httpx.Response:
        return self.request("POST", path, **request)

    def put(self, path: str, **request: Any) -> httpx.Response:
        return self.request("PUT", path, **request)

    def delete(self, path: str, **request: Any) -> httpx.Response:
        return self.request("DELETE", path, **request)


@dataclass
class Served:
    """A service that answers, and what stands behind it."""

    app: FastAPI
    client: Client
    streams: Any  # with state(): all that a refused request must leave as it is
    keys: dict[str, str]  # by scope, and "expired", "revoked"


@pytest.fixture(scope="session")
def model_folder(model: RatioModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "model"
    obil.save(model, folder)
    return folder


@pytest.fixture(params=["memory", "disk"])
def make_streams(
    request: pytest.FixtureRequest, model: RatioModel, model_folder: Path, tmp_path: Path
) -> Iterator[Callable[[], Any]]:
    """Return a function that makes streams: those of the tests, and those of the service."""
    made: list[StreamsOnDisk] = []

    def make() -> Any:
        if request.param == "memory":
            return StreamsInMemory(model)
        made.append(StreamsOnDisk(model_folder, tmp_path / f"streams{len(made)}.db"))
        return made[-1]

    yield make
    for streams in made:
        streams.close()


@pytest.fixture
def make_served(make_streams: Callable[[], Any]) -> Callable[..., Served]:
    """Return a function that serves the model with settings of its own."""

    def serve(**settings: Any) -> Served:
        streams = make_streams()
        store, keys = KeysInMemory(), {}
        for scope in SCOPES:
            keys[scope], record = make_key(f"{scope} key", [scope], now=NOW)
            store.add_key(record)
        keys["expired"], record = make_key("old", ["decide"], now=1.0, expires=2.0)
        store.add_key(record)
        keys["revoked"], record = make_key("gone", ["decide"], now=1.0)
        store.add_key(record)
        store.revoke_key(record.id, 2.0)
        app = create_app(streams, ServiceSettings(**settings), store)
        return Served(app, Client(app), streams, keys)

    return serve


@pytest.fixture
def served(make_served: Any) -> Served:
    """Serve on loopback, without keys, with one stream of one decision."""
    served = make_served(max_rows=1_000, max_body_bytes=200_000, upload_bytes=1_000_000)
    answer = served.client.post("/v1/streams/shop/decisions", json={"row": ROW, "id": "first"})
    assert answer.status_code == 200, answer.text
    return served


@pytest.fixture
def locked(make_served: Any) -> Served:
    """Serve with keys required, with one stream of one decision."""
    served = make_served(require_keys=True, max_rows=1_000, max_body_bytes=200_000, upload_bytes=1_000_000)
    key = {"authorization": f"Bearer {served.keys['decide']}"}
    answer = served.client.post("/v1/streams/shop/decisions", json={"row": ROW, "id": "first"}, headers=key)
    assert answer.status_code == 200, answer.text
    return served
