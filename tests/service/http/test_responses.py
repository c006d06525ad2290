import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obil.bayes.posterior import posteriors_at
from obil.online.decision import Decisions
from obil.service.http.responses import DecisionWriter
from obil.service.streams.operations import Decided


def decided(n: int, classes: list[object], seed: int = 0, **columns: Any) -> Decided:
    """Return made-up decisions; the second of two classes is the positive one."""
    random, n_classes = np.random.default_rng(seed), len(classes)
    ratios = random.normal(size=(n, n_classes))
    ratios[:, 0] = 0.0
    priors = random.dirichlet(np.ones(n_classes), n)
    made_up = {
        "ids": [f'order "{i}"' if i % 2 else i for i in range(n)],
        "classes": np.array(classes, dtype=object),
        "numbers": np.arange(n) % n_classes,
        "positive": 1 if n_classes == 2 else None,
        "log_ratios": ratios,
        "effective_priors": priors,
        "posteriors": posteriors_at(ratios, priors),
        "thresholds": random.normal(size=n),
        "reachable": np.arange(n) % 3 > 0,
        "trusted": np.arange(n) % 3 == 0,
        "evidence": ratios[:, None],
    }
    return Decided("shop", "v1", 0, Decisions(**made_up | columns))


def written(record: Decided) -> list[dict[str, Any]]:
    return json.loads(DecisionWriter(record.decisions.classes.tolist()).json(record))["decisions"]


def test_writes_the_columns_of_the_decisions() -> None:
    record = decided(5, ["fine", "fraud"])
    columns = record.decisions

    response = json.loads(DecisionWriter(["fine", "fraud"]).json(record))

    assert (response["stream"], response["model"], response["repeated"]) == ("shop", "v1", False)
    for i, one in enumerate(response["decisions"]):
        assert one["id"] == columns.ids[i]
        assert one["label"] == columns.labels[i]
        assert one["probability"] == columns.posteriors[i, 1]
        assert one["posterior"] == {"fine": columns.posteriors[i, 0], "fraud": columns.posteriors[i, 1]}
        assert one["log_ratio"] == columns.log_ratios[i, 1]
        assert one["effective_prior"] == {
            "fine": columns.effective_priors[i, 0],
            "fraud": columns.effective_priors[i, 1],
        }
        assert one["threshold"] == columns.thresholds[i]
        assert (one["trusted"], one["reachable"]) == (bool(columns.trusted[i]), bool(columns.reachable[i]))


def test_gives_the_log_ratio_and_probability_of_the_positive_class() -> None:
    record = decided(3, ["fine", "fraud"], positive=0)

    for i, one in enumerate(written(record)):
        assert one["log_ratio"] == -record.decisions.log_ratios[i, 1]
        assert one["probability"] == one["posterior"]["fine"]


def test_gives_the_decided_class_s_probability_where_a_cost_matrix_decides() -> None:
    for one in written(decided(6, ["a", "b", "c"], thresholds=None)):
        assert one["probability"] == one["posterior"][one["label"]]
        assert one["threshold"] is None
        assert one["log_ratio"] is None


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_writes_null_for_a_threshold_that_json_does_not_have(value: float) -> None:
    found = [one["threshold"] for one in written(decided(2, [0, 1], thresholds=np.array([value, 1.0])))]

    assert found == [None, 1.0]


@given(st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_writes_classes_of_any_name(names: list[str]) -> None:
    decisions = written(decided(2, list(names)))

    assert [one["label"] for one in decisions] == names
    assert set(decisions[0]["posterior"]) == set(names)


def test_csv_holds_the_same_as_json() -> None:
    record = decided(4, ["fine", "fraud"])
    writer = DecisionWriter(["fine", "fraud"])

    table = list(csv.DictReader(io.StringIO(writer.csv(record).decode())))

    for row, one in zip(table, written(record), strict=True):
        assert row["id"] == str(one["id"])
        assert row["label"] == one["label"]
        assert float(row["posterior_fraud"]) == one["posterior"]["fraud"]
        assert float(row["threshold"]) == one["threshold"]
        assert row["trusted"] == str(one["trusted"]).lower()
