"""Time Spark against one process, weigh the state of a key, and see how a micro-batch grows with the keys."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.core_seconds import core_seconds
from benchmarks.keyed_query import KeyedQuery, keyed_model
from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.estimators.obil_classifier import OBILClassifier
from obil.online.decision_rule import DecisionRule
from obil.online.online_classifier import HORIZON, OnlineClassifier
from obil.online.state.stream_state import read_state
from obil.serving.ratio_model import RatioModel
from obil.spark import score
from obil.spark.bucket_processor import STREAMS
from obil.spark.columns import class_values
from obil.spark.key_restorer import KeyRestorer
from obil.spark.shipped_model import ShippedModel

CORES = 2
# what docs/spark.md advises: Spark hands rows to Python in pieces too small for a model this fast
PIECE = 50_000  # rows
WARM_UP = 5
ADVISED = {"spark.buffer.size": "1048576", "spark.sql.execution.arrow.maxRecordsPerBatch": str(PIECE)}


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Return rows a second, bytes a key, seconds a micro-batch, and their ratios."""
    with tempfile.TemporaryDirectory(prefix="obil-bench-") as name:
        place = Path(name)
        scoring = (*_five_networks(settings), settings["repeats"], place / "rows.parquet")
        with _session(place, **ADVISED) as spark:
            figures = _scoring(spark, *scoring)
            figures |= _state_of_a_key(spark, settings, place / "state")
            figures |= _processor_time(spark, settings, place / "active")
            figures |= _micro_batches(spark, settings, place / "batches")
        with _session(place) as spark:
            plain = _scoring(spark, *scoring)
        figures |= {f"{key}.as_spark_comes": value for key, value in plain.items()}
        return figures | _one_key(settings)


@contextmanager
def _session(place: Path, **settings: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(source)
    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(CORES))
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.local.dir", str(place / "local"))
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _five_networks(settings: dict[str, Any]) -> tuple[RatioModel, FloatArray]:
    """Return a model of five networks, and rows for it."""
    classes = GaussianClasses.spread(settings["separation"], n_features=settings["n_features"])
    prior = 1.0 / (1.0 + settings["imbalance"])
    training = classes.draw(np.full(settings["training_rows"], prior), random_state=0)
    model = OBILClassifier(member="mlp", n_members=5, random_state=0).fit(training.features, training.labels).model_
    return model, classes.draw(np.full(settings["score_rows"], prior), random_state=1).features


def _scoring(spark: SparkSession, model: RatioModel, rows: FloatArray, repeats: int, place: Path) -> dict[str, float]:
    """Score rows that lie in memory: in this process, and on Spark's cores."""
    names = [f"x{i}" for i in range(rows.shape[1])]
    pq.write_table(pa.table({name: rows[:, i] for i, name in enumerate(names)}), place)
    table = spark.read.parquet(str(place)).repartition(2 * CORES).cache()
    table.count()
    scored = score(table, model, features=names)
    wall, busy = {"one": np.inf, "spark": np.inf}, {"one": np.inf, "spark": np.inf}
    work: dict[str, Callable[[], None]] = {
        "one": lambda: _score_here(model, rows),
        "spark": lambda: _score_there(scored),
    }
    for _ in range(WARM_UP):  # Java compiles what has run for a while
        _score_there(scored)
    for _ in range(repeats):  # in turns, so that a slow moment of the machine hits both alike
        for name, act in work.items():
            started, used = time.perf_counter(), core_seconds()
            act()
            wall[name] = min(wall[name], time.perf_counter() - started)
            busy[name] = min(busy[name], core_seconds() - used)
    table.unpersist()
    one, per_core = len(rows) / wall["one"], len(rows) / wall["spark"] / CORES
    return {
        "score_per_core_over_one_process": per_core / one,
        "score_per_core_second_over_one_process": busy["one"] / busy["spark"],
        "score_rows_a_second_one_process": one,
        "score_rows_a_second_per_core": per_core,
        "core_seconds_per_million_scored": 1e6 / per_core,
    }


