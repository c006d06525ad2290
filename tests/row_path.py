"""List the modules whose code runs when one row is decided, on each of four paths.

python -m tests.row_path          counts and names
"""

import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import obil
from obil.estimators.table_fit import fit_table
from obil.serving.ratio_model import RatioModel

ROW = {"amount": 3.2, "age": 41.0, "country": "DE"}


class Tracer:
    """Notes the modules of obil whose functions are called while it is switched on, in any thread."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        # only what runs: bodies of modules and classes run when they are imported
        if self.is_on and event == "call" and name.startswith("obil.") and not frame.f_code.co_name.startswith("<mod"):
            self.modules.add(name)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Trace this thread and those that it starts."""
        sys.setprofile(self)
        threading.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def passed(decide: Callable[[], object], *, warm_up: int = 2) -> list[str]:
    """Return the modules that a call passes, after some that are not counted."""
    tracer = Tracer()
    with tracer.installed():
        for _ in range(warm_up):
            decide()
        tracer.is_on = True
        decide()
    return sorted(tracer.modules)


def fitted() -> RatioModel:
    """Return a model of two numbers and a category, with views."""
    random = np.random.default_rng(0)
    labels = (random.random(1_500) < 0.2).astype(int)
    rows = {
        "amount": random.normal(2.0 * labels, 1.0),
        "age": random.integers(18, 90, 1_500).astype(float),
        "country": np.where(random.random(1_500) < 0.3 + 0.4 * labels, "DE", "FR"),
    }
    return fit_table(pd.DataFrame(rows), labels, model="logistic").model


def python_path(model: RatioModel, _folder: Path) -> list[str]:
    """Return what `OnlineClassifier.decide` passes."""
    online = obil.OnlineClassifier(model)
    return passed(lambda: online.decide(ROW))


def command_path(model: RatioModel, folder: Path) -> list[str]:
    """Return what a row of `obil stream` passes, from the file to the written line."""
    from obil.cli.main import app
    from obil.cli.stream_run import StreamRun

    obil.save(model, folder / "model")
    pd.DataFrame([ROW] * 50).to_csv(folder / "rows.csv", index=False)
    tracer, run = Tracer(), StreamRun.go

    def traced(*arguments: Any, **options: Any) -> int:
        tracer.is_on = True
        with tracer.installed():
            return run(*arguments, **options)

    StreamRun.go = traced  # type: ignore[method-assign]
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            app(["stream", str(folder / "model"), str(folder / "rows.csv"), "--out", str(folder / "out.csv")])
    finally:
        StreamRun.go = run  # type: ignore[method-assign]
    return sorted(tracer.modules)


def service_path(model: RatioModel, folder: Path) -> list[str]:
    """Return what a request for one decision passes, from its bytes to the answer, stored on disk."""
    from obil.service.http.app import create_app
    from obil.service.service_settings import ServiceSettings
    from tests.service.conftest import Client
    from tests.service.keys_in_memory import KeysInMemory
    from tests.service.streams_on_disk import StreamsOnDisk

    obil.save(model, folder / "served")
    tracer = Tracer()
    with tracer.installed():
        streams = StreamsOnDisk(folder / "served", folder / "streams.db")
        client = Client(create_app(streams, ServiceSettings(), KeysInMemory()))
        try:
            for number in range(3):
                tracer.is_on = number == 2
                answer = client.post("/v1/streams/shop/decisions", json={"row": ROW, "id": str(number)})
                assert answer.status_code == 200, answer.text
        finally:
            tracer.is_on = False
            streams.close()
    return sorted(tracer.modules)


def spark_path(model: RatioModel, _folder: Path) -> list[str]:
    """Return what a row of `obil.spark.stream` passes in Spark's workers: scored, then decided by its key."""
    from obil.spark.bucket_lines import EVIDENCE, RATIOS, TIME, RowLayout
    from obil.spark.bucket_processor import BucketProcessor
    from obil.spark.columns import FEATURE, as_binary, model_input
    from obil.spark.shipped_model import ShippedModel

    shipped, online = ShippedModel.of(model, trusted=()), obil.OnlineClassifier(model)
    layout = RowLayout(("obil_key0",), 2, (model.n_folds, 1 + model.n_views + model.n_inputs), False, False, False)
    processor = BucketProcessor(shipped, (), online.state(), layout, 1, None)
    held: dict[Any, Any] = {}
    streams = SimpleNamespace(getValue=held.get, updateValue=held.__setitem__)
    handle: Any = SimpleNamespace(getMapState=lambda *_: streams, getValueState=lambda *_: None)
    processor.init(handle)
    names = list(ROW)

    def decide() -> None:
        numbered = pd.DataFrame([{f"{FEATURE}{place}": value for place, value in enumerate(ROW.values())}])
        scores = model.score(model_input(numbered, names, model))
        columns = {RATIOS: as_binary(scores.log_ratios), EVIDENCE: as_binary(scores.evidence)}
        table = pd.DataFrame({"obil_key0": ["shop"], TIME: [0.0], **columns})
        list(processor.handleInputRows((0,), iter([table]), None))

    return passed(decide)


PATHS = {
    "decide": python_path,
    "obil stream": command_path,
    "obil serve": service_path,
    "obil.spark.stream": spark_path,
}


def main() -> None:
    """Print the modules of each path."""
    model = fitted()
    for name, path in PATHS.items():
        with tempfile.TemporaryDirectory() as folder:
            modules = path(model, Path(folder))
        print(f"{name}: {len(modules)} modules\n  " + " ".join(module.removeprefix("obil.") for module in modules))


if __name__ == "__main__":
    main()
