"""Decide many streams on Spark: train a model, play streams under label shift, print each site's prior.

On a laptop: `python examples/spark_stream.py`
On a cluster: `spark-submit examples/spark_stream.py --folder PATH`, a folder that driver and workers can read;
every worker needs `pip install obil[spark]`. Nothing else changes: the master comes from spark-submit.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from sklearn.linear_model import LogisticRegression

import obil
import obil.spark

SITES = {"north": (0.05, 0.05), "south": (0.05, 0.30), "west": (0.20, 0.02)}  # the prior before and after
SCHEMA = "site string, at timestamp, id string, amount double, age double, truth string"


def transactions(n_rows: int, prior: np.ndarray | float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw rows of two features whose means depend on the class."""
    rng = np.random.default_rng(seed)
    is_fraud = rng.random(n_rows) < prior
    table = pd.DataFrame({"amount": rng.normal(1.5 * is_fraud), "age": rng.normal(-1.5 * is_fraud)})
    return table, np.where(is_fraud, "fraud", "fine")


def write_streams(folder: Path, n_rows: int, n_files: int) -> None:
    """Write the files of a source: rows of all sites, and one label in twenty, 200 rows late."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (site, (before, after)) in enumerate(SITES.items()):
        prior = np.where(np.arange(n_rows) < n_rows // 2, before, after)
        table, labels = transactions(n_rows, prior, seed=number)
        seconds = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n_rows), unit="s")
        rows = table.assign(site=site, at=seconds, id=[f"{site}-{i}" for i in range(n_rows)], truth=None)
        told = rows.iloc[::20].assign(amount=np.nan, age=np.nan, truth=labels[::20])
        lines += [rows, told.assign(at=told["at"] + pd.Timedelta(seconds=200))]
    columns = [name.split()[0] for name in SCHEMA.split(", ")]
    everything = pd.concat(lines).sort_values("at", kind="stable")[columns]
    for number, part in enumerate(np.array_split(np.arange(len(everything)), n_files)):
        everything.iloc[part].to_json(
            folder / f"part-{number:04d}.json", orient="records", lines=True, date_format="iso"
        )


def decide(spark: SparkSession, model: Path, folder: Path) -> DataFrame:
    """Run the query over the source folder, and return everything decided so far."""
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "source"))
    # only the prior changes here, so a fast tracker is safe; the default adapts more slowly
    bank = obil.trackers.BayesBank(0.1)
    decided = obil.spark.stream(source, model, key="site", time="at", id="id", label="truth", tracker=bank)
    query = (
        decided.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)  # in production: .trigger(processingTime="10 seconds")
        .start(str(folder / "decided"))
    )
    query.awaitTermination()
    return spark.read.parquet(str(folder / "decided"))


def main() -> int:
    """Train, write the source, run the query, and print the prior of each site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, help="where to keep model, source and results (default: a temporary one)"
    )
    parser.add_argument("--rows", type=int, default=1_000, help="rows per site")
    parser.add_argument("--files", type=int, default=4, help="micro-batches")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="obil-spark-"))
    if (folder / "checkpoint").exists():  # its files were decided already, and Spark reads none twice
        parser.error(f"{folder} holds an earlier run: name another folder")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit: workers use this Python
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.appName("obil")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")  # else Spark warns about every new key
    table, labels = transactions(4_000, 0.1, seed=99)
    model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(table, labels)
    obil.save(model, folder / "model")
    write_streams(folder / "source", arguments.rows, arguments.files)
    decided = decide(spark, folder / "model", folder).toPandas().sort_values("at")
    for site, (before, after) in SITES.items():
        own = decided[decided["site"] == site]
        middle, last = own["effective_prior"].iloc[len(own) // 2], own["effective_prior"].iloc[-1]
        alerts = (own["decision"] == "fraud").mean()
        print(  # noqa: T201  # what an example is for
            f"{site}: prior {middle:.3f} (true {before}) before the change, {last:.3f} (true {after}) at the end; "
            f"{alerts:.1%} of {len(own):,} rows alerted"
        )
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
