"""The example runs as it is, by Python and by spark-submit."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import SRC
from tests.thorough import THOROUGH

EXAMPLE = SRC.parent / "examples" / "spark_stream.py"


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return inherited | {"PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}


def _priors(printed: str) -> dict[str, tuple[float, float]]:
    found = re.findall(r"^(\w+): prior ([.\d]+) \(true .*\) before the change, ([.\d]+)", printed, flags=re.MULTILINE)
    return {site: (float(before), float(after)) for site, before, after in found}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("by", ["spark-submit", *(["python"] if THOROUGH else [])])
def test_the_example_prints_priors_that_followed_the_change(tmp_path: Path, by: str) -> None:
    command, environment = [sys.executable], _environment()
    if by == "spark-submit":
        find = [sys.executable, "-m", "pyspark.find_spark_home"]
        home = subprocess.run(find, env=environment, capture_output=True, text=True, check=True).stdout.strip()
        command = [f"{home}/bin/spark-submit", "--master", "local[2]"]
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": home}
    command += [str(EXAMPLE), "--folder", str(tmp_path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    priors = _priors(ran.stdout)
    assert set(priors) == {"north", "south", "west"}, ran.stdout
    assert abs(priors["north"][1] - 0.05) < 0.04  # nothing changed there
    assert priors["south"][0] < 0.12 < 0.2 < priors["south"][1]
    assert priors["west"][0] > 0.12 > 0.08 > priors["west"][1]
