"""Run the keyed query of the kill test; its Java process is to be killed from outside.

`python -m tests.spark.killed_query SOURCE PLACE MODEL`
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from obil.spark import stream
from tests.spark.test_keyed_stream import SCHEMA


def main(source: Path, place: Path, model: Path) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(place / "local"))
        .getOrCreate()
    )
    pid = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    (place / "java.pid").write_text(str(pid))
    df = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    decided = stream(df, model, key="site", time="at", id="id", label="truth", features=["score"], prior=0.1)
    writer = decided.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start(str(place / "out")).awaitTermination()
    (place / "done").touch()
    session.stop()


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
