"""Expressions give in a database what the model gives in Python, for any score and any name of its column."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from obil import Costs, RatioClassifier
from obil.errors import InvalidInputError
from obil.online.online_classifier import OnlineClassifier
from obil.policies import CostPolicy
from obil.sql import SqlExpressions, quoted, sql_expressions
from obil.trackers import FixedPrior
from tests.cli.cases import obil
from tests.service.postgres import PostgresServer, skip_without_postgres

HOSTILE = ["plain", 'we"ird', "'; DROP TABLE scores; --", "a.b", "naïve höhe", "select", " ", "\\", "a`b"]
KINDS = [(kind, method) for kind in ("margin", "probability") for method in ("affine", "spline", "isotonic")]


def scores_of(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = (rng.random(2_000) < 0.1).astype(int)
    margins = rng.normal(1.5 * labels)
    return (margins if kind == "margin" else 1.0 / (1.0 + np.exp(2.0 - 1.3 * margins))), labels


def model_of(kind: str, method: str = "affine") -> RatioClassifier:
    scores, labels = scores_of(kind)
    return RatioClassifier.from_scores(scores, labels, kind=kind, calibration=method, random_state=0)


def asked_scores(kind: str) -> list[float]:
    scores = [*scores_of(kind)[0][:300].tolist(), 0.0, 1.0, 0.5]
    return scores if kind == "probability" else [*scores, -40.0, 40.0, -1e9, 1e9]


def expected(model: RatioClassifier, scores: list[float], *, prior: float, **settings: Any) -> pd.DataFrame:
    rows = np.array(scores)[:, None]
    settings |= {"tracker": FixedPrior(), "prior": prior, "monitor": False, "horizon": 0}
    decided = OnlineClassifier(model, **settings).decide_many(rows)
    place = model.classes_.tolist().index(settings.get("positive", 1))
    return pd.DataFrame(
        {
            "log_ratio": decided.log_ratios[:, 1],
            "posterior": model.predict_proba(rows, prior=prior)[:, place],
            "alert": decided.alerts,
        }
    )


def held_against(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    np.testing.assert_allclose(found["log_ratio"].astype(float), wanted["log_ratio"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["posterior"].astype(float), wanted["posterior"], rtol=1e-9, atol=1e-300)
    assert found["alert"].astype(bool).tolist() == wanted["alert"].tolist()


def in_duckdb(found: SqlExpressions, scores: list[float | None], column: str) -> pd.DataFrame:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    with duckdb.connect() as connection:
        name = quoted(column, "duckdb")
        connection.execute(f"CREATE TABLE scores (place INTEGER, {name} DOUBLE)")
        connection.executemany("INSERT INTO scores VALUES (?, ?)", list(enumerate(scores)))
        table: pd.DataFrame = connection.execute(f"SELECT {found.select_list()} FROM scores ORDER BY place").df()
    return table


@pytest.mark.parametrize(("kind", "method"), KINDS)
def test_duckdb_decides_as_python_does(kind: str, method: str) -> None:
    model, scores = model_of(kind, method), asked_scores(kind)
    for prior in (0.02, 0.6):
        found = sql_expressions(model, "risk", prior=prior)
        held_against(in_duckdb(found, list(scores), "risk"), expected(model, scores, prior=prior))


def test_policies_costs_and_the_other_class_are_those_of_python() -> None:
    model, scores = model_of("margin"), asked_scores("margin")
    for settings in (
        {"policy": CostPolicy(Costs(false_positive=1.0, false_negative=20.0))},
        {"policy": "recall:0.9"},
        {"positive": 0},
    ):
        found = sql_expressions(model, "risk", prior=0.05, **settings)
        held_against(in_duckdb(found, list(scores), "risk"), expected(model, scores, prior=0.05, **settings))


@pytest.mark.parametrize("column", HOSTILE)
def test_any_name_of_a_column_is_only_a_name(column: str) -> None:
    found = sql_expressions(model_of("margin"), column, prior=0.05)
    assert len(in_duckdb(found, [0.5, 2.0], column)) == 2


@pytest.mark.parametrize("kind", ["margin", "probability"])
def test_a_score_that_is_missing_or_out_of_range_gives_null(kind: str) -> None:
    found = sql_expressions(model_of(kind), "risk", prior=0.05)
    outside: list[float | None] = [None, math.nan, math.inf, -math.inf, *([1.5, -0.1] if kind == "probability" else [])]
    table = in_duckdb(found, [*outside, 0.5], "risk")
    assert table.iloc[:-1].isna().all().all()
    assert table.iloc[-1].notna().all()


@pytest.mark.parametrize(("kind", "method"), KINDS)
def test_postgres_decides_as_python_does(kind: str, method: str, postgres: PostgresServer) -> None:
    model, scores = model_of(kind, method), asked_scores(kind)
    column = HOSTILE[2]
    found = sql_expressions(model, column, prior=0.02, dialect="postgres")
    values = ", ".join(f"({place}, {value!r}::float8)" for place, value in enumerate(scores))
    values += f", ({len(scores)}, NULL), ({len(scores) + 1}, 'NaN'::float8), ({len(scores) + 2}, 'Infinity'::float8)"
    rows = postgres.execute(
        f"SELECT {found.select_list()} FROM (VALUES {values}) AS t(place, {quoted(column, 'postgres')}) ORDER BY place"
    )
    table = pd.DataFrame(rows, columns=["log_ratio", "posterior", "alert"])
    held_against(table.iloc[:-3], expected(model, scores, prior=0.02))
    assert table.iloc[-3:].isna().all().all()


@pytest.fixture(scope="module")
def postgres() -> Any:
    skip_without_postgres()
    server = PostgresServer()
    yield server
    server.remove()


@pytest.mark.parametrize("column", HOSTILE)
@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "bigquery"])
def test_a_parser_of_the_dialect_sees_one_column_and_nothing_else(column: str, dialect: str) -> None:
    sqlglot = pytest.importorskip("sqlglot", reason="needs sqlglot")
    if (dialect, column) == ("bigquery", "a.b"):
        with pytest.raises(InvalidInputError, match="without a point"):
            quoted(column, dialect)
        return
    for method in ("affine", "isotonic"):
        found = sql_expressions(model_of("probability", method), column, prior=0.05, dialect=dialect)
        [tree] = sqlglot.parse(f"SELECT {found.select_list()} FROM scores", read=dialect)
        assert {one.name for one in tree.find_all(sqlglot.exp.Column)} == {column}
        assert [one.alias for one in tree.expressions] == ["log_ratio", "posterior", "alert"]


def test_what_cannot_be_written_is_refused() -> None:
    model = model_of("margin")
    for column, dialect in (("", "duckdb"), ("a\0b", "duckdb"), ("ä" * 32, "postgres"), ("a\nb", "bigquery")):
        with pytest.raises(InvalidInputError, match="a column name of"):
            sql_expressions(model, column, dialect=dialect)
    with pytest.raises(InvalidInputError, match="dialect must be one of duckdb, postgres, bigquery, got 'oracle'"):
        sql_expressions(model, "risk", dialect="oracle")
    X, y = np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(InvalidInputError, match="SQL needs a model that calibrates one score"):
        sql_expressions(RatioClassifier(LogisticRegression(), views=False).fit(X, y), "risk")


def test_the_command_prints_a_select_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scores, labels = scores_of("probability")
    pd.DataFrame({"risk": scores, "fraud": labels}).to_csv("scored.csv", index=False)
    assert obil("fit", "scored.csv", "--target", "fraud", "--score", "risk", "--out", "model").exit_code == 0
    printed = obil("sql", "model", "--prior", ".02", "--cost-fn", "20").stdout
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    table = duckdb.sql(f"SELECT {printed} FROM 'scored.csv'").df()
    assert (
        obil("predict", "model", "scored.csv", "--prior", ".02", "--cost-fn", "20", "--out", "out.csv").exit_code == 0
    )
    predicted = pd.read_csv("out.csv")
    assert table["alert"].astype(int).tolist() == predicted["decision"].tolist()
    refused = obil("sql", "model", "--dialect", "oracle")
    assert refused.exit_code == 2
    assert "dialect must be one of" in refused.stderr
