import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

import obil
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidInputError
from obil.spark import stream
from obil.spark.key_restorer import KeyRestorer
from obil.spark.shipped_model import ShippedModel
from obil.trackers import BayesBank
from tests.online.cases import pair_model, pair_scores, pair_stream
from tests.spark.cases import five_folds
from tests.spark.conftest import date_file
from tests.thorough import repeats

SCHEMA = "site string, at long, id string, score double, truth string"


def lines_of(keys: int, rows: int, *, labels_every: int = 0) -> pd.DataFrame:
    """Return rows of several keys, each at a prior of its own, with labels 20 rows late where asked for."""
    parts = []
    for key in range(keys):
        scores = pair_scores(rows, 0.02 + 0.5 * key / keys, 100 + key)
        ids = [f"{key}/{row}" for row in range(rows)]
        part = pd.DataFrame({"site": f"s{key}", "at": 10 * np.arange(rows), "id": ids, "score": scores, "truth": None})
        parts.append(part)
        if labels_every:
            told = part.iloc[::labels_every].copy()
            told["at"], told["score"] = told["at"] + 205, np.nan
            told["truth"] = np.where(part.iloc[::labels_every]["score"] > 1.0, "fraud", "fine")
            parts.append(told)
    return pd.concat(parts, ignore_index=True)


