"""Leave out the doctests of what needs an extra that is not installed; spread tests over workers, one thread each."""

import os
from importlib.util import find_spec
from typing import Any

import pytest

# before numpy starts its pools: on a busy machine their threads wait for each other, and a test for minutes
os.environ.setdefault("OMP_NUM_THREADS", "1")

collect_ignore_glob = [
    *([] if find_spec("torch") else ["src/obil/networks/*"]),
    *([] if find_spec("fastapi") else ["src/obil/service/*"]),
    *([] if find_spec("pyspark") else ["src/obil/spark/*"]),
    *(f"src/obil/{name}.py" for name in ("mlflow", "onnx", "river") if not find_spec(name)),
    *([] if find_spec("confluent_kafka") else ["src/obil/kafka.py"]),
    *([] if find_spec("imblearn") else ["src/obil/resampling/smote.py"]),
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest tests where several workers share them."""
    if hasattr(config, "workerinput"):
        from tests.spread import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread whole files over the workers of `pytest -n 2 --dist loadfile`."""
    from tests.spread import FileScheduling

    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None
