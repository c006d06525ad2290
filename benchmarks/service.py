"""Hold the service against an empty endpoint of the same framework, many streams against few, and weigh idle ones."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

import obil
from obil.datasets.gaussian_stream import GaussianClasses
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import Rows, Sender, StreamSettings
from obil.service.streams.stream_hub import StreamHub

HERE = Path(__file__).parent
START_SECONDS = 60.0


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return rates and latencies as ratios to an empty endpoint's, taken in turns, and what streams cost."""
    with tempfile.TemporaryDirectory(prefix="obil-bench-") as place:
        folder = Path(place)
        rows = _save_models(folder, settings)
        figures = _speed(folder, rows, settings) | _round_robin(folder, rows, settings)
        plain, with_views = (
            _idle_streams(folder, model, rows, settings) | _paging(folder, model, rows, settings)
            for model in ("plain", "views")
        )
        return figures | plain | {f"{name}_with_views": value for name, value in with_views.items()}


def _save_models(folder: Path, settings: dict[str, Any]) -> np.ndarray:
    """Save five networks with four views of the rows, and five without; return rows to decide."""
    classes = GaussianClasses.spread(2.0, n_features=settings["n_features"])
    training = classes.draw(np.full(settings["training_rows"], 0.05), random_state=0)
    for name in ("views", "plain"):
        model = obil.OBILClassifier(member="mlp", n_members=5, views=name == "views", random_state=0)
        obil.save(model.fit(training.features, training.labels), folder / name)
    return classes.draw(np.full(5_000, 0.05), random_state=1).features


def _speed(folder: Path, rows: np.ndarray, settings: dict[str, Any]) -> dict[str, float]:
    single = [_post("/v1/streams/bench/decisions", {"row": row.tolist()}) for row in rows[:500]]
    parts = [{"rows": part.tolist()} for part in np.array_split(rows, 5)]
    many, parsed = ([_post(path, part) for part in parts] for path in ("/v1/streams/bulk/decisions", "/rows"))
    works = {
        "empty": ([_post("/empty", {})], 32),
        "single": (single, 32),
        "empty_alone": ([_post("/empty", {})], 1),
        "single_alone": (single, 1),
        "empty_many": (parsed, 4),
        "many": (many, 4),
    }
    files = {}
    for name, (requests, _) in works.items():
        files[name] = folder / f"{name}.requests"
        files[name].write_text("\n".join(request.hex() for request in requests))
    best: dict[str, tuple[float, float]] = {}
    with (
        _served(_serve_command(folder, "speed.db")) as (ours, _),
        _served([sys.executable, str(HERE / "empty_service.py")]) as (empty, _),
    ):
        for _ in range(settings["repeats"]):  # in turns, so that a slow moment of the machine hits all alike
            for name, (_, connections) in works.items():
                port = empty if name.startswith("empty") else ours
                rate, _, p99 = _load(port, connections, settings["seconds"], files[name])
                before = best.get(name, (0.0, np.inf))
                best[name] = max(rate, before[0]), min(p99, before[1])
    figures = {
        "single_rate_over_empty": best["single"][0] / best["empty"][0],
        "single_p99_over_empty": best["single"][1] / best["empty"][1],
        "alone_rate_over_empty": best["single_alone"][0] / best["empty_alone"][0],
        "many_rate_over_empty": best["many"][0] / best["empty_many"][0],
        "rows_of_many_over_single": 1_000.0 * best["many"][0] / best["single"][0],
    }
    for name, (rate, p99) in best.items():
        figures |= {f"{name}_a_second": rate, f"{name}_p99_ms": p99}
    return figures


def _round_robin(folder: Path, rows: np.ndarray, settings: dict[str, Any]) -> dict[str, float]:
    """Return the rate of single rows of many streams in turns, over that of few."""
    files, rates = {}, {"few": 0.0, "many": 0.0}
    for name in rates:
        streams = range(settings[f"{name}_streams"])
        requests = [_post(f"/v1/streams/{name}-{i}/decisions", {"row": rows[i % len(rows)].tolist()}) for i in streams]
        files[name] = folder / f"{name}_streams.requests"
        files[name].write_text("\n".join(request.hex() for request in requests))
    with _served(_serve_command(folder, "round_robin.db")) as (port, process):
        before, n_answered = _resident_bytes(process), 0.0
        while n_answered < settings["many_streams"]:  # the first round creates the streams
            n_answered += settings["seconds"] * _load(port, 32, settings["seconds"], files["many"])[0]
        for _ in range(settings["repeats"]):
            for name, best in rates.items():
                rates[name] = max(best, _load(port, 32, settings["seconds"], files[name])[0])
        resident = _resident_bytes(process) - before
    return {
        "many_streams_over_few": rates["many"] / rates["few"],
        "few_streams_a_second": rates["few"],
        "many_streams_a_second": rates["many"],
        "kilobytes_a_stream_in_memory": resident / settings["many_streams"] / 1e3,
    }