def _score_here(model: RatioModel, rows: FloatArray) -> None:
    """Do what a worker does with a table, without Spark: log ratios, posteriors, decisions."""
    rule = DecisionRule(model, None, 1)
    for part in np.array_split(rows, max(1, len(rows) // PIECE)):
        ratios = model.log_ratios(part)
        numbers = rule.decide(ratios, np.tile(model.prior_, (len(ratios), 1))).numbers
        class_values(model.classes_[numbers])


def _score_there(scored: DataFrame) -> None:
    scored.write.format("noop").mode("overwrite").save()


def _state_of_a_key(spark: SparkSession, settings: dict[str, Any], place: Path) -> dict[str, float]:
    """Let a few keys see many rows and labels, and read what Spark's state store then holds of each."""
    n_rows, batches = settings["state_rows"], 4
    rng = np.random.default_rng(2)
    lines = []
    for key in range(4):
        drawn = GaussianClasses.pair(2.0).draw(np.full(n_rows, 0.03 + 0.1 * key), random_state=key)
        at = np.arange(n_rows)
        rows = pd.DataFrame({"site": f"s{key}", "at": 10 * at, "id": [f"{key}/{i}" for i in at]})
        rows["score"], rows["truth"] = drawn.log_ratios[:, 1], pd.array([None] * n_rows, dtype="Int64")
        told = rows[rng.random(n_rows) < 0.05].copy()
        told["truth"], told["score"] = pd.array(drawn.labels[told.index], dtype="Int64"), np.nan
        lines += [rows, told.assign(at=told["at"] + 2_005)]
    ordered = pd.concat(lines).sort_values("at", kind="stable")
    query = KeyedQuery(spark, place, label="truth")
    for part in np.array_split(np.arange(len(ordered)), batches):
        query.take(ordered.iloc[part])
    query.stop()

    state = spark.read.format("statestore").option("stateVarName", STREAMS).load(str(query.checkpoint))
    model = ShippedModel.of(keyed_model()).load()
    states = [bytes(row[0]) for row in state.select("user_map_value.data").collect()]
    sizes = [(len(one), len(read_state(model, one).pending)) for one in states]
    return {
        "state_bytes_a_key": float(max(whole - pending for whole, pending in sizes)),
        "pending_bytes_a_key": float(max(pending for _, pending in sizes)),
    }


def _processor_time(spark: SparkSession, settings: dict[str, Any], place: Path) -> dict[str, float]:
    """Count the processor time of micro-batches with all keys, few, and one: the last is what Spark itself takes.

    Java compiles what has run for a while, so the first batches are not counted.
    """
    n_keys, n_active = settings["known_keys"], settings["active_keys"]
    query, batches = KeyedQuery(spark, place), _rows_of_keys(n_keys, settings["rows_a_key"])
    for _ in range(settings["warm_up"]):
        query.take(next(batches))
    every = [query.take(next(batches)).core_seconds for _ in range(settings["batches"])]
    few: dict[int, list[float]] = {n_active: [], 1: []}
    for turn in range(settings["warm_up"] + settings["few_batches"]):
        for n, used in few.items():
            lines = next(batches)
            first = turn * n % n_keys
            taken = query.take(lines[lines["site"].isin([f"s{(first + i) % n_keys}" for i in range(n)])])
            if turn >= settings["warm_up"]:
                used.append(taken.core_seconds)
    query.stop()
    one, some = float(np.median(few[1])), float(np.median(few[n_active]))
    return {
        "core_milliseconds_a_key": 1e3 * float(np.median(every)) / n_keys,
        "core_milliseconds_an_active_key": 1e3 * (some - one) / (n_active - 1),
        "core_milliseconds_an_active_key.with_the_batch": 1e3 * some / n_active,
        "core_milliseconds_a_batch_of_one_key": 1e3 * one,
    }


def _micro_batches(spark: SparkSession, settings: dict[str, Any], place: Path) -> dict[str, float]:
    """Time a micro-batch in which every key has a few rows, when its keys are known already.

    A batch of the most keys takes minutes, in which the machine may be slow or fast. So batches of fewer keys are
    timed before, between and after those, and means are compared: the best of many short ones would be luck.
    """
    *fewer, most = settings["keys"]
    queries = {n_keys: KeyedQuery(spark, place / str(n_keys)) for n_keys in (*fewer, most)}
    batches = {n_keys: _rows_of_keys(n_keys, settings["rows_a_key"]) for n_keys in queries}

    def taken(n_keys: int) -> float:
        return queries[n_keys].take(next(batches[n_keys])).seconds

    first = {n_keys: taken(n_keys) for n_keys in queries}  # starts workers and makes every key anew
    seconds: dict[int, list[float]] = {n_keys: [] for n_keys in queries}
    for turn in range(settings["turns"] + 1):
        for n_keys in fewer:
            seconds[n_keys] += [taken(n_keys) for _ in range(settings["batches"])]
        if turn < settings["turns"]:
            seconds[most].append(taken(most))

    figures = {f"disk_bytes_a_key.{most}": queries[most].disk_bytes / most}
    for n_keys, query in queries.items():
        mean = float(np.mean(seconds[n_keys]))
        figures |= {f"batch_seconds.{n_keys}": mean, f"first_batch_seconds.{n_keys}": first[n_keys]}
        figures |= {
            f"batch_seconds.{n_keys}.least": min(seconds[n_keys]),
            f"batch_seconds.{n_keys}.most": max(seconds[n_keys]),
        }
        figures[f"core_seconds_per_million_decisions.{n_keys}"] = 1e6 * CORES * mean / (n_keys * settings["rows_a_key"])
        figures[f"memory_bytes_a_key.{n_keys}"] = query.memory_bytes / n_keys
        query.stop()
    a_key = np.array([figures[f"batch_seconds.{n_keys}"] / n_keys for n_keys in queries])
    figures["batch_seconds_over_linear"] = float((a_key[1:] / a_key[:-1]).max())
    return figures


def _rows_of_keys(n_keys: int, rows_a_key: int) -> Iterator[pd.DataFrame]:
    """Yield one micro-batch after the other, with a few rows of every key."""
    keys = np.tile(np.arange(n_keys), rows_a_key)
    for batch in count():
        drawn = GaussianClasses.pair(2.0).draw(np.full(len(keys), 0.1), random_state=batch)
        rows = pd.DataFrame({"site": [f"s{key}" for key in keys], "at": batch * 1_000 + np.arange(len(keys))})
        rows["id"], rows["score"] = [f"{batch}/{i}" for i in range(len(keys))], drawn.log_ratios[:, 1]
        yield rows


def _one_key(settings: dict[str, Any]) -> dict[str, float]:
    """Time what a worker does for a key in each micro-batch, without Spark: bring it back, and pack it again."""
    shipped = ShippedModel.of(keyed_model())
    fresh = OnlineClassifier(shipped.load()).state()
    restorer, figures = KeyRestorer(shipped, (), fresh), {}
    for name, n_rows in (("new", settings["rows_a_key"]), ("full_horizon", HORIZON)):
        online = restorer.fresh()
        drawn = GaussianClasses.pair(2.0).draw(np.full(n_rows, 0.1), random_state=0)
        online.decide_log_ratios(drawn.log_ratios, ids=[f"{i}" for i in range(n_rows)])
        best, data = np.inf, online.state()
        for _ in range(20):
            started = time.perf_counter()
            restorer.restored(restorer.name, data).state()
            best = min(best, time.perf_counter() - started)
        figures[f"key_milliseconds.{name}"] = 1e3 * best
    return figures
