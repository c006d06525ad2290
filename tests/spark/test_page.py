"""The page on Spark, docs/spark.md, runs as it is printed."""

import re
from pathlib import Path
from typing import Any

import pytest

import obil
from tests.docs.blocks import run_python
from tests.docs.example_data import names_for, payments

# Spark resolves them in the folder that its Java machine was started in
FILES = re.compile(r'(")(rows\.parquet|decided/|scored/|checkpoint(?=")|batches(?="))')


@pytest.mark.slow
def test_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as f

    monkeypatch.chdir(tmp_path)
    page = "docs/spark.md"
    obil.save(names_for(page)["model"], "model/")
    table = payments(300, seed=2).rename(columns={"branch": "site", "day": "at", "order": "id"})
    table["at"] = table["at"].astype("datetime64[us]")
    frame = spark.createDataFrame(table)
    frame.drop("fraud").write.parquet(str(tmp_path / "rows.parquet"))
    late = frame.withColumn("at", f.date_add("at", 3).cast("timestamp"))
    late.select("site", "id", "at", f.col("fraud").alias("truth")).write.parquet(str(tmp_path / "labels.parquet"))

    def stream_of(path: str) -> Any:
        return spark.readStream.schema(spark.read.parquet(path).schema).parquet(path)

    names = {
        "rows": stream_of(f"{tmp_path}/rows.parquet"),
        "labels": stream_of(f"{tmp_path}/labels.parquet"),
        "spark": spark,
    }
    try:
        after = run_python(page, names, edit=lambda code: FILES.sub(rf"\1{tmp_path}/\2", code))
        for query in spark.streams.active:
            query.processAllAvailable()
        assert {row.site for row in after["by_site"].collect()} == {"north", "south", "west"}
        assert after["scored"].count() == len(table)
        assert spark.read.parquet(f"{tmp_path}/decided").count() == len(table)
        assert spark.read.parquet(f"{tmp_path}/scored").count() == len(table)
    finally:
        for query in spark.streams.active:
            query.stop()
