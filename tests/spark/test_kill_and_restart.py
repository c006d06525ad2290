"""kill -9 in mid-stream, again and again, loses nothing and doubles nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import obil
from tests.online.cases import pair_model
from tests.spark.conftest import SRC
from tests.spark.test_keyed_stream import alone, assert_same, lines_of, run_query, write_batches
from tests.thorough import THOROUGH, repeats

KILLS = repeats(1, 5)
BATCHES = repeats(6, 18)
PATIENCE = 300.0  # seconds for one run to come where it is to be killed


def _finished_batches(place: Path) -> int:
    commits = place / "checkpoint" / "commits"
    return len([one for one in commits.iterdir() if one.name.isdigit()]) if commits.exists() else 0


def _start(source: Path, place: Path, model: Path) -> "subprocess.Popen[bytes]":
    (place / "java.pid").unlink(missing_ok=True)
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(SRC), str(SRC.parent), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "tests.spark.killed_query", str(source), str(place), str(model)]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=SRC.parent)


def _kill_java(process: "subprocess.Popen[bytes]", place: Path) -> None:
    os.kill(int((place / "java.pid").read_text()), signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    process.kill()  # its Java is gone; what is left of it waits for an answer
    process.wait()


@pytest.mark.slow
@pytest.mark.timeout(2_400)
def test_kills_lose_no_row_and_double_none(spark: Any, tmp_path: Path) -> None:
    lines, model = lines_of(8, repeats(110, 240), labels_every=9), pair_model()
    write_batches(lines, tmp_path / "in", BATCHES, seed=3)
    obil.save(model, tmp_path / "model")
    place, random = tmp_path / "killed", np.random.default_rng(0)
    place.mkdir()
    killed_after = []
    for kill in range(KILLS):
        # in the middle of the work: after a few more batches, at any moment of the next
        wanted = _finished_batches(place) + int(random.integers(1, 4))
        process = _start(tmp_path / "in", place, tmp_path / "model")
        end = time.monotonic() + PATIENCE
        while _finished_batches(place) < wanted and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(float(random.random()))
        assert process.poll() is None, (place / "log").read_text()[-2_000:]
        _kill_java(process, place)
        killed_after.append(_finished_batches(place))
        assert not (place / "done").exists(), f"kill {kill} came too late: the stream was through"
    last = _start(tmp_path / "in", place, tmp_path / "model")
    assert last.wait(timeout=600) == 0, (place / "log").read_text()[-2_000:]
    decided = spark.read.parquet(str(place / "out")).toPandas()
    print(f"killed after {killed_after} of {BATCHES} batches; {len(decided)} rows, {decided['id'].nunique()} distinct")
    assert decided["id"].is_unique
    expected = alone(lines, model, prior=0.1)
    assert_same(decided, expected)
    if THOROUGH:  # other tests hold an undisturbed query to the same
        undisturbed = run_query(spark, tmp_path / "in", tmp_path / "whole", model, label="truth", prior=0.1)
        assert_same(undisturbed, expected)
