"""What a key does with its lines: whatever order and pieces they come in, the outcome is the same."""

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import obil
from obil.errors import InvalidInputError
from obil.online.state.resume import settings_in
from obil.spark import keyed_stream, score, stream
from obil.spark.bucket_lines import ID, LABEL, PROPENSITY, RATIOS, TIME, BucketLines, RowLayout
from obil.spark.columns import as_binary
from obil.trackers import BayesBank
from tests.online.cases import pair_model, pair_scores, pair_stream

KEY = "obil_key0"
LAYOUT = RowLayout(keys=(KEY,), n_classes=2, evidence=None, has_ids=True, has_labels=True, has_propensities=True)


def line(at: int, name: str, ratio: float | None, label: str | None = None, propensity: float = 1.0) -> dict[str, Any]:
    ratios = None if ratio is None else as_binary(np.array([[0.0, ratio]]))[0]
    return {KEY: "a", TIME: at, ID: name, RATIOS: ratios, LABEL: label, PROPENSITY: propensity}


def decided_rows(online: obil.OnlineClassifier, table: pd.DataFrame) -> list[Any]:
    return list(BucketLines(table, LAYOUT).decided(0, online))


@pytest.mark.parametrize(
    "lines",
    [
        [line(0, "a", 1.0), line(0, "a", -3.0), line(0, "a", 4.0)],  # one id, one time, three scores
        [line(0, "a", 1.0), line(0, "a", None, "fraud"), line(0, "a", None, "fine")],  # labels that contradict
        [line(0, "a", 1.0), line(0, "a", None, "fraud", 0.5), line(0, "a", None, "fraud", 0.1)],
        [line(0, "b", 2.0), line(0, "a", 1.0), line(0, "b", None, "fraud")],  # rows before labels, then by id
    ],
)
def test_lines_of_one_time_are_decided_alike_in_any_order_of_arrival(lines: list[dict[str, Any]]) -> None:
    outcomes = []
    for order in permutations(lines):
        online = obil.OnlineClassifier(pair_model())
        online.decide_log_ratios(np.column_stack([np.zeros(30), pair_stream(30, 0.2, 1).log_ratios[:, 1]]))
        found = decided_rows(online, pd.DataFrame(list(order)))
        outcomes.append((online.state(), [part.effective_priors.tolist() for part in found]))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert online.label_counts.labelled == min(1, sum(one[LABEL] is not None for one in lines))


def test_a_label_counts_by_its_propensity() -> None:
    lines = pd.DataFrame([line(0, "a", 1.0), line(1, "b", 2.0), line(2, "a", None, "fraud", 0.25)])
    online, rare, sure = (obil.OnlineClassifier(pair_model()) for _ in range(3))
    decided_rows(online, lines)
    for one, propensity in ((rare, 0.25), (sure, 1.0)):
        decided_rows(one, lines.iloc[:2])
        one.feedback("a", "fraud", propensity=propensity)
    assert online.state() == rare.state() != sure.state()


def test_small_pieces_propensities_and_views_come_to_what_a_classifier_of_its_own_says(spark: Any) -> None:
    drawn = pair_stream(1_500, 0.2, 3)
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"x": drawn.features[:, 0], "y": drawn.features[:, 0] + rng.normal(size=1_500)})
    model = obil.RatioClassifier(LogisticRegression(), views=True, random_state=0).fit(train, drawn.labels)
    assert (model.model_.n_folds, model.model_.n_views) == (5, 4)
    n_rows = 40
    rows = train.iloc[:n_rows].assign(k="a", at=np.arange(n_rows), id=np.arange(n_rows), truth=None, asked=1.0)
    told = rows.iloc[:20:2].assign(at=lambda t: t["at"] + 15.5, truth=drawn.labels[:20:2], asked=0.3, x=np.nan)
    lines = pd.concat([rows, told]).sample(frac=1.0, random_state=1)
    schema = "x double, y double, k string, at double, id long, truth long, asked double"
    lines["truth"] = lines["truth"].astype(object).where(lines["truth"].notna(), None)
    df = spark.createDataFrame(lines, schema).coalesce(1)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        decided = stream(
            df, model, key="k", time="at", id="id", label="truth", propensity="asked", positive=1, horizon=100
        ).toPandas()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    online, priors = obil.OnlineClassifier(model, positive=1, horizon=100), {}
    for one in lines.sort_values("at").itertuples():
        if one.truth is None:
            priors[one.id] = online.decide(pd.DataFrame({"x": [one.x], "y": [one.y]}), id=one.id).effective_prior[1]
        else:
            online.feedback(one.id, int(one.truth), propensity=0.3)
    assert decided["id"].tolist() == list(range(n_rows))
    assert decided["effective_prior"].tolist() == [priors[i] for i in range(n_rows)]  # bit for bit


class _CaughtError(Exception):
    pass


def test_a_key_starts_with_the_settings_of_the_query(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def catch(shipped: Any, replaced: Any, fresh: bytes, *_: Any) -> None:
        raise _CaughtError(shipped.load(), fresh, replaced)

    monkeypatch.setattr(keyed_stream, "BucketProcessor", catch)
    df = spark.createDataFrame([("a", 1, 0.5)], "k string, at long, score double")
    with pytest.raises(_CaughtError) as caught:
        stream(
            df, pair_model(), key="k", time="at", features=["score"], positive="fine", monitor=False, horizon=7,
            unlabeled_as="fraud", prior={"fine": 0.7, "fraud": 0.3}, tracker=BayesBank(), replaces=pair_model(seed=5),
        )  # fmt: skip
    model, fresh, replaced = caught.value.args
    given = settings_in(model, fresh)
    assert [given[name] for name in ("positive", "monitor", "horizon", "unlabeled_as")] == [0, None, 7, 1]
    assert given["tracker"][0] == "BayesBank"
    assert given["tracker"][1]["prior"] == [0.7, 0.3]
    assert obil.OnlineClassifier.from_state(model, fresh).prior.tolist() == [0.7, 0.3]
    assert len(replaced) == 1
    with pytest.raises(InvalidInputError, match="a replaced model has the classes"):
        stream(df, pair_model(), key="k", time="at", features=["score"], replaces=[pair_model(names=(0, 1))])


def test_scoring_alerts_on_the_class_it_was_told(spark: Any) -> None:
    scores = pair_scores(300, 0.4, 8)
    df = spark.createDataFrame(pd.DataFrame({"score": scores}))
    policy = obil.policies.FBetaPolicy()
    for positive in ("fine", "fraud"):
        scored = score(df, pair_model(), policy=policy, prior=0.4, positive=positive, features=["score"]).toPandas()
        online = obil.OnlineClassifier(
            pair_model(), policy=policy, prior=0.4, positive=positive, tracker=obil.trackers.FixedPrior()
        )
        assert scored["decision"].tolist() == online.predict(scores).tolist()
