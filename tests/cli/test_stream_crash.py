"""Killed with -9 at random moments and resumed each time, `obil stream` writes what it writes uninterrupted."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from obil.cli.stream import ROWS_LEFT_OUT
from obil.online.keyed_checkpoint import KeyedCheckpoint
from obil.online.state.checkpoint import read_checkpoint
from tests.cli.test_stream import Launcher, draw_table, save_model
from tests.thorough import repeats

N_ROWS = 20_000


def rows_in(state: Path) -> int:
    """Rows of the last state; the file must be whole at any moment."""
    if not state.exists():
        return -1
    if "keyed" not in state.name:
        return read_checkpoint(state).n_rows
    saved = KeyedCheckpoint(state).read()
    return -1 if saved is None else saved[0].n_rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "n_keys", "n_kills", "n_bad"),
    [
        ("file", 0, repeats(12, 30), 0),
        ("replayed pipe", 0, repeats(4, 8), 0),
        ("file", 20, repeats(8, 30), 0),
        ("file", 0, repeats(8, 30), N_ROWS // 20),
        ("file", 20, repeats(6, 30), N_ROWS // 20),
    ],
)
def test_output_after_kills_is_that_of_an_uninterrupted_run(
    tmp_path: Path, source: str, n_keys: int, n_kills: int, n_bad: int
) -> None:
    model, data = save_model(tmp_path / "model"), tmp_path / "in.csv"
    table = draw_table(N_ROWS, 0.05, seed=1)[0]
    branches = np.random.default_rng(2).integers(0, max(n_keys, 1), N_ROWS)
    table = table.assign(branch=[f"b{number}" for number in branches]).astype({"age": object})
    table.loc[np.random.default_rng(3).choice(N_ROWS, n_bad, replace=False), "age"] = "old"
    table.to_csv(data, index=False)
    launcher = Launcher(model)

    def start(out: str, every: int = 40) -> int:
        """The same command every time; a pipe is given the table from its start, by and by."""
        given = str(data) if source == "file" else "-"
        args = ["stream", str(model), given, "--out", str(tmp_path / out), "--keep", "id"]
        args += ["--checkpoint-every", str(every), *(["--by", "branch"] if n_keys else [])]
        args += ["--on-error", f"quarantine={tmp_path / out}.bad", "--max-bad", "10%"] if n_bad else []
        if source == "file":
            return launcher.start(args)
        pipe = tmp_path / f"pipe{time.monotonic_ns()}"
        os.mkfifo(pipe)
        threading.Thread(target=feed, args=(data, pipe), daemon=True).start()
        return launcher.start(args, stdin=str(pipe))

    done = ROWS_LEFT_OUT if n_bad else 0
    name = "keyed.csv" if n_keys else "out.csv"
    out, state = tmp_path / name, tmp_path / f"{name}.state"
    start("uninterrupted.csv", every=5_000)
    assert launcher.wait() == done
    expected = (tmp_path / "uninterrupted.csv").read_bytes()
    assert expected.count(b"\n") == N_ROWS - n_bad + 1

    rng = np.random.default_rng(8)
    killed, advanced = 0, 0
    while killed < n_kills:
        before = rows_in(state)
        pid = start(name)
        if killed % 2:  # while it decides rows
            give_up = time.monotonic() + 20.0
            while rows_in(state) <= before and time.monotonic() < give_up:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.05))
        else:  # while it starts, loads the model or passes over rows
            time.sleep(rng.uniform(0.0, 0.5))
        os.kill(pid, signal.SIGKILL)
        if launcher.wait() == done:  # a fast machine was done before: begin again
            assert out.read_bytes() == expected
            out.unlink()
            state.unlink()
            continue
        killed += 1
        advanced += rows_in(state) > before
    start(name)
    assert launcher.wait() in {0, done}  # the last run may have left out none
    launcher.close()
    assert out.read_bytes() == expected
    if n_bad:
        aside = (tmp_path / f"{name}.bad").read_bytes()
        assert aside == (tmp_path / "uninterrupted.csv.bad").read_bytes()
        assert aside.count(b"\n") == n_bad + 1
    assert advanced >= n_kills // 4  # or the kills would have tested nothing


def feed(data: Path, pipe: Path) -> None:
    """Write a table to a pipe in pieces of odd sizes, until its reader is killed."""
    rest = data.read_bytes()
    rng = np.random.default_rng()  # how the pieces fall must not matter
    try:
        with pipe.open("wb", buffering=0) as writer:
            while rest:
                size = int(rng.integers(1, 20_000))
                writer.write(rest[:size])
                rest = rest[size:]
    except BrokenPipeError:
        pass
