import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import obil
from obil.bayes.posterior import posterior
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.spark import estimate_prior
from obil.spark.prevalence import LEAST_START, start_from_posteriors
from obil.trackers.evidence import BinaryEvidence
from obil.trackers.pass_search import estimate_from_rows
from tests.online.cases import SEPARATION, TRIANGLE, pair_model, pair_scores, triangle_model, triangle_scores
from tests.spark.cases import five_folds
from tests.thorough import repeats


def test_finds_the_prior_of_a_table_as_one_machine_does(spark: Any) -> None:
    model = pair_model()
    scores = pair_scores(6_000, 0.05, 11)
    df = spark.createDataFrame(pd.DataFrame({"score": scores})).repartition(5)
    found = estimate_prior(df, model, features=["score"])
    alone = obil.estimate_prior(model, scores)
    np.testing.assert_allclose(found.prior, alone.prior, atol=1e-9)
    assert found.n_rows == 6_000
    np.testing.assert_allclose(found.interval, alone.interval, rtol=1e-6)


def require_the_figures_of_one_process(found: pd.DataFrame, alone: obil.SegmentEstimates) -> None:
    """Hold a table of groups, by their names, against the estimates of one process, to 1e-9."""
    assert len(found) == len(alone)
    k = 1 if len(alone.mean) == 2 else slice(None)
    for name, own in alone.items():
        row = found.loc[name]
        assert row["n_rows"] == own.n_rows
        figures = {"prior": own.prior, "lower": own.interval[:, 0], "upper": own.interval[:, 1]}
        for column, expected in (figures | {"alone": alone.alone[name].prior}).items():
            np.testing.assert_allclose(row[column], expected[k], rtol=0.0, atol=1e-9)
        assert row["q_value"] == pytest.approx(alone.q_values[name], abs=1e-7)


def test_groups_learn_from_each_other_as_in_one_process(spark: Any) -> None:
    model = pair_model()
    parts = {f"s{i}": pair_scores(20 + 40 * i, 0.05 + 0.02 * i, i) for i in range(8)}
    parts |= {"big": pair_scores(3_000, 0.1, 9), None: pair_scores(500, 0.3, 10)}
    table = pd.concat([pd.DataFrame({"site": site, "score": scores}) for site, scores in parts.items()])
    table["site"] = table["site"].astype(object).where(table["site"].notna(), None)
    df = spark.createDataFrame(table.sample(frac=1.0, random_state=0), "site string, score double").repartition(3)
    found = estimate_prior(df, model, by="site", features=["score"]).toPandas()
    names = table["site"].fillna("none")
    alone = obil.estimate_prior(model, table["score"].to_numpy(), by=names)
    found["site"] = found["site"].fillna("none")
    require_the_figures_of_one_process(found.set_index("site"), alone)
    assert found["q_value"].min() < 0.1
    first = found.set_index("site").loc["s0"]
    assert abs(first["prior"] - first["alone"]) > 0.005  # drawn to the others


def test_groups_of_three_classes_learn_from_each_other_as_in_one_process(spark: Any) -> None:
    model = triangle_model()
    parts = [triangle_scores(60 + 30 * i, [0.7 - 0.05 * i, 0.2, 0.1 + 0.05 * i], i) for i in range(5)]
    table = pd.DataFrame({"scores": [row.tolist() for row in np.concatenate(parts)]})
    table["site"] = np.repeat(np.arange(5), [len(part) for part in parts])
    df = spark.createDataFrame(table.sample(frac=1.0, random_state=0)).repartition(4)
    found = estimate_prior(df, model, by=["site"], features=["scores"], level=0.8).toPandas()
    alone = obil.estimate_prior(model, np.concatenate(parts), by=table["site"], level=0.8)
    require_the_figures_of_one_process(found.set_index("site"), alone)


