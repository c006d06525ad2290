"""Several workers on one PostgreSQL behind nginx, which sends all requests of a stream to the same worker."""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from obil.service import Client
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.replay import replay
from tests.service.models import gaussian_rows, saved_model
from tests.service.nginx import free_port, proxied, skip_without_nginx
from tests.service.postgres import PostgresServer, open_test_store, postgres_server, skip_without_postgres
from tests.service.service_process import ServiceLauncher, ServiceProcess

NAMES = [f"stream-{number}" for number in range(30)]
ROWS = gaussian_rows(200, 0.3, 1)[0].tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    skip_without_nginx()
    skip_without_postgres()
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_database()


@pytest.fixture(scope="module")
def launcher(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceLauncher]:
    launcher = ServiceLauncher(folder, tmp_path_factory.mktemp("logs"))
    yield launcher
    launcher.close()


class Workers:
    """Two workers on ports that they keep, behind one proxy."""

    def __init__(self, launcher: ServiceLauncher, url: str) -> None:
        self.ports = [free_port(), free_port()]
        self._launcher, self._url = launcher, url
        self.processes = [self._start(port) for port in self.ports]
        self.address = ""

    def _start(self, port: int) -> ServiceProcess:
        return self._launcher.start(self._url, "--port", str(port))

    def start_again(self, place: int) -> None:
        self.processes[place] = self._start(self.ports[place])

    def decisions(self, place: int) -> dict[str, float]:
        """Return how many decisions of each stream a worker has made, as Prometheus reads it through the proxy."""
        text = httpx.get(f"{self.address}/metrics/{self.ports[place]}", timeout=60.0).text
        found = re.findall(r'^obil_decisions_total\{stream="(.*?)"\} (\S+)$', text, re.MULTILINE)
        return {name: float(value) for name, value in found if float(value)}


@contextmanager
def two_workers(launcher: ServiceLauncher, url: str, place: Path) -> Iterator[Workers]:
    workers = Workers(launcher, url)
    with proxied(place / "nginx", workers.ports) as workers.address:
        yield workers
    for process in workers.processes:
        process.stop()


@pytest.fixture
def workers(launcher: ServiceLauncher, url: str, tmp_path: Path) -> Iterator[Workers]:
    with two_workers(launcher, url, tmp_path) as workers:
        yield workers


def test_each_stream_has_one_worker_and_every_worker_lists_all(workers: Workers) -> None:
    with httpx.Client(base_url=workers.address, timeout=60.0) as client:
        for row in ROWS[:3]:
            for name in NAMES:
                body = {"row": row, "id": "order 7"}
                assert client.post(f"/v1/streams/{name}/decisions", json=body).status_code == 200
                client.get(f"/v1/streams/{name}/history").raise_for_status()
                label = client.post(f"/v1/streams/{name}/labels", json={"id": "order 7", "label": 1})
                assert label.json()["known"] == 1
        first, second = workers.decisions(0), workers.decisions(1)
        assert first.keys() | second.keys() == set(NAMES)
        assert not first.keys() & second.keys()
        assert min(len(first), len(second)) >= 5
        assert set((first | second).values()) == {3.0}
        for address in (workers.address, *(process.address for process in workers.processes)):
            listed = httpx.get(f"{address}/v1/streams", timeout=60.0).json()
            assert [(one["name"], one["rows"]) for one in listed["streams"]] == [(name, 3) for name in sorted(NAMES)]
        assert client.get("/metrics").status_code == 404
        assert client.get("/metrics/1").status_code == 404
        assert client.get("/").status_code == 200


def test_a_stream_that_reaches_the_wrong_worker_is_decided_as_by_one(
    workers: Workers, launcher: ServiceLauncher, folder: Path, tmp_path: Path
) -> None:
    alone = launcher.start(str(tmp_path / "alone.db"))
    addresses = [workers.address, *(process.address for process in workers.processes)]
    with httpx.Client(timeout=60.0) as client:
        for number, row in enumerate(ROWS):
            body = {"row": row, "id": f"order {number}"}
            answers = [
                client.post(f"{address}/v1/streams/shop/decisions", json=body).json()
                for address in (addresses[number % 3], alone.address)
            ]
            assert answers[0] == answers[1]
            if number % 10 == 0:
                label = {"id": f"order {number // 2}", "label": number % 20 // 10}
                for address in (addresses[number % 2], alone.address):
                    assert client.post(f"{address}/v1/streams/shop/labels", json=label).json()["known"] == 1
    assert all(workers.decisions(place)["shop"] > 60.0 for place in range(2))
    alone.stop()


def test_a_worker_that_dies_loses_nothing_and_takes_its_streams_back(workers: Workers, folder: Path, url: str) -> None:
    decided: dict[str, list[int]] = defaultdict(list)
    failed: list[BaseException] = []
    stop = threading.Event()

    def send(names: list[str]) -> None:
        try:
            with Client(workers.address, retries=8) as client:
                number = 0
                while not stop.is_set():
                    for name in names:
                        answer = client.stream(name).decide(ROWS[number % len(ROWS)])
                        decided[name].append(int(answer[0].id))
                    number += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=send, args=(NAMES[place::4],)) for place in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    before = [workers.decisions(place) for place in range(2)]
    workers.processes[0].kill()
    time.sleep(1.0)
    assert workers.decisions(1).keys() >= set(NAMES)  # the other has taken over
    workers.start_again(0)
    deadline = time.monotonic() + 20.0
    while workers.decisions(0).keys() != before[0].keys() and time.monotonic() < deadline:
        time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join(60.0)
    assert not failed, failed
    assert workers.decisions(0).keys() == before[0].keys()
    for name in NAMES:
        assert decided[name] == list(range(len(decided[name])))
    store = open_test_store(url)
    registry = ModelRegistry(folder, store)
    with httpx.Client(timeout=60.0) as client:
        for name in NAMES:
            row = store.stream(name)
            assert row is not None
            online = replay(None, store.log(row.id), registry.get)
            addresses = [f"{process.address}/v1/streams/{name}" for process in workers.processes]
            priors = [client.get(address).json()["prior"] for address in addresses]
            assert priors[0] == priors[1] == dict(zip("01", online.prior.tolist(), strict=True))
            assert online.n_rows == row.n_rows == len(decided[name])
    store.close()
