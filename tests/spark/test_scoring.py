from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import obil
from obil.errors import InvalidInputError
from obil.policies import FBetaPolicy
from obil.spark import score
from tests.online.cases import pair_model, pair_scores, pair_stream, triangle_model, triangle_scores


@pytest.fixture(scope="module")
def named_model() -> Any:
    stream = pair_stream(1_500, 0.2, 3)
    table = pd.DataFrame({"x": stream.features[:, 0], "noise": np.sin(np.arange(1_500.0))})
    labels = np.array(["fine", "fraud"])[stream.labels]
    return obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(table, labels)


def test_adds_what_the_model_itself_says(spark: Any, named_model: Any) -> None:
    rows = pd.DataFrame({"noise": [0.1, -0.2, 0.3], "id": ["a", "b", "c"], "x": [-1.0, 1.1, 3.0]})
    scored = score(spark.createDataFrame(rows), named_model, prior=0.3).toPandas().set_index("id")
    assert list(scored.columns) == ["noise", "x", "log_ratio", "posterior", "decision"]
    ratios = named_model.model_.log_ratios(rows[["x", "noise"]])
    np.testing.assert_allclose(scored["log_ratio"], ratios[:, 1], atol=1e-12)
    expected = named_model.predict_proba(rows[["x", "noise"]], prior=0.3)[:, 1]
    np.testing.assert_allclose(scored["posterior"], expected, atol=1e-12)
    assert scored["decision"].tolist() == np.where(expected > 0.5, "fraud", "fine").tolist()


def test_takes_a_model_folder_costs_and_a_policy(spark: Any, tmp_path: Any) -> None:
    model = pair_model(names=(0, 1))
    obil.save(model, tmp_path / "model")
    scores = pair_scores(500, 0.2, 7)
    df = spark.createDataFrame(pd.DataFrame({"score": scores}))
    costs = obil.Costs(false_positive=1.0, false_negative=9.0)
    by_costs = score(df, tmp_path / "model", costs=costs, prior=0.2, features=["score"]).toPandas()
    online = obil.OnlineClassifier(model, costs=costs, prior=0.2, tracker=obil.trackers.FixedPrior())
    assert by_costs["decision"].tolist() == online.predict(scores).tolist()
    by_policy = score(df, tmp_path / "model", policy=FBetaPolicy(), prior=0.2, features=["score"]).toPandas()
    online = obil.OnlineClassifier(model, policy=FBetaPolicy(), prior=0.2, tracker=obil.trackers.FixedPrior())
    assert by_policy["decision"].tolist() == online.predict(scores).tolist()


def test_reads_whole_numbers_short_floats_and_gaps_as_an_array_holds_them(spark: Any) -> None:
    stream = pair_stream(1_500, 0.2, 3)
    features = np.column_stack([stream.features[:, 0], np.arange(1_500) % 7])
    model = (
        obil.RatioClassifier(HistGradientBoostingClassifier(max_iter=5), views=False, random_state=0)
        .fit(features, stream.labels)
        .model_
    )
    rows = [(0.5, 3), (-1.25, 0), (None, 6), (2.0, None)]
    df = spark.createDataFrame(rows, "x float, n int")
    scored = score(df.select("n", "x"), model, features=["x", "n"]).toPandas()
    matrix = np.array(rows, dtype=np.float64)  # None becomes NaN
    np.testing.assert_allclose(scored["log_ratio"], model.log_ratios(matrix)[:, 1], atol=1e-12)


def test_gives_arrays_for_three_classes_and_reads_a_column_of_arrays(spark: Any) -> None:
    model = triangle_model()
    scores = triangle_scores(50, [0.2, 0.3, 0.5], 5)
    df = spark.createDataFrame(pd.DataFrame({"scores": [row.tolist() for row in scores]}))
    scored = score(df, model, features=["scores"]).toPandas()
    np.testing.assert_allclose(np.stack(scored["posterior"]), model.predict_proba(scores), atol=1e-12)
    assert set(scored["decision"]) <= {"a", "b", "c"}


def test_refuses_what_it_cannot_read_or_add(spark: Any, named_model: Any) -> None:
    df = spark.createDataFrame(pd.DataFrame({"x": [1.0], "noise": [0.0], "posterior": [0.5]}))
    with pytest.raises(InvalidInputError, match="has a column 'posterior' already"):
        score(df, named_model)
    with pytest.raises(InvalidInputError, match="columns are missing: noise"):
        score(df.drop("noise"), named_model)
    with pytest.raises(InvalidInputError, match="fitted without column names"):
        score(df.drop("posterior"), pair_model())
    with pytest.raises(InvalidInputError, match="costs or a policy, not both"):
        score(
            df.drop("posterior"),
            named_model,
            costs=obil.Costs(false_positive=1, false_negative=1),
            policy=FBetaPolicy(),
        )


def test_a_table_without_rows_stays_one(spark: Any, named_model: Any) -> None:
    df = spark.createDataFrame(pd.DataFrame({"x": [1.0], "noise": [0.0]})).where("x > 5")
    assert score(df, named_model).count() == 0