def test_no_groups_are_an_empty_table(spark: Any) -> None:
    df = spark.createDataFrame(pd.DataFrame({"site": ["a"], "score": [1.0]})).where("score > 5")
    found = estimate_prior(df, pair_model(), by="site", features=["score"])
    assert found.columns == ["site", "n_rows", "prior", "lower", "upper", "alone", "q_value"]
    assert found.count() == 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_evidence_of_several_folds_gives_the_prior_that_one_machine_finds(spark: Any, n_classes: int) -> None:
    classes = {2: GaussianClasses.pair(SEPARATION), 3: TRIANGLE}[n_classes]
    train, prior = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])[:, -n_classes:]
    rows = classes.draw(np.tile(prior / prior.sum(), (900, 1)), random_state=1).features
    model = five_folds(classes.draw(np.tile(train / train.sum(), (1_500, 1)), random_state=0))
    names = [f"x{i}" for i in range(rows.shape[1])]
    df = spark.createDataFrame(pd.DataFrame(rows, columns=names).assign(site=np.arange(900) % 2)).repartition(3)
    whole, alone = estimate_prior(df, model, features=names), obil.estimate_prior(model, rows)
    assert (model.n_folds, whole.n_rows) == (5, 900)
    np.testing.assert_allclose(whole.prior, alone.prior, atol=1e-6)
    np.testing.assert_allclose(whole.interval, alone.interval, atol=1e-4)
    by_site = estimate_prior(df, model, by="site", features=names).toPandas().set_index("site")
    require_the_figures_of_one_process(by_site, obil.estimate_prior(model, rows, by=np.arange(900) % 2))


def test_the_interval_of_a_group_holds_its_level_and_the_calibrator_s_doubt(spark: Any) -> None:
    model, scores = pair_model(300), pair_scores(4_000, 0.2, 2)
    df = spark.createDataFrame(pd.DataFrame({"site": "a", "score": scores}))
    found = {
        level: estimate_prior(df, model, by="site", level=level, features=["score"]).first() for level in (0.5, 0.9)
    }
    rows_only = estimate_from_rows(model.evidence_rows(scores), level=0.9)
    assert found[0.9]["lower"] < found[0.5]["lower"] < found[0.5]["upper"] < found[0.9]["upper"]
    width = found[0.9]["upper"] - found[0.9]["lower"]
    assert width > 1.1 * (rows_only.interval[1, 1] - rows_only.interval[1, 0])


def test_a_stream_has_no_end_to_estimate_at(spark: Any, tmp_path: Path) -> None:
    df = spark.readStream.schema("score double").json(str(tmp_path))
    with pytest.raises(InvalidInputError, match="df must not be streaming"):
        estimate_prior(df, pair_model(), features=["score"])


def test_finds_the_prior_of_three_classes_in_a_few_passes(spark: Any) -> None:
    model = triangle_model()
    first, second = triangle_scores(1_500, [0.1, 0.2, 0.7], 1), triangle_scores(1_200, [0.5, 0.5, 0.0], 2)
    table = pd.DataFrame({"scores": [row.tolist() for row in np.concatenate([first, second])]})
    df = spark.createDataFrame(table).repartition(3)
    whole = estimate_prior(df, model, features=["scores"])
    alone = estimate_from_rows(model.evidence_rows(np.concatenate([first, second])))
    np.testing.assert_allclose(whole.prior, alone.prior, atol=1e-6)
    assert ((whole.interval[:, 0] <= alone.interval[:, 0]) & (whole.interval[:, 1] >= alone.interval[:, 1])).all()


def test_refuses_a_table_without_rows_or_columns(spark: Any) -> None:
    df = spark.createDataFrame(pd.DataFrame({"score": [1.0], "prior": [1]}))
    with pytest.raises(InvalidInputError, match="no rows"):
        estimate_prior(df.where("score > 5"), pair_model(), features=["score"])
    with pytest.raises(InvalidInputError, match="columns are missing: site"):
        estimate_prior(df, pair_model(), by="site", features=["score"])
    with pytest.raises(InvalidInputError, match="has a column 'prior' already"):
        estimate_prior(df, pair_model(), by="prior", features=["score"])


