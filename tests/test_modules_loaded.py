"""A command loads no more of the package than it needs: counted in a fresh interpreter."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import obil
from obil.serving.columns import ColumnEncoder

RUN_AND_COUNT = """
import sys
from obil.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
loaded = sorted(name for name in sys.modules if name == "obil" or name.startswith("obil."))
print(*loaded, file=sys.stderr)
"""


def modules_loaded(*arguments: object) -> list[str]:
    """Run a command and return the modules of obil that it loaded."""
    command = [sys.executable, "-c", RUN_AND_COUNT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split()


def save_model(folder: Path) -> None:
    """Save a small model that is served from arrays, and rows to decide in `rows.csv`."""
    random = np.random.default_rng(0)
    labels = (random.random(400) < 0.2).astype(int)
    table = pd.DataFrame(random.normal(size=(400, 2)) + labels[:, None], columns=["age", "dose"])
    encoder = ColumnEncoder.fit(table, names=["age", "dose"])
    fitted = obil.RatioClassifier(LogisticRegression()).fit(encoder.encode(table), labels)
    obil.save(fitted.with_encoder(encoder), folder / "model")
    table[:50].to_csv(folder / "rows.csv", index=False)


def test_obil_stream_loads_at_most_100_modules(tmp_path: Path) -> None:
    save_model(tmp_path)
    loaded = modules_loaded("stream", tmp_path / "model", tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().count("\n") == 51
    assert "obil.online.online_classifier" in loaded
    assert len(loaded) <= 100, loaded
