"""Say why the tests of Spark do not run, where they do not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import why_not


def test_spark_can_run_here() -> None:
    reason = why_not()
    if reason:
        pytest.skip(f"all tests of Spark are left out: {reason}")


def test_importing_the_package_needs_neither_pyspark_nor_java() -> None:
    code = "import sys, obil.spark; print('pyspark' in sys.modules)"
    source = str(Path(__file__).parents[2] / "src")
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert ran.stdout.strip() == "False"