def write_batches(lines: pd.DataFrame, folder: Path, n_batches: int, *, seed: int) -> None:
    """Write files of one micro-batch each: time order across files inside a key, any order inside a file."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    ordered = lines.sort_values(["at", "id"], kind="stable")
    # each key is cut at places of its own, so batches are ragged
    ends = {key: np.sort(rng.integers(0, len(part) + 1, n_batches - 1)) for key, part in ordered.groupby("site")}
    place = ordered.groupby("site").cumcount()
    batch = [
        int(np.searchsorted(ends[key], row, side="right")) for key, row in zip(ordered["site"], place, strict=True)
    ]
    for number, part in ordered.groupby(np.array(batch)):
        shuffled = part.sample(frac=1.0, random_state=seed)
        text = "\n".join(json.dumps(line) for line in _lines(shuffled)) + "\n"
        path = folder / f"part-{number:04d}.json"
        path.write_text(text)
        date_file(path, int(number))


def _lines(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if v is not None and v == v} for line in table.to_dict("records")]


def run_query(spark: Any, source: Path, place: Path, model: Any, **settings: Any) -> pd.DataFrame:
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    decided = stream(df, model, key="site", time="at", id="id", features=["score"], **settings)
    writer = decided.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(place / "out"))
    query.awaitTermination()
    return spark.read.parquet(str(place / "out")).toPandas()


def alone(lines: pd.DataFrame, model: Any, **settings: Any) -> dict[str, pd.DataFrame]:
    """Return what an OnlineClassifier for each key decides, lines taken by time."""
    found = {}
    for key, part in lines.groupby("site"):
        online, rows = obil.OnlineClassifier(model, **settings), []
        for line in part.sort_values(["at", "id"], kind="stable").itertuples():
            if line.truth is None:
                decision = online.decide([line.score], id=line.id)
                posterior = posteriors_at(decision.log_ratios[None], decision.effective_prior[None])[0]
                rows.append((line.id, decision.label, decision.effective_prior[1], posterior[1], decision.trusted))
            else:
                online.feedback(line.id, line.truth)
        found[key] = pd.DataFrame(
            rows, columns=["id", "decision", "effective_prior", "posterior", "trusted"]
        ).set_index("id")
    return found


def assert_same(decided: pd.DataFrame, expected: dict[str, pd.DataFrame]) -> None:
    assert len(decided) == sum(len(part) for part in expected.values())
    for key, part in expected.items():
        own = decided[decided["site"] == key].set_index("id").loc[part.index]
        assert own["decision"].tolist() == part["decision"].tolist()
        assert own["effective_prior"].tolist() == part["effective_prior"].tolist()  # bit for bit
        assert own["posterior"].tolist() == part["posterior"].tolist()
        assert own["trusted"].tolist() == part["trusted"].tolist()


def test_decides_each_key_as_a_classifier_of_its_own_with_late_labels(spark: Any, tmp_path: Path) -> None:
    lines = lines_of(3, 120, labels_every=7)
    write_batches(lines, tmp_path / "in", 3, seed=0)
    model = pair_model()
    decided = run_query(spark, tmp_path / "in", tmp_path, model, label="truth", prior=0.1)
    assert_same(decided, alone(lines, model, prior=0.1))


def test_keys_of_one_bucket_are_decided_each_by_itself_and_null_is_a_key(spark: Any) -> None:
    lines = lines_of(4, 40, labels_every=7).assign(region=1)
    lines.loc[lines["site"] == "s3", "site"] = None
    df = spark.createDataFrame(lines.astype(object).where(lines.notna(), None), f"{SCHEMA}, region int")
    settings: dict[str, Any] = {"key": ["site", "region"], "time": "at", "id": "id", "label": "truth"}
    decided = stream(df, pair_model(), features=["score"], buckets=2, **settings).toPandas()
    assert set(decided["region"]) == {1}
    assert decided["site"].isna().sum() == 40
    assert_same(decided.fillna({"site": "none"}), alone(lines.fillna({"site": "none"}), pair_model()))


def test_another_number_of_buckets_is_refused_under_a_checkpoint_and_changes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    lines, model = lines_of(3, 60), pair_model()
    write_batches(lines[lines["at"] < 300], tmp_path / "in", 1, seed=0)
    run_query(spark, tmp_path / "in", tmp_path, model, prior=0.1, buckets=4)
    write_batches(lines[lines["at"] >= 300], tmp_path / "rest", 1, seed=0)
    (tmp_path / "rest" / "part-0000.json").rename(tmp_path / "in" / "part-0001.json")
    for other in (1, 8):  # buckets that the checkpoint has, and some that it has not
        with pytest.raises(StreamingQueryException, match="its checkpoint has 4: the number of buckets"):
            run_query(spark, tmp_path / "in", tmp_path, model, prior=0.1, buckets=other)
    decided = run_query(spark, tmp_path / "in", tmp_path, model, prior=0.1, buckets=4)
    assert_same(decided, alone(lines, model, prior=0.1))


def test_the_fold_that_is_evidence_for_a_row_goes_by_its_number_in_its_key(spark: Any, tmp_path: Path) -> None:
    lines = lines_of(2, 120)
    write_batches(lines, tmp_path / "in", 3, seed=0)
    model = five_folds(pair_stream(1_500, 0.2, 0)._replace(features=pair_scores(1_500, 0.2, 0)[:, None]))
    settings: dict[str, Any] = {"tracker": BayesBank(), "prior": 0.1}
    decided = run_query(spark, tmp_path / "in", tmp_path, model, **settings)
    assert_same(decided, alone(lines, model, **settings))
    (key, part), *_ = lines.groupby("site")
    scores = model.score(part["score"].to_numpy()[:, None])
    online = obil.OnlineClassifier(model, **settings)
    by_first = online.decide_log_ratios(scores.log_ratios, evidence=scores.evidence[:, 0]).effective_priors[:, 1]
    assert (
        decided[decided["site"] == key].set_index("id").loc[part["id"], "effective_prior"].tolist() != by_first.tolist()
    )


def test_rows_without_features_are_left_out_of_the_prior_of_their_key(spark: Any) -> None:
    rows = pair_stream(2_000, 0.2, 0)
    X, y = pair_scores(2_000, 0.2, 0)[:, None], rows.labels
    fitted = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X[:1_000], y[:1_000])
    classifier = obil.RatioClassifier(FrozenEstimator(fitted), views=False)
    model = classifier.fit(X[1_000:], y[1_000:]).model_  # its log ratios are the evidence, but for such rows
    lines = lines_of(2, 90)
    lines.loc[np.arange(len(lines)) % 3 == 0, "score"] = np.nan
    settings: dict[str, Any] = {"tracker": BayesBank(), "prior": 0.1}
    decided = stream(
        spark.createDataFrame(lines), model, key="site", time="at", id="id", features=["score"], **settings
    ).toPandas()
    assert_same(decided, alone(lines, model, **settings))
    own = decided[decided["site"] == "s0"].sort_values("id", key=lambda ids: ids.str[2:].astype(int))
    priors = own["effective_prior"].to_numpy()
    np.testing.assert_array_equal(priors[0:-1:3], priors[1::3])  # unchanged by the row before
    assert (priors[1:-1:3] != priors[2::3]).all()


def test_takes_a_plain_table_with_timestamps_and_several_key_columns(spark: Any) -> None:
    lines = lines_of(2, 60)
    table = lines.assign(region=1, when=pd.to_datetime(lines["at"], unit="s"))[["site", "region", "when", "score"]]
    df = spark.createDataFrame(table)
    settings: dict[str, Any] = {"tracker": BayesBank(), "monitor": False, "horizon": 0}
    decided = stream(df, pair_model(), key=["site", "region"], time="when", features=["score"], **settings).toPandas()
    assert list(decided.columns[:4]) == ["site", "region", "when", "id"]
    expected = alone(lines, pair_model(), **settings)
    for key, part in expected.items():
        own = decided[decided["site"] == key].sort_values("when")
        assert own["id"].tolist() == list(range(60))
        assert own["effective_prior"].tolist() == part["effective_prior"].tolist()
    assert decided["when"].max() == table["when"].max()


def test_new_costs_and_a_new_model_take_over_in_a_running_query(spark: Any, tmp_path: Path) -> None:
    lines = lines_of(2, 120)
    model, other = pair_model(), pair_model(seed=5)
    write_batches(lines[lines["at"] < 600], tmp_path / "in", 1, seed=0)
    run_query(spark, tmp_path / "in", tmp_path, model, prior=0.1)
    rest = tmp_path / "rest"
    write_batches(lines[lines["at"] >= 600], rest, 1, seed=0)
    (rest / "part-0000.json").rename(tmp_path / "in" / "part-0001.json")
    costs = obil.Costs(false_positive=1.0, false_negative=50.0)
    decided = run_query(spark, tmp_path / "in", tmp_path, other, prior=0.1, costs=costs, replaces=[model])
    for key, part in lines.groupby("site"):
        online = obil.OnlineClassifier(model, prior=0.1)
        first, second = part[part["at"] < 600], part[part["at"] >= 600]
        online.decide_many(first["score"].to_numpy(), ids=first["id"].tolist())
        online.model = other
        online.costs = costs
        expected = online.decide_many(second["score"].to_numpy(), ids=second["id"].tolist())
        own = decided[decided["site"] == key].set_index("id").loc[second["id"]]
        assert own["decision"].tolist() == expected.labels.tolist()
        assert own["effective_prior"].tolist() == expected.effective_priors[:, 1].tolist()


def test_an_idle_key_is_forgotten_and_a_busy_one_beside_it_is_not(spark: Any, tmp_path: Path) -> None:
    lines, model = lines_of(2, 80), pair_model()
    busy = lines["site"] == "s1"
    halves = [lines[(lines["at"] < 400) & ~busy], lines[(lines["at"] >= 400) & ~busy]]
    parts = [halves[0], *(part for _, part in lines[busy].groupby(lines["at"] // 100)), halves[1]]
    for number, part in enumerate(parts):
        write_batches(part, tmp_path / str(number), 1, seed=0)
    (tmp_path / "in").mkdir()
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    settings: dict[str, Any] = {"prior": 0.1, "expire_after": timedelta(seconds=12), "buckets": 1}
    decided = stream(df, model, key="site", time="at", id="id", features=["score"], **settings)
    writer = decided.writeStream.format("memory").queryName("idle").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        due, wait = 0, 0.0
        for number, part in enumerate(parts):
            time.sleep(wait)
            (tmp_path / str(number) / "part-0000.json").rename(tmp_path / "in" / f"part-{number}.json")
            due, end, wait = due + len(part), time.monotonic() + 200.0, 2.0
            while spark.table("idle").count() < due and query.isActive and time.monotonic() < end:
                time.sleep(0.2)
    finally:
        query.stop()
    found = spark.table("idle").toPandas()
    for half in halves:  # the second, too, starts from the start prior
        assert_same(found[found["id"].isin(half["id"])], alone(half, model, prior=0.1))
    assert_same(found[found["site"] == "s1"], alone(lines[busy], model, prior=0.1))


def test_a_key_of_an_unknown_model_is_refused_with_the_remedy() -> None:
    old, new = ShippedModel.of(pair_model()), ShippedModel.of(pair_model(seed=5))
    fresh = obil.OnlineClassifier(new.load()).state()
    kept = obil.OnlineClassifier(old.load()).state()
    with pytest.raises(obil.errors.InvalidStateError, match=r"replaces=\[\.\.\.\]"):
        KeyRestorer(new, (), fresh).restored(old.fingerprint[:16], kept)


def test_a_key_goes_on_with_the_policy_of_the_query_and_where_it_was_replaced_with_its_model() -> None:
    old, new = ShippedModel.of(pair_model()), ShippedModel.of(pair_model(seed=5))
    kept, policy = obil.OnlineClassifier(old.load(), prior=0.3), obil.policies.FBetaPolicy()
    kept.decide_many(pair_scores(300, 0.1, 3))
    for shipped, replaced in ((old, ()), (new, (old,))):
        fresh = obil.OnlineClassifier(shipped.load(), policy=policy).state()
        restorer = KeyRestorer(shipped, replaced, fresh)
        assert restorer.fresh().state() == fresh
        online = restorer.restored(old.fingerprint[:16], kept.state())
        assert (online.n_rows, online.policy.to_json()) == (300, policy.to_json())
        assert online.model.holdout_.log_ratios.tobytes() == shipped.load().holdout_.log_ratios.tobytes()
        again = restorer.restored(restorer.name, online.state())
        assert again.state() == online.state()
        scores = pair_scores(50, 0.1, 4)
        assert again.decide_many(scores).labels.tolist() == online.decide_many(scores).labels.tolist()


def test_refuses_labels_without_ids_and_columns_that_are_not_there(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1, "x", 0.5, None)], SCHEMA)
    with pytest.raises(InvalidInputError, match="label needs id="):
        stream(df, pair_model(), key="site", time="at", label="truth", features=["score"])
    with pytest.raises(InvalidInputError, match="columns are missing: shop"):
        stream(df, pair_model(), key="shop", time="at", features=["score"])
    with pytest.raises(InvalidInputError, match="has a column 'effective_prior' already"):
        stream(
            df.withColumnRenamed("site", "effective_prior"),
            pair_model(),
            key="effective_prior",
            time="at",
            features=["score"],
        )
    for buckets in (0, 1.5, True):
        with pytest.raises(InvalidInputError, match="buckets must be an integer from 1 to 1,000,000, got"):
            stream(df, pair_model(), key="site", time="at", features=["score"], buckets=buckets)
    with pytest.raises(InvalidInputError, match="positive timedelta"):
        stream(df, pair_model(), key="site", time="at", features=["score"], expire_after=timedelta(0))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_keys_of_2000_rows_are_decided_as_by_decide_many(spark: Any, tmp_path: Path) -> None:
    n_keys, model = repeats(50, 100), pair_model()
    lines = lines_of(n_keys, 2_000)
    write_batches(lines, tmp_path / "in", 6, seed=1)
    decided = run_query(spark, tmp_path / "in", tmp_path, model)
    assert len(decided) == 2_000 * n_keys
    different = 0
    for key, part in lines.groupby("site"):
        expected = obil.OnlineClassifier(model).decide_many(part["score"].to_numpy(), ids=part["id"].tolist())
        own = decided[decided["site"] == key].set_index("id").loc[part["id"]]
        different += int((own["decision"].to_numpy() != expected.labels).sum())
        different += int((own["effective_prior"].to_numpy() != expected.effective_priors[:, 1]).sum())
        different += int((own["threshold"].to_numpy() != expected.thresholds).sum())
    print(f"{len(decided)} rows of {n_keys} keys: {different} differ from decide_many")
    assert different == 0
