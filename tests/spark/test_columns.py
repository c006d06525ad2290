from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from obil.errors import InvalidInputError
from obil.spark import estimate_prior, score, stream
from obil.spark.columns import model_input_of_arrow
from obil.trackers import BayesBank
from tests.online.cases import pair_model, pair_scores, triangle_model, triangle_scores

LARGE = 9_007_199_254_740_993  # the first whole number that a float cannot hold
BARE: dict[str, Any] = {"tracker": BayesBank(), "monitor": False, "horizon": 0}


@pytest.fixture
def new_york(spark: Any) -> Any:
    """A session whose clocks are set back at 06:00 UTC on 2026-11-01, and forward at 07:00 UTC on 2026-03-08."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def at(hour: int) -> datetime:
    return datetime(2026, 11, 1, hour, 30, tzinfo=UTC)


GROUPS: list[tuple[str, list[Any]]] = [
    ("long", [LARGE, LARGE + 1, LARGE + 2, None]),
    ("int", [1, None, -1]),
    ("double", [0.1, float("nan"), None, 0.0, -0.0]),
    ("decimal(20,2)", [Decimal("123456789012345678.25"), Decimal("0.50"), None]),
    ("boolean", [True, False, None]),
    ("string", ["a", "", "None", "nan", None]),
    ("date", [date(2026, 3, 8), date(1, 1, 1), None]),
    ("timestamp", [at(5), at(6), at(7), None]),
    ("timestamp_ntz", [datetime(2026, 3, 8, 2, 30), datetime(2026, 3, 8, 3, 30), None]),
    ("binary", [b"a", b"\xff\x00", b"\xff", None]),
]


@pytest.mark.parametrize(("kind", "values"), GROUPS, ids=[kind for kind, _ in GROUPS])
def test_groups_of_any_type_are_those_of_spark_itself(new_york: Any, kind: str, values: list[Any]) -> None:
    rows = [(value, float(x)) for i, value in enumerate(values) for x in pair_scores(20 + i, 0.3, i)]
    df = new_york.createDataFrame(rows, f"`the.key` {kind}, score double").repartition(2)
    found = estimate_prior(df, pair_model(), by="the.key", features=["score"])
    assert found.schema["the.key"].dataType == df.schema["the.key"].dataType
    of_spark = df.groupBy("`the.key`").agg(F.count("*").alias("expected"))
    both = found.join(of_spark, found["`the.key`"].eqNullSafe(of_spark["`the.key`"])).select("n_rows", "expected")
    pairs = [tuple(row) for row in both.collect()]
    assert len(pairs) == of_spark.count() == found.count()
    assert all(n_rows == expected for n_rows, expected in pairs)


@pytest.mark.parametrize("kind", ["long", "timestamp"])
def test_groups_of_three_classes_are_those_of_spark_itself(new_york: Any, kind: str) -> None:
    values = dict(GROUPS)[kind]
    scores = triangle_scores(40 * len(values), [0.2, 0.3, 0.5], 1)
    rows = [(values[i % len(values)], row.tolist()) for i, row in enumerate(scores)]
    df = new_york.createDataFrame(rows, f"k {kind}, s array<double>")
    found = estimate_prior(df, triangle_model(), by="k", features="s")
    assert {row["k"]: row["n_rows"] for row in found.collect()} == {row["k"]: 40 for row in df.collect()}


def test_keys_of_any_size_stay_apart_beside_a_null(spark: Any) -> None:
    keys = [LARGE, LARGE + 2, LARGE + 4, None]
    scores = pair_scores(10, 0.3, 1)
    rows = [(key, i, float(x)) for key in keys for i, x in enumerate(scores)]
    df = spark.createDataFrame(rows, "k long, at long, score double").coalesce(1)
    decided = stream(df, pair_model(), key="k", time="at", features=["score"], **BARE)
    assert decided.schema["k"].dataType == df.schema["k"].dataType
    found = [tuple(row) for row in decided.groupBy("k").agg(F.count("*"), F.max("id")).collect()]
    assert sorted(found, key=str) == sorted([(key, 10, 9) for key in keys], key=str)


def test_local_times_keep_their_order_where_clocks_are_set_forward(new_york: Any) -> None:
    times = [datetime(2026, 3, 8, 1, 50), datetime(2026, 3, 8, 2, 30), datetime(2026, 3, 8, 3, 10)]
    rows = [("a", when, number, float(number)) for number, when in enumerate(times)]
    for kind in ("timestamp_ntz", "date"):
        df = new_york.createDataFrame(rows, "k string, at timestamp_ntz, id long, score double")
        df = df.withColumn("at", F.col("at").cast(kind))
        decided = stream(df, pair_model(), key="k", time="at", id="id", features=["score"], **BARE).toPandas()
        assert decided["id"].tolist() == [0, 1, 2]
        if kind == "timestamp_ntz":
            assert decided["at"].tolist() == [pd.Timestamp(when) for when in times]
        else:
            assert decided["at"].tolist() == [date(2026, 3, 8)] * 3


def test_one_column_may_have_two_roles_and_any_name(spark: Any) -> None:
    rows = [(i, f"k{i % 2}", float(x)) for i, x in enumerate(pair_scores(12, 0.3, 4))]
    df = spark.createDataFrame(rows, "`n.o` long, `k``ey` string, obil_time double")
    decided = stream(df, pair_model(), key="k`ey", time="n.o", id="n.o", features=["obil_time"], **BARE)
    assert decided.columns[:2] == ["k`ey", "n.o"]
    assert sorted(decided.toPandas()["n.o"]) == list(range(12))
    same = stream(df, pair_model(), key="k`ey", id="k`ey", time="n.o", features=["obil_time"], **BARE)
    assert same.columns[:3] == ["k`ey", "n.o", "log_ratio"]


def test_a_table_with_odd_columns_beside_the_features_is_scored(spark: Any) -> None:
    scores = pair_scores(5, 0.3, 4)
    df = spark.createDataFrame([(1, 2, float(x), "t") for x in scores], "a long, b long, `s.c` double, `q``t` string")
    df = df.toDF("a.b", "twice", "s.c", "q`t").select("*", F.lit(3).alias("twice"))
    scored = score(df, pair_model(), features=["s.c"])
    assert scored.columns == ["a.b", "twice", "s.c", "q`t", "twice", "log_ratio", "posterior", "decision"]
    found = [row[5] for row in scored.collect()]
    np.testing.assert_allclose(sorted(found), sorted(pair_model().log_ratios(scores)[:, 1]))
    with pytest.raises(InvalidInputError, match="unique for the model, got 'twice' twice"):
        score(df, pair_model(), features=["twice"])


def test_names_that_differ_in_capitals_only_are_taken_already(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1, 0.5)], "Effective_prior string, Posterior long, score double")
    with pytest.raises(InvalidInputError, match="has a column 'Posterior' already"):
        score(df, pair_model(), features=["score"])
    with pytest.raises(InvalidInputError, match="has a column 'Effective_prior' already"):
        stream(df, pair_model(), key="Effective_prior", time="score", features=["score"])


@pytest.mark.parametrize("missing", ["at", "id"])
def test_a_line_without_a_time_or_an_id_is_named_as_such(spark: Any, missing: str) -> None:
    rows = [("a", i, f"r{i}", 0.1) for i in range(5)] + [
        ("a", None if missing == "at" else 9, None if missing == "id" else "r", 0.1)
    ]
    df = spark.createDataFrame(rows, "k string, at long, id string, score double")
    decided = stream(df, pair_model(), key="k", time="at", id="id", features=["score"], **BARE)
    with pytest.raises(Exception, match=f"column '{missing}' must not be null"):
        decided.collect()


def test_refuses_what_no_key_id_time_or_table_can_be(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1, 0.5, [1])], "k string, at long, score double, list array<int>")
    with pytest.raises(InvalidInputError, match=r"a key must be .* 'list' is array<int>"):
        stream(df, pair_model(), key="list", time="at", features=["score"])
    with pytest.raises(InvalidInputError, match=r"a group must be .* 'list' is array<int>"):
        estimate_prior(df, pair_model(), by="list", features=["score"])
    with pytest.raises(InvalidInputError, match="id must be a column of strings or integers"):
        stream(df, pair_model(), key="k", time="at", id="score", features=["score"])
    with pytest.raises(InvalidInputError, match=r"time must be a timestamp, .* 'list' is array<int>"):
        stream(df, pair_model(), key="k", time="list", features=["score"])
    with pytest.raises(InvalidInputError, match="a Spark DataFrame, got pandas"):
        score(df.toPandas(), pair_model(), features=["score"])
    arrays = [pa.array([[1.0], None])]
    with pytest.raises(InvalidInputError, match="the arrays in 'list' must hold numbers"):
        model_input_of_arrow(arrays, ["list"], pair_model())
