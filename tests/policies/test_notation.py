"""Policies from JSON and from text."""

import numpy as np
import pytest

from obil.bayes.costs import Costs
from obil.errors import InvalidInputError
from obil.policies import AlertBudget, CostPolicy, FBetaPolicy, GMeanPolicy, Policy, PrecisionFloor, RecallFloor
from obil.policies.notation import TEXT_CHOICES, policy_from_json, policy_from_text

DEAR_MISS = Costs(false_positive=1.0, false_negative=9.0)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("f1", FBetaPolicy()),
        (" F1 ", FBetaPolicy(1)),
        ("fbeta:2", FBetaPolicy(2.0)),
        ("gmean", GMeanPolicy()),
        ("recall:0.9", RecallFloor(0.9)),
        ("precision:.8", PrecisionFloor(0.8)),
        ("budget:1e-2", AlertBudget(0.01)),
        ("cost", CostPolicy(DEAR_MISS)),
    ],
)
def test_reads_each_name(text: str, policy: Policy) -> None:
    assert policy_from_text(text, costs=DEAR_MISS) == policy


def test_every_choice_it_lists_can_be_read() -> None:
    for text in TEXT_CHOICES.split(", "):
        policy_from_text(text)


@pytest.mark.parametrize(
    "text", ["", "f", "f1:2", "gmean:1", "cost:3", "recall", "recall:", "recall:much", "auc", ":", "fbeta:2:3"]
)
def test_refuses_other_text_and_lists_the_choices(text: str) -> None:
    with pytest.raises(InvalidInputError, match=TEXT_CHOICES) as caught:
        policy_from_text(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["recall:0", "recall:1", "precision:1.5", "budget:-1", "fbeta:0", "fbeta:inf", "recall:nan"]
)
def test_refuses_numbers_outside_their_range(text: str) -> None:
    with pytest.raises(InvalidInputError, match="must"):
        policy_from_text(text)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, np.nan, np.inf, "0.5", None, True, [0.5], 10**400])
@pytest.mark.parametrize("build", [RecallFloor, PrecisionFloor, AlertBudget])
def test_refuses_fractions_outside_their_range(build: type, bad: object) -> None:
    with pytest.raises(InvalidInputError, match="must"):
        build(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "2", None, True, 1e9])
def test_refuses_bad_betas(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="beta must"):
        FBetaPolicy(bad)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"name": "auc"},
        {"name": ["cost"]},
        {"name": "gmean", "beta": 1.0},
        {"name": "fbeta"},
        {"name": "fbeta", "beta": "2"},
        {"name": "fbeta", "beta": 0},
        {"name": "recall", "recall": 0.9, "more": 1},
        {"name": "budget", "rate": None},
        {"name": "cost"},
        {"name": "cost", "matrix": [[0, 1]], "classes": None},
        {"name": "cost", "matrix": [[0, 1], [1]], "classes": None},
        {"name": "cost", "matrix": "free", "classes": None},
        {"name": "cost", "matrix": [[0, 1], [1, 0]], "classes": "ab"},
        {"name": "cost", "matrix": [[0, 1], [1, 0]], "classes": ["a"]},
        None,
        "f1",
        [],
    ],
    ids=repr,
)
def test_refuses_damaged_records(record: object) -> None:
    with pytest.raises(InvalidInputError):
        policy_from_json(record)


def test_class_names_of_numpy_are_written_as_plain_ones_and_others_are_refused() -> None:
    matrix = [[0, 1], [1, 0]]
    assert CostPolicy(Costs.from_matrix(matrix, classes=list(np.array(["a", "b"])))).to_json()["classes"] == ["a", "b"]
    with pytest.raises(InvalidInputError, match="class names"):
        CostPolicy(Costs.from_matrix(matrix, classes=[(1,), (2,)])).to_json()
