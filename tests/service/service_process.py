"""Start real processes of `obil serve` fast: forks of one that has imported everything."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.service.postgres import SECRET_FILE

PATIENCE = 60.0  # seconds
SERVER = """
import asyncio, ctypes, json, os, pathlib, signal, sys, tempfile
import numpy as np
import obil.cli.main, obil.service.running
import skops.io, sklearn.linear_model
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Label, Rows, Sender
from obil.service.storage.store import open_store
from obil.service.streams.stream_hub import StreamHub
try:
    import psycopg, obil.service.storage.postgres_database
except ImportError:
    pass

async def warm_up(hub):  # what is compiled once is there in every fork
    await hub.decide("warm", Rows(np.zeros((3, hub.model.scorer.n_features)), 3), Sender())
    await hub.label("warm", [Label(0, hub.model.classes_[0].item())], Sender())
    await hub.detail("warm")

with tempfile.TemporaryDirectory() as place:
    store = open_store(place + "/warm.db")
    hub = StreamHub(store, ModelRegistry(pathlib.Path(sys.argv[1]), store))
    asyncio.run(warm_up(hub))
    hub.close()
while line := sys.stdin.readline():
    request = json.loads(line)
    if "wait" in request:
        print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # not to outlive a test that was ended
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
        code = 99
        os.environ.update(request["environment"])
        try:
            obil.cli.main.app(request["args"])
        except SystemExit as exit_:
            code = exit_.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    print(pid, flush=True)
"""


class ServiceLauncher:
    """Starts services of one model folder."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self._folder, self._logs, self._n_started = folder, logs, 0
        self._running: list[ServiceProcess] = []
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def begin(self, store: str, *options: str, folder: Path | None = None, **settings: int) -> "ServiceProcess":
        """Start a service, without waiting until it answers."""
        self._n_started += 1
        log = self._logs / f"service-{self._n_started}.log"
        args = ["serve", str(folder or self._folder), "--port", "0", "--store", store, *options]
        environment = {f"OBIL_SERVICE_{name.upper()}": str(value) for name, value in settings.items()}
        environment |= {"OBIL_SERVICE_SECRET_FILE": str(SECRET_FILE)} if store.startswith("postgresql") else {}
        process = ServiceProcess(self, self.ask({"args": args, "log": str(log), "environment": environment}), log)
        self._running.append(process)
        return process

    def start(self, store: str, *options: str, folder: Path | None = None, **settings: int) -> "ServiceProcess":
        """Start a service and wait until it answers."""
        process = self.begin(store, *options, folder=folder, **settings)
        process.wait_until_it_answers()
        return process

    def close(self) -> None:
        """End all services that still run."""
        for process in self._running:
            process.kill()
        self._server.communicate()

    def ask(self, request: Any) -> int:
        """Have the process that forks do something; return its answer."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


class ServiceProcess:
    """One service that runs, or did."""

    def __init__(self, launcher: ServiceLauncher, pid: int, log: Path) -> None:
        self._launcher, self._pid, self._log = launcher, pid, log
        self.exit_code: int | None = None
        self.address = ""

    def wait_until_it_answers(self) -> None:
        """Wait for the line that says where it listens."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = re.search(r"obil serves at (http://\S+)/", self.log())
            if found:
                self.address = found[1]
                return
            time.sleep(0.02)
        raise RuntimeError(f"the service does not start: {self.log()[-3_000:]}")

    def log(self) -> str:
        """Return what it has said so far."""
        return self._log.read_text() if self._log.exists() else ""

    def kill(self) -> int:
        """End it in mid-work, by kill -9."""
        return self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Have it stop cleanly; return its exit code."""
        return self._end(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        if self.exit_code is None:
            self.exit_code = self._launcher.ask({"wait": self._pid})
        return self.exit_code

    def _end(self, sign: signal.Signals) -> int:
        if self.exit_code is None:  # until it was waited for, its id belongs to no other process
            os.kill(self._pid, sign)
        return self.wait()


def kill_all(processes: Sequence[ServiceProcess]) -> None:
    """End processes in mid-work, all of them before any is waited for."""
    for process in processes:
        if process.exit_code is None:
            os.kill(process._pid, signal.SIGKILL)
    for process in processes:
        process.wait()