def moved_bytes(spark: Any, group: str) -> tuple[int, int, int]:
    """Return tasks, shuffle bytes written and result bytes of the jobs of a group, from Spark's own event log."""
    context = spark.sparkContext
    folder = Path(context.getConf().get("spark.eventLog.dir"))
    log = folder / f"{context.applicationId}.inprogress"
    for _ in range(200):  # the log is written behind the work
        events = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        starts = [
            event
            for event in events
            if event["Event"] == "SparkListenerJobStart"
            and (event.get("Properties") or {}).get("spark.jobGroup.id") == group
        ]
        ended = {event["Job ID"] for event in events if event["Event"] == "SparkListenerJobEnd"}
        if starts and all(event["Job ID"] in ended for event in starts):
            break
        time.sleep(0.1)
    stages = {stage for event in starts for stage in event["Stage IDs"]}
    tasks = [event for event in events if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages]
    metrics = [task["Task Metrics"] for task in tasks]
    shuffled = sum(one["Shuffle Write Metrics"]["Shuffle Bytes Written"] for one in metrics)
    return len(tasks), shuffled, sum(one["Result Size"] for one in metrics)


def test_a_partition_sends_at_most_8_kb_of_a_group_through_the_shuffle(spark: Any) -> None:
    df = spark.range(0, 6_400, 1, 64).selectExpr("7 as site", "sin(id) * 4 as score")
    spark.sparkContext.setJobGroup("by site", "evidence by group")
    found = estimate_prior(df, pair_model(), by="site", features=["score"]).collect()
    spark.sparkContext.setJobGroup("", "")
    assert found[0]["n_rows"] == 6_400
    _, shuffled, _ = moved_bytes(spark, "by site")
    assert 64 * 500 < shuffled <= 64 * 8_192


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_millions_of_rows_in_64_partitions_give_the_estimate_of_one_machine(spark: Any) -> None:
    model, n_rows = pair_model(), repeats(2_000_000, 10_000_000)
    drawn = spark.range(0, n_rows, 1, 64).selectExpr("rand(1) < 0.03 as positive", "randn(2) as noise")
    df = drawn.selectExpr("2.0 * (2.0 * (noise + if(positive, 2.0, 0.0)) - 2.0) + 1.0 as score")
    spark.sparkContext.setJobGroup("millions", "evidence")
    found = estimate_prior(df, model, features=["score"])
    spark.sparkContext.setJobGroup("", "")
    tasks, shuffled, results = moved_bytes(spark, "millions")
    scores = np.concatenate([part.to_numpy() for part in df.toArrow().column("score").chunks])
    ratios = model.evidence_rows(scores)
    alone = BinaryEvidence.of(ratios).estimate()
    most_likely, error = _by_newton(ratios[:, 0, 1])
    print(  # the figure
        f"{found.n_rows:,} rows, {tasks} tasks: prior {found.prior[1]:.9f}; off the single machine's by "
        f"{abs(found.prior[1] - alone.prior[1]):.2e}, off full likelihood by "
        f"{abs(found.prior[1] - most_likely) / error:.2e} standard errors; {shuffled} bytes shuffled, "
        f"{results} bytes of results to the driver (64 x 8 kB is {64 * 8_192})"
    )
    assert found.n_rows == n_rows
    assert tasks == 64
    assert abs(found.prior[1] - alone.prior[1]) < 1e-9
    assert abs(found.prior[1] - most_likely) < 0.1 * error
    assert shuffled + results <= 64 * 8_192


def _by_newton(log_ratios: np.ndarray) -> tuple[float, float]:
    """Return the most likely prior from the rows themselves, and its standard error."""
    gain = np.expm1(log_ratios)
    prior = 0.05
    for _ in range(50):
        score = gain / (1.0 + prior * gain)
        prior = min(max(prior + score.sum() / (score**2).sum(), 1e-9), 1.0 - 1e-9)
    return prior, float(1.0 / np.sqrt(((gain / (1.0 + prior * gain)) ** 2).sum()))


def test_the_mean_posterior_is_corrected_to_a_start_near_the_truth() -> None:
    model, truth = triangle_model(), [0.2, 0.2, 0.6]
    means = posterior(model.evidence_rows(triangle_scores(20_000, truth, 1))[:, 0], model.prior_).mean(axis=0)
    start = start_from_posteriors(model, means)
    assert abs(means - truth).max() > 0.05  # as it is, it leans to the training prior
    np.testing.assert_allclose(start, truth, atol=0.03)  # what 2,000 held-out rows leave open


def test_no_class_is_absent_from_the_start() -> None:
    start = start_from_posteriors(triangle_model(), [0.99, 0.01, 0.0])
    assert start.sum() == pytest.approx(1.0)
    assert start.min() > LEAST_START / 2.0
