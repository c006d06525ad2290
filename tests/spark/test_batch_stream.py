import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

from obil import RatioClassifier
from obil.errors import InvalidInputError, InvalidStateError
from obil.spark import stream_batches
from obil.spark.batch_bank import BatchBank
from obil.spark.batch_stream import AfterBatch, BatchFollower, read_after, write_after
from obil.trackers.evidence import BinaryEvidence
from tests.online.cases import pair_model, pair_scores, pair_stream, triangle_model
from tests.spark.cases import five_folds
from tests.spark.conftest import date_file
from tests.thorough import repeats

BARE: dict[str, Any] = {"costs": None, "policy": None, "positive": None, "features": ["score"], "trusted": ()}


def follower(tmp_path: Path, write: Any, model: Any = None) -> BatchFollower:
    return BatchFollower(model or pair_model(), write=write, state=tmp_path / "state", prior=0.1, settings=BARE)


def run_batches(spark: Any, tmp_path: Path, n_batches: int, n_rows: int) -> tuple[list[float], BatchBank]:
    """Run a query over `n_batches` files; return the priors it decided with and the same evidence in one process."""
    model, alone, used = pair_model(), BatchBank(0.1), []
    (tmp_path / "in").mkdir()
    for number in range(n_batches):
        scores = pair_scores(n_rows, 0.02 if number < n_batches // 2 else 0.3, number)
        path = tmp_path / "in" / f"part-{number:04d}.parquet"
        pd.DataFrame({"score": scores}).to_parquet(path)
        date_file(path, number)
        used.append(float(alone.prior[1]))
        alone.update(BinaryEvidence.of(model.evidence_rows(scores)))
    df = spark.readStream.schema("score double").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    out = tmp_path / "out"
    writer = stream_batches(
        df.repartition(3),
        model,
        write=lambda batch, number: batch.coalesce(1).write.mode("overwrite").parquet(str(out / f"batch={number}")),
        state=tmp_path / "state",
        prior=0.1,
        features=["score"],
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None
    decided = spark.read.parquet(str(out)).groupBy("batch").count().toPandas()
    assert sorted(decided["batch"]) == list(range(n_batches))
    assert (decided["count"] == n_rows).all()
    return used, alone


def test_each_batch_is_decided_with_what_the_ones_before_it_said(spark: Any, tmp_path: Path) -> None:
    used, alone = run_batches(spark, tmp_path, 4, 300)
    saved = read_after(tmp_path / "state")
    assert saved is not None
    assert saved.batch_id == 3
    assert abs(saved.bank.prior[1] - alone.prior[1]) < 1e-9
    for number, prior in enumerate(used):
        rows = spark.read.parquet(str(tmp_path / "out" / f"batch={number}")).toPandas()
        odds = np.log(rows["posterior"] / (1.0 - rows["posterior"])) - rows["log_ratio"]
        np.testing.assert_allclose(odds, np.log(prior / (1.0 - prior)), atol=1e-7)


def test_a_model_of_several_folds_updates_by_the_evidence_of_all_of_them(spark: Any, tmp_path: Path) -> None:
    model, rows = five_folds(pair_stream(1_500, 0.2, 0)), pair_stream(400, 0.3, 5).features
    settings = BARE | {"features": ["x"]}
    follow = BatchFollower(
        model, write=lambda batch, _: batch.count(), state=tmp_path / "state", prior=0.1, settings=settings
    )
    follow(spark.createDataFrame(pd.DataFrame({"x": rows[:, 0]})).repartition(3), 0)
    alone = BatchBank(0.1)
    alone.update(BinaryEvidence.of(model.evidence_rows(rows)))
    assert follow.bank.n_rows == 400
    np.testing.assert_allclose(follow.bank.prior, alone.prior, atol=1e-9)


def test_rows_without_features_leave_the_prior_alone(spark: Any, tmp_path: Path) -> None:
    rows = pair_stream(2_000, 0.2, 0)
    X, y = pair_scores(2_000, 0.2, 0)[:, None], rows.labels
    fitted = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X[:1_000], y[:1_000])
    model = RatioClassifier(FrozenEstimator(fitted), views=False).fit(X[1_000:], y[1_000:]).model_
    scores = pair_scores(400, 0.4, 1)
    scores[::2] = np.nan
    settings = BARE | {"features": ["x"]}
    follow = BatchFollower(
        model, write=lambda batch, _: batch.count(), state=tmp_path / "state", prior=0.1, settings=settings
    )
    follow(spark.createDataFrame(pd.DataFrame({"x": scores})).repartition(3), 0)
    alone = BatchBank(0.1)
    alone.update(BinaryEvidence.of(model.evidence_rows(scores[:, None])))
    np.testing.assert_allclose(follow.bank.prior, alone.prior, atol=1e-9)
    wrong = BatchBank(0.1)
    wrong.update(BinaryEvidence.of(model.log_ratios(scores[:, None])[:, None]))
    assert abs(follow.bank.prior[1] - wrong.prior[1]) > 0.01


def test_a_state_of_another_checkpoint_is_refused_and_left_alone(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pd.DataFrame({"score": pair_scores(100, 0.4, 1)}).to_parquet(tmp_path / "in" / "part.parquet")

    def run(checkpoint: str) -> Any:
        df = spark.readStream.schema("score double").parquet(str(tmp_path / "in"))
        state = tmp_path / "state"
        writer = stream_batches(df, pair_model(), write=lambda batch, _: batch.count(), state=state, features=["score"])
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        return query.id

    id_of_first = run("first")
    saved = (tmp_path / "state").read_bytes()
    assert json.loads(saved)["query"] == id_of_first
    assert "belongs to the checkpoint of query" in run("second")  # its batch 0 is not the first one's
    assert (tmp_path / "state").read_bytes() == saved
    pd.DataFrame({"score": pair_scores(100, 0.4, 2)}).to_parquet(tmp_path / "in" / "more.parquet")
    assert run("first") == id_of_first  # another run resumes from the same checkpoint
    after = read_after(tmp_path / "state")
    assert after is not None
    assert (after.batch_id, after.bank.n_rows) == (1, 200)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_after_many_micro_batches_the_prior_is_that_of_the_same_evidence_in_one_process(
    spark: Any, tmp_path: Path
) -> None:
    n_batches = repeats(12, 200)
    _, alone = run_batches(spark, tmp_path, n_batches, 500)
    saved = read_after(tmp_path / "state")
    assert saved is not None
    difference = abs(float(saved.bank.prior[1] - alone.prior[1]))
    print(f"prior after {n_batches} micro-batches: {saved.bank.prior[1]:.6f}, off by {difference:.2e}")
    assert saved.bank.n_rows == 500 * n_batches
    assert difference < 1e-9


def test_a_repeated_batch_is_decided_as_before_and_counted_once(spark: Any, tmp_path: Path) -> None:
    written: list[list[float]] = []
    keep = lambda batch, _: written.append(batch.toPandas()["posterior"].tolist())
    df = spark.createDataFrame(pd.DataFrame({"score": pair_scores(200, 0.4, 1)})).coalesce(1)
    first = follower(tmp_path, keep)
    first(df, 0)
    after = first.bank.prior.tolist()
    again = follower(tmp_path, keep)  # the process died before Spark had noted the batch as done
    again(df, 0)
    assert written[0] == written[1]
    assert again.bank.prior.tolist() == after
    again(df, 1)
    assert again.bank.n_rows == 400
    assert written[2] != written[1]
    with pytest.raises(InvalidStateError, match="checkpoint is older than the state"):
        again(df, 0)


def test_warns_where_the_state_was_lost_beside_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame(pd.DataFrame({"score": pair_scores(50, 0.4, 1)}))
    with pytest.warns(UserWarning, match="at batch 7, .* expects 0"):
        follower(tmp_path, lambda batch, _: batch.count())(df, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        follower(tmp_path, lambda batch, _: batch.count())(df, 8)


def test_a_state_that_could_not_be_written_is_written_when_the_batch_is_repeated(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.createDataFrame(pd.DataFrame({"score": pair_scores(50, 0.4, 1)}))
    follow = follower(tmp_path, lambda batch, _: batch.count())
    follow(df, 0)

    def full(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr("obil.spark.batch_stream.write_after", full)
        with pytest.raises(OSError, match="disk full"):
            follow(df, 1)
    follow(df, 1)
    saved = read_after(tmp_path / "state")
    assert saved is not None
    assert (saved.batch_id, saved.bank.n_rows) == (1, 100)
    assert follow.bank.n_rows == 100


def test_a_decided_batch_says_at_which_prior_and_is_kept_no_longer_than_needed(spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame(pd.DataFrame({"score": pair_scores(50, 0.4, 1)}))
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    seen: list[Any] = []
    follower(tmp_path, lambda batch, _: seen.append(batch.toPandas()))(df, 0)
    assert seen[0]["prior"].tolist() == pytest.approx([0.1] * 50)
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before


def test_refuses_a_plain_table_and_a_state_that_is_no_file_of_the_driver(spark: Any, tmp_path: Path) -> None:
    df = spark.createDataFrame(pd.DataFrame({"score": [0.1]}))
    with pytest.raises(InvalidInputError, match="df must be streaming"):
        stream_batches(df, pair_model(), write=print, state=tmp_path / "state", features=["score"])
    with pytest.raises(InvalidInputError, match="driver's file system"):
        BatchFollower(pair_model(), write=print, state="s3://bucket/prior.json", prior=None, settings=BARE)


def test_a_batch_whose_writing_failed_leaves_the_prior_alone(spark: Any, tmp_path: Path) -> None:
    def fail(batch: Any, number: int) -> None:
        raise RuntimeError("disk full")

    df = spark.createDataFrame(pd.DataFrame({"score": pair_scores(50, 0.4, 1)}))
    follow = follower(tmp_path, fail)
    before = follow.bank.prior.tolist()
    with pytest.raises(RuntimeError, match="disk full"):
        follow(df, 0)
    assert follow.bank.prior.tolist() == before
    assert not (tmp_path / "state").exists()


def test_the_state_file_is_replaced_whole_and_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    bank = BatchBank(0.2)
    write_after(path, AfterBatch("some-query", 7, bank.prior, bank))
    found = read_after(path)
    assert found is not None
    assert (found.query, found.batch_id, found.bank.state()) == ("some-query", 7, bank.state())
    assert [one.name for one in path.parent.iterdir()] == ["state"]
    for broken in ("", "{", "[]", json.dumps({"kind": "obil_batches", "format": 9}), json.dumps({"kind": "?"})):
        path.write_text(broken)
        with pytest.raises(InvalidStateError):
            read_after(path)
    assert read_after(tmp_path / "none") is None


def test_three_classes_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="use stream with one constant key"):
        follower(tmp_path, print, triangle_model())
