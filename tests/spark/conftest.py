"""One Spark session for all tests of this folder, and the reason where there can be none."""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# these need neither pyspark nor Java
FREE = {"__init__.py", "conftest.py", "test_spark_is_here.py", "test_scale_page.py", "test_batch_bank.py"}
SRC = Path(__file__).parents[2] / "src"


def date_file(path: Path, number: int) -> None:
    """Make a file older than those of higher numbers: Spark takes files by age, in any order inside a millisecond."""
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def why_not() -> str | None:
    """Return what is missing here to run Spark."""
    if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "google.protobuf")):
        return "the extra 'spark' is not installed"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java 17, and there is none"
    return None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave modules that need Spark alone where it cannot run; `test_spark_is_here.py` says why."""
    return True if collection_path.suffix == ".py" and collection_path.name not in FREE and why_not() else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SRC), str(SRC.parent), os.environ.get("PYTHONPATH", "")])
    place = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.local.dir", str(place / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", str(place))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
