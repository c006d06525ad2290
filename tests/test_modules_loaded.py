"""A command loads no more of the package than it needs: counted in a fresh interpreter."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
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

# as `obil serve` builds the application, which then answers one request
SERVE_AND_COUNT = """
import asyncio, sys
from pathlib import Path
import httpx
import obil.cli.main, obil.cli.serve
from obil.service.running import open_service
from obil.service.service_settings import ServiceSettings
from obil.service.streams.operations import StreamSettings

folder = Path(sys.argv[1])
app = open_service(folder / "model", ServiceSettings(store=str(folder / "streams.db")), defaults=StreamSettings())

async def decide():
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642") as client:
            return await client.post("/v1/streams/shop/decisions", json={"row": {"age": 0.5, "dose": 1.5}})

assert asyncio.run(decide()).status_code == 200
print(*sorted(name for name in sys.modules if name.startswith("obil")), file=sys.stderr)
"""


def modules_loaded(*arguments: object, code: str = RUN_AND_COUNT) -> list[str]:
    """Run a command and return the modules of obil that it loaded."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
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


def test_obil_stream_loads_at_most_114_modules(tmp_path: Path) -> None:
    save_model(tmp_path)
    loaded = modules_loaded("stream", tmp_path / "model", tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().count("\n") == 51
    assert "obil.online.online_classifier" in loaded
    assert len(loaded) <= 114, loaded


def test_obil_serve_loads_at_most_148_modules(tmp_path: Path) -> None:
    for name in ("fastapi", "pydantic_settings", "prometheus_client", "httpx"):
        pytest.importorskip(name, reason="the service needs obil[service], its tests httpx")
    save_model(tmp_path)
    loaded = modules_loaded(tmp_path, code=SERVE_AND_COUNT)
    assert "obil.service.streams.stream_hub" in loaded
    assert not [name for name in loaded if ".reports." in name or name == "obil.service.streams.stream_report"]
    assert not [name for name in loaded if name.endswith((".limited_load", ".model_archive"))]  # an upload needs them
    # five of them list, activate and compare versions of the model, and find rows without features
    assert len(loaded) <= 148, loaded
