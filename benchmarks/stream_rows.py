"""Count the rows per second and the peak memory of `obil stream` on a CSV, loading excluded."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BASELINE = "OBIL_BASELINE_PYTHON"  # the interpreter of an earlier installation, to be measured in the same run

RUN = "import sys, obil.cli.main; obil.cli.main.app(sys.argv[1:])"
# the rows that decide: from the first one read to the last one written
COUNTED = """
import json, resource, sys, time
import obil.cli.main
from obil.cli import stream_run
started = []
go = stream_run.StreamRun.go
def timed(*args, **kwargs):
    started.append((time.perf_counter(), time.process_time()))
    return go(*args, **kwargs)
stream_run.StreamRun.go = timed
try:
    obil.cli.main.app(sys.argv[1:])
except SystemExit as stopped:
    code = stopped.code or 0
wall, cpu = time.perf_counter() - started[0][0], time.process_time() - started[0][1]
modules = sum(name.partition(".")[0] == "obil" for name in sys.modules)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": wall, "core_seconds": cpu, "peak_kilobytes": peak, "modules": modules}))
sys.exit(code)
"""


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return rows per second of waiting and of processor time, peak megabytes, and their ratios to a baseline's."""
    pythons = {"stream": sys.executable}
    if os.environ.get(BASELINE):
        pythons["baseline"] = os.environ[BASELINE]
    n_rows, found = settings["n_rows"], dict[str, list[dict[str, float]]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _draw(settings["training_rows"], settings, seed=0).to_csv(folder / "train.csv", index=False)
        _draw(n_rows, settings, seed=1).drop(columns="y").to_csv(folder / "rows.csv", index=False)
        for who, python in pythons.items():
            fit = [python, "-c", RUN, "fit", "train.csv", "--target", "y", "--drop", "id", "--out", f"model-{who}"]
            _run(fit, folder, who)
        reading = []
        for _ in range(settings["repeats"]):  # in turns, so that a slow moment of the machine hits all alike
            started = time.process_time()
            with (folder / "rows.csv").open(newline="") as file:
                deque(csv.reader(file), maxlen=0)
            reading.append(time.process_time() - started)
            for who, python in pythons.items():
                command = [python, "-c", COUNTED, "stream", f"model-{who}", "rows.csv", "--out", f"{who}.csv"]
                found.setdefault(who, []).append(json.loads(_run([*command, "--overwrite"], folder, who)))
                for left in folder.glob(f"{who}.csv*"):
                    left.unlink()
    reader = n_rows / min(reading)
    figures = {"csv_reader_rows_per_core_second": reader}
    for who, runs in found.items():
        figures[f"{who}_rows_per_second"] = n_rows / min(run["seconds"] for run in runs)
        figures[f"{who}_rows_per_core_second"] = n_rows / min(run["core_seconds"] for run in runs)
        figures[f"{who}_peak_megabytes"] = max(run["peak_kilobytes"] for run in runs) / 1024
        figures[f"{who}_modules"] = max(run["modules"] for run in runs)
    figures["core_seconds_over_csv_reader"] = reader / figures["stream_rows_per_core_second"]
    if "baseline" in found:
        for unit in ("rows_per_second", "rows_per_core_second", "peak_megabytes"):
            figures[f"{unit}_over_baseline"] = figures[f"stream_{unit}"] / figures[f"baseline_{unit}"]
    return figures


def _run(command: list[str], folder: Path, who: str) -> str:
    environment = dict(os.environ)
    if who == "baseline":
        environment.pop("PYTHONPATH", None)  # else it would import what it is compared with
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{who} failed: {done.stderr[-2_000:]}")
    return done.stdout.strip().rpartition("\n")[2]


def _draw(n_rows: int, settings: dict[str, Any], *, seed: int) -> pd.DataFrame:
    """Return payments: numbers, some of them missing, and two categorical columns."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n_rows) < settings["prior"]
    columns: dict[str, Any] = {"id": np.arange(n_rows) * 7 % n_rows}
    for place in range(settings["n_numbers"]):
        values = np.round(rng.normal(fraud * settings["separation"] / (place + 1), 1.0), 4)
        values[rng.random(n_rows) < 0.02] = np.nan
        columns[f"x{place}"] = values
    columns["country"] = rng.choice(["AT", "CH", "DE", "FR", "IT", "NL", "PL", "ES"], n_rows)
    columns["channel"] = np.where(fraud ^ (rng.random(n_rows) < 0.3), "web", "shop")
    columns["y"] = np.where(fraud, "fraud", "ok")
    return pd.DataFrame(columns)
