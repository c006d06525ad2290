"""Spark Connect has no broadcasts and no Spark context; the results are the same."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.online.cases import pair_model
from tests.spark.conftest import SRC
from tests.spark.test_keyed_stream import alone, lines_of

pytest.importorskip("grpc", reason="Spark Connect needs pip install pyspark[connect]")

PROGRAM = """
import sys
import pandas as pd
from pyspark.sql import SparkSession
from obil.errors import InvalidInputError
from obil.spark import estimate_prior, score, stream, stream_batches
from tests.online.cases import pair_model

session = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
df, model = session.createDataFrame(pd.read_json(sys.argv[1], lines=True)), pair_model()
decided = stream(df, model, key="site", time="at", id="id", features=["score"], prior=0.1).toPandas()
decided.to_json(sys.argv[2], orient="records", lines=True, double_precision=15)
assert score(df, model, features=["score"]).count() == len(decided)
assert estimate_prior(df, model, features=["score"]).n_rows == len(decided)
try:
    stream_batches(session.readStream.format("rate").load(), model, write=print, state="state", features=["value"])
except InvalidInputError as error:
    assert "needs a classic session" in str(error)
else:
    raise AssertionError("stream_batches was not refused")
"""


@pytest.mark.slow
def test_tables_and_keyed_streams_are_decided_as_in_a_classic_session(tmp_path: Path) -> None:
    lines = lines_of(3, 40)
    lines.drop(columns="truth").to_json(tmp_path / "in", orient="records", lines=True, double_precision=15)
    path = os.pathsep.join([str(SRC), str(SRC.parent), os.environ.get("PYTHONPATH", "")])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "in"), str(tmp_path / "out")],
        env=inherited | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2_000:]
    again = pd.read_json(tmp_path / "in", lines=True)  # as the other process read it
    decided = pd.read_json(tmp_path / "out", lines=True, precise_float=True)
    assert len(decided) == 120
    expected = alone(again.assign(truth=None), pair_model(), prior=0.1)
    for key, part in expected.items():
        own = decided[decided["site"] == key].set_index("id").loc[part.index]
        assert own["decision"].tolist() == part["decision"].tolist()
        assert abs(own["effective_prior"] - part["effective_prior"]).max() < 1e-14  # as JSON holds it
