"""Measure what viewers cost: processor time of a service per decision, with some pages open on a long stream.

Run: python -m tests.service.viewers --rows 1000000
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import httpx

from tests.service.long_log import make_long_stream
from tests.service.models import gaussian_rows, saved_model
from tests.service.service_process import ServiceLauncher

SECONDS, SETTLE = 15.0, 12.0  # the rest after a start or before a count: what readers may take at once is used up
N_SENDERS = 4
TICKS = os.sysconf("SC_CLK_TCK")


class Viewer(threading.Thread):
    """Does what the page of a stream does: asks once for all of it, and takes events; asks again where it would."""

    def __init__(self, address: str, stream: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._address, self._where, self._stop_asked = address, f"/v1/streams/{stream}", stop
        self.n_events = self.n_bytes = 0

    def run(self) -> None:
        """View until told to stop."""
        with httpx.Client(base_url=self._address, timeout=60.0) as client:
            client.get(self._where)
            client.get(f"{self._where}/history?points=400")
            client.get("/v1/model")
            with client.stream("GET", f"{self._where}/events") as answer:
                for piece in answer.iter_bytes():
                    self.n_bytes += len(piece)
                    self.n_events += piece.count(b"event: stream\n")
                    if self._stop_asked.is_set():
                        return


class Sender(threading.Thread):
    """Decides a row after the other on the stream that is viewed."""

    def __init__(self, address: str, stream: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._connection = HTTPConnection(address.removeprefix("http://"), timeout=60.0)
        self._where, self._stop_asked = f"/v1/streams/{stream}/decisions", stop
        self._body = json.dumps({"row": gaussian_rows(1, 0.2, 3)[0][0].tolist()})
        self.n_decided = 0

    def run(self) -> None:
        """Send until told to stop."""
        while not self._stop_asked.is_set():
            self._connection.request("POST", self._where, self._body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            self.n_decided += 1


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cost(address: str, pid: int, stream: str, n_viewers: int) -> tuple[float, float, float]:
    """Return milliseconds of processor time per decision, decisions per second, and events per viewer and second."""
    stop = threading.Event()
    senders = [Sender(address, stream, stop) for _ in range(N_SENDERS)]
    viewers = [Viewer(address, stream, stop) for _ in range(n_viewers)]
    for thread in (*senders, *viewers):
        thread.start()
    time.sleep(SETTLE)
    began, used, n = time.monotonic(), processor_seconds(pid), sum(one.n_decided for one in senders)
    n_events = sum(one.n_events for one in viewers)
    time.sleep(SECONDS)
    seconds, used = time.monotonic() - began, processor_seconds(pid) - used
    n = sum(one.n_decided for one in senders) - n
    n_events = sum(one.n_events for one in viewers) - n_events
    stop.set()
    for thread in (*senders, *viewers):
        thread.join(10.0)
    return 1e3 * used / n, n / seconds, n_events / max(1, n_viewers) / seconds


def main() -> None:
    """Measure, and print what each number of viewers costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--viewers", type=int, nargs="*", default=[0, 4, 0, 12, 0])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folder = saved_model(place / "model")
        make_long_stream(place / "streams.db", folder, "long", n_rows=options.rows)
        launcher = ServiceLauncher(folder, place)
        try:
            service = launcher.start(str(place / "streams.db"))
            cost(service.address, service._pid, "long", 0)
            for n_viewers in options.viewers:
                milliseconds, rate, events = cost(service.address, service._pid, "long", n_viewers)
                sys.stdout.write(
                    f"{n_viewers} viewers: {milliseconds:.3f} ms of processor time per decision, {rate:.0f} decisions "
                    f"per second, {events:.2f} events per viewer and second\n"
                )
                sys.stdout.flush()
        finally:
            launcher.close()


if __name__ == "__main__":
    main()