def _paging(folder: Path, model: str, rows: np.ndarray, settings: dict[str, Any]) -> dict[str, float]:
    """Return what a request costs whose stream is restored from the store, and one to a stream in memory."""
    n_streams, path = settings["paged_streams"], folder / f"paged_{model}.db"

    def open_hub() -> StreamHub:
        store = open_store(str(path))
        return StreamHub(store, ModelRegistry(folder / model, store))

    async def decide_all(hub: StreamHub, part: Rows) -> None:
        for first in range(0, n_streams, 32):
            names = [f"stream-{number}" for number in range(first, min(first + 32, n_streams))]
            await asyncio.gather(*(hub.decide(name, part, Sender()) for name in names))

    hub = open_hub()
    asyncio.run(decide_all(hub, Rows(rows[: settings["idle_rows"]], settings["idle_rows"])))
    hub.close()
    hub, milliseconds = open_hub(), []
    for _ in ("paged in", "in memory"):
        started = time.process_time()  # of all threads
        asyncio.run(decide_all(hub, Rows(rows[:1], 1)))
        milliseconds.append(1e3 * (time.process_time() - started) / n_streams)
    hub.close()
    return {"paged_in_milliseconds": milliseconds[0], "in_memory_milliseconds": milliseconds[1]}


def _resident_bytes(process: int) -> float:
    """Return the memory that a process uses; on Linux, from /proc, nan elsewhere."""
    statm = Path(f"/proc/{process}/statm")
    return float(int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")) if statm.exists() else float("nan")


def _idle_streams(folder: Path, model: str, rows: np.ndarray, settings: dict[str, Any]) -> dict[str, float]:
    """Return what streams cost that have decided some rows and are idle now: bytes on disk, streams in memory."""
    n_streams, n_rows = settings["idle_streams"], settings["idle_rows"]
    path = folder / f"idle_{model}.db"

    def open_hub() -> StreamHub:
        store = open_store(str(path))
        no_labels = StreamSettings(horizon=0)  # rows that wait for labels are not what is weighed
        return StreamHub(store, ModelRegistry(folder / model, store), defaults=no_labels, max_streams=256)

    hub = open_hub()
    before = _size(folder, path.name)
    own = Rows(rows[:n_rows], n_rows)

    async def fill() -> None:
        for first in range(0, n_streams, 128):
            names = [f"stream-{number}" for number in range(first, min(first + 128, n_streams))]
            await asyncio.gather(*(hub.decide(name, own, Sender()) for name in names))

    started = time.perf_counter()
    asyncio.run(fill())
    seconds = time.perf_counter() - started
    hub.close()
    a_stream = (_size(folder, path.name) - before) / n_streams
    again = open_hub()
    in_memory = again.n_live
    started = time.perf_counter()
    asyncio.run(again.decide("stream-7", Rows(rows[:1], 1), Sender()))
    wake = time.perf_counter() - started
    again.close()
    return {
        "idle_megabytes_for_100_000": (before + 100_000 * a_stream) / 1e6,
        "idle_bytes_a_stream": a_stream,
        "idle_streams_in_memory": float(in_memory),
        "wake_milliseconds": wake * 1e3,
        "new_streams_a_second": n_streams / seconds,
    }


def _serve_command(folder: Path, store: str) -> list[str]:
    program = Path(sys.executable).parent / "obil"
    return [str(program), "serve", str(folder / "views"), "--store", str(folder / store), "--port"]


def _size(folder: Path, name: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"{name}*"))


def _post(path: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
    )
    return head.encode() + b"\r\n" + text


@contextmanager
def _served(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Run a server on a free port until the end; give the port and the number of its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryFile() as log, _running([*command, str(port)], log) as process:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(log.read().decode()[-2_000:]) from None
                time.sleep(0.1)
        yield port, process.pid


@contextmanager
def _running(command: Sequence[str], log: IO[bytes]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _load(port: int, connections: int, seconds: float, requests: Path) -> tuple[float, float, float]:
    """Return answers a second, median and p99 in milliseconds, as another process measures them."""
    command = [sys.executable, str(HERE / "http_load.py"), str(port), str(connections), str(seconds), str(requests)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(found.stderr[-2_000:])
    rate, median, p99 = map(float, found.stdout.split())
    return rate, median, p99
