import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.bayes.posterior import posteriors_at
from obil.service.http.decision_responses import DecisionWriter
from obil.service.streams.operations import Decided


def decided(n: int, n_classes: int, labels: list[object], seed: int = 0) -> Decided:
    random = np.random.default_rng(seed)
    ratios = random.normal(size=(n, n_classes))
    ratios[:, 0] = 0.0
    priors = random.dirichlet(np.ones(n_classes), n)
    ids = [f'order "{i}"' if i % 2 else i for i in range(n)]
    chosen = [labels[i % n_classes] for i in range(n)]
    truth = np.arange(n) % 3 > 0
    return Decided("shop", "v1", 0, ids, chosen, ratios, priors, random.normal(size=n), truth, ~truth)


def test_writes_what_the_columns_say() -> None:
    record = decided(5, 2, ["fine", "fraud"])

    answer = json.loads(DecisionWriter(["fine", "fraud"]).json(record))

    assert (answer["stream"], answer["model"], answer["repeated"]) == ("shop", "v1", False)
    posteriors = posteriors_at(record.log_ratios, record.priors)
    for i, one in enumerate(answer["decisions"]):
        assert one["id"] == record.ids[i]
        assert one["label"] == record.labels[i]
        assert one["probability"] == posteriors[i, 1]
        assert one["posterior"] == {"fine": posteriors[i, 0], "fraud": posteriors[i, 1]}
        assert one["log_ratio"] == record.log_ratios[i, 1]
        assert one["prior"] == {"fine": record.priors[i, 0], "fraud": record.priors[i, 1]}
        assert record.thresholds is not None
        assert one["threshold"] == record.thresholds[i]
        assert (one["trusted"], one["reachable"]) == (bool(record.trusted[i]), bool(record.reachable[i]))


def test_speaks_of_the_first_class_where_that_is_the_positive_one() -> None:
    record = replace(decided(3, 2, ["fine", "fraud"]), positive=0)
    writer = DecisionWriter(["fine", "fraud"])

    for i, one in enumerate(json.loads(writer.json(record))["decisions"]):
        assert one["log_ratio"] == -record.log_ratios[i, 1]
        assert one["probability"] == one["posterior"]["fine"]
    assert writer.positive(record) == "fine"


def test_gives_the_decided_class_s_probability_where_a_cost_matrix_decides() -> None:
    record = replace(decided(6, 3, ["a", "b", "c"]), thresholds=None)

    for one in json.loads(DecisionWriter(["a", "b", "c"]).json(record))["decisions"]:
        assert one["probability"] == one["posterior"][one["label"]]
        assert one["threshold"] is None
        assert one["log_ratio"] is None


@pytest.mark.parametrize("edge", [np.inf, -np.inf, np.nan])
def test_writes_null_for_a_threshold_that_json_does_not_have(edge: float) -> None:
    record = replace(decided(2, 2, [0, 1]), thresholds=np.array([edge, 1.0]))

    found = [one["threshold"] for one in json.loads(DecisionWriter([0, 1]).json(record))["decisions"]]

    assert found == [None, 1.0]


@given(st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_writes_classes_of_any_name(names: list[str]) -> None:
    answer = json.loads(DecisionWriter(names).json(decided(2, 2, list(names))))

    assert [one["label"] for one in answer["decisions"]] == names
    assert set(answer["decisions"][0]["posterior"]) == set(names)


def test_csv_holds_the_same_as_json() -> None:
    record = replace(decided(4, 2, ["fine", "fraud"]), labels=np.array(["fine", "fraud"] * 2))
    writer = DecisionWriter(["fine", "fraud"])

    table = list(csv.DictReader(io.StringIO(writer.csv(record).decode())))

    for row, one in zip(table, json.loads(writer.json(record))["decisions"], strict=True):
        assert row["id"] == str(one["id"])
        assert row["label"] == one["label"]
        assert float(row["posterior_fraud"]) == one["posterior"]["fraud"]
        assert float(row["threshold"]) == one["threshold"]
        assert row["trusted"] == str(one["trusted"]).lower()
