"""The page on Spark, docs/spark.md, runs as it is printed."""

from pathlib import Path
from typing import Any

import pytest

import obil
from tests.docs.blocks import run_python
from tests.docs.example_data import names_for, payments


@pytest.mark.slow
def test_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as f

    monkeypatch.chdir(tmp_path)
    files = spark._jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()  # the Java machine has a working directory of its own
    files.setWorkingDirectory(spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path)))
    page = "docs/spark.md"
    obil.save(names_for(page)["model"], "model/")
    table = payments(300, seed=2).rename(columns={"branch": "site", "day": "at", "order": "id"})
    table["at"] = table["at"].astype("datetime64[us]")
    frame = spark.createDataFrame(table)
    frame.drop("fraud").write.parquet("rows.parquet")
    late = frame.withColumn("at", f.date_add("at", 3).cast("timestamp"))
    late.select("site", "id", "at", f.col("fraud").alias("truth")).write.parquet("labels.parquet")

    def stream_of(path: str) -> Any:
        return spark.readStream.schema(spark.read.parquet(path).schema).parquet(path)

    names = {"rows": stream_of("rows.parquet"), "labels": stream_of("labels.parquet"), "spark": spark}
    try:
        after = run_python(page, names)
        for query in spark.streams.active:
            query.processAllAvailable()
        assert {row.site for row in after["by_site"].collect()} == {"north", "south", "west"}
        assert after["scored"].count() == len(table)
        assert spark.read.parquet("decided/").count() == len(table)
        assert spark.read.parquet("scored/").count() == len(table)
    finally:
        for query in spark.streams.active:
            query.stop()
        files.setWorkingDirectory(before)
    assert (tmp_path / "decided").is_dir()
