"""Clients that would take the service down do not: it answers others within a second, in little memory and log."""

import json
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.service.hostile_clients import CLIENTS
from tests.service.models import saved_model

if not Path("/proc/self/status").exists():
    pytest.skip("memory is read from /proc", allow_module_level=True)

OPEN_FILES = 1_024
LONGEST = 1.0  # seconds to an answer
MOST_MEMORY, MOST_LOG = 1_000_000, 1_000_000  # kB over an idle service, bytes


@dataclass
class Running:
    """A service in a process of its own, which may open 1,024 files."""

    pid: int
    port: int
    log: Path
    idle_memory: int = 0

    def memory(self, of: str = "VmHWM") -> int:
        """Return the most memory it ever had, in kB, or what it has now (`VmRSS`)."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(rf"{of}:\s+(\d+) kB", text)[0])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("hostile")
    log = place / "log"
    arguments = ["serve", str(saved_model(place / "model")), "--port", "0", "--store", str(place / "streams.db")]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", "from obil.cli.main import app; app()", *arguments],
            stderr=output,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)),  # noqa: PLW1509
        )
    try:
        until = time.monotonic() + 120.0
        while not (found := re.search(r"obil serves at http://127\.0\.0\.1:(\d+)/", log.read_text())):
            assert time.monotonic() < until, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        running = Running(process.pid, int(found[1]), log)
        first = Prober(running.port)
        first.ask_all()  # machine code is compiled before anything is measured
        first.close()
        running.idle_memory = running.memory("VmRSS")
        yield running
    finally:
        process.kill()
        process.wait()


@dataclass
class Prober:
    """An ordinary client: asks on a connection that it keeps and on new ones, and takes the time."""

    port: int
    slowest: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    n_asked: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)
    _kept: HTTPConnection | None = None

    def run(self) -> None:
        """Ask until told to stop."""
        while not self.stopping.wait(0.05):
            self.ask_all()
        self.close()

    def ask_all(self) -> None:
        """Ask each question once."""
        row = json.dumps({"row": [0.1, 0.2, 0.3]})
        for name, connection in (("kept", self._connection()), ("new", HTTPConnection("127.0.0.1", self.port))):
            self._ask(f"health, {name} connection", connection, "GET", "/healthz")
            self._ask(f"decision, {name} connection", connection, "POST", "/v1/streams/shop/decisions", row)
            if name == "new":
                connection.close()

    def close(self) -> None:
        """Close the connection that was kept."""
        self._connection().close()

    def _connection(self) -> HTTPConnection:
        if self._kept is None:
            self._kept = HTTPConnection("127.0.0.1", self.port)
        return self._kept

    def _ask(self, name: str, connection: HTTPConnection, *request: Any) -> None:
        started = time.monotonic()
        try:
            connection.timeout = 30.0
            connection.request(*request, headers={"content-type": "application/json"})
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                self.failures.append(f"{name}: {response.status}")
        except OSError as error:
            self.failures.append(f"{name}: {error!r}")
            connection.close()
        self.n_asked += 1
        self.slowest[name] = max(self.slowest.get(name, 0.0), time.monotonic() - started)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("idle_connections", {"opened"}),
        ("slow_heads", {"408"}),
        ("slow_bodies", {"408"}),
        ("large_bodies", {"200", "503"}),
        ("many_arrays", {"413"}),
        ("wrong_keys", {"401"}),
    ],
)
def test_a_hostile_client_keeps_nobody_out(service: Running, name: str, expected: set[str]) -> None:
    log_before = service.log.stat().st_size
    prober = Prober(service.port)
    prober.ask_all()  # opens the connection that it keeps
    asking = threading.Thread(target=prober.run)
    asking.start()
    try:
        command = [sys.executable, "-m", "tests.service.hostile_clients", name, str(service.port)]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3], timeout=280
        )
    finally:
        prober.stopping.set()
        asking.join()
    found = json.loads(ran.stdout)
    memory, logged = service.memory() - service.idle_memory, service.log.stat().st_size - log_before
    slowest = max(prober.slowest.values())
    figures = (
        f"{name}: {found}, {prober.n_asked} asked, slowest {slowest:.3f} s, {memory} kB more, {logged} bytes logged"
    )
    print(figures)
    assert not prober.failures, (prober.failures[:5], figures)
    assert slowest < LONGEST, (prober.slowest, figures)
    assert memory < MOST_MEMORY, figures
    assert logged < MOST_LOG, figures
    assert expected <= found.keys(), figures


def test_every_hostile_client_is_tried() -> None:
    tried = test_a_hostile_client_keeps_nobody_out.pytestmark
    names = {name for mark in tried if mark.name == "parametrize" for name, _ in mark.args[1]}
    assert names == CLIENTS.keys()
