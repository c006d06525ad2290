"""Measure what a second worker costs: processor time per decision of one and of two workers behind nginx.

Run: python -m tests.service.workers
"""

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.service import _post
from tests.service.models import gaussian_rows, saved_model
from tests.service.nginx import proxied
from tests.service.postgres import postgres_server
from tests.service.service_process import ServiceLauncher
from tests.service.viewers import processor_seconds

LOAD = Path(__file__).parents[2] / "benchmarks" / "http_load.py"
STREAMS = 200


def load(address: str, requests: Path, *, connections: int, seconds: float) -> float:
    """Send single rows over some connections; return how many were answered per second."""
    port = address.rpartition(":")[2]
    command = [sys.executable, str(LOAD), port, str(connections), str(seconds), str(requests)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])


def main() -> None:
    """Measure both in turns, and print the median of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, postgres_server() as server, ExitStack() as proxies:
        place = Path(name)
        launcher = ServiceLauncher(saved_model(place / "model", views=True), place)
        requests = place / "single.requests"
        rows = gaussian_rows(STREAMS, 0.1, 2)[0].tolist()
        bodies = [_post(f"/v1/streams/stream-{number}/decisions", {"row": row}) for number, row in enumerate(rows)]
        requests.write_text("\n".join(body.hex() for body in bodies))
        how = {"connections": options.connections, "seconds": options.seconds}
        try:
            fronts = []
            for n_workers in (1, 2):
                url = server.new_database()
                workers = [launcher.start(url) for _ in range(n_workers)]
                ports = [int(one.address.rpartition(":")[2]) for one in workers]
                address = proxies.enter_context(proxied(place / f"nginx-{n_workers}", ports, rate=100_000))
                load(address, requests, **how)  # opens the streams
                fronts.append((address, workers))
            ratios = []
            for _ in range(options.turns):  # at once after each other: the machine may be busy with other things
                milliseconds = []
                for address, workers in fronts:
                    used = sum(processor_seconds(one._pid) for one in workers)
                    rate = load(address, requests, **how)
                    used = sum(processor_seconds(one._pid) for one in workers) - used
                    milliseconds.append(1e3 * used / (rate * options.seconds))
                    sys.stdout.write(f"{len(workers)} workers: {milliseconds[-1]:.3f} ms, {rate:.0f} per second; ")
                ratios.append(milliseconds[1] / milliseconds[0])
                sys.stdout.write(f"ratio {ratios[-1]:.3f}\n")
                sys.stdout.flush()
        finally:
            launcher.close()
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    sys.stdout.write(f"two workers over one: {median:.3f} (quartiles {low:.3f} and {high:.3f})\n")


if __name__ == "__main__":
    main()
