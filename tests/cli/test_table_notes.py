"""A risky training table is said to be one, in a line with its remedy; a plain one is not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from obil.cli.table_notes import note_if_balanced, notes_on_table
from tests.cli.cases import obil

Change = Callable[[pd.DataFrame], pd.DataFrame]


def plain_table(n: int = 800, prior: float = 0.1) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    label = rng.random(n) < prior
    return pd.DataFrame(
        {
            "size": rng.normal(label * 1.2).round(4),
            "age": rng.integers(18, 90, n),
            "hour": rng.integers(0, 24, n),
            "income": rng.integers(10_000, 90_000, n),
            "ward": rng.choice(["A", "B", "C"], n),
            "fraud": np.where(label, "fraud", "ok"),
        }
    )


def notes(table: pd.DataFrame, *, auc: float = 0.8) -> list[str]:
    return notes_on_table(table.drop(columns="fraud"), table["fraud"].to_numpy(), list(table.columns), auc=auc)


def test_nothing_is_said_of_a_plain_table() -> None:
    assert notes(plain_table()) == []
    assert note_if_balanced(np.array([0.9, 0.1]), "the table") is None
    assert note_if_balanced(np.array([0.6, 0.3, 0.1]), "the table") is None


def shuffled(n: int) -> np.ndarray:
    return np.random.default_rng(1).permutation(n)


RISKS: dict[str, tuple[Change, str]] = {
    "an id in shuffled rows": (lambda t: t.assign(order=1_000 + shuffled(len(t))), "'order' looks like an id"),
    "seconds since 1970": (
        lambda t: t.assign(at=1.7e9 + shuffled(len(t)) // 2 * 60),
        "'at' looks like an id or a time",
    ),
    "a number that tells the label": (
        lambda t: t.assign(loss=np.where(t["fraud"] == "fraud", 5.0, 0.0)),
        "'loss' alone separates the classes (AUC 1.000)",
    ),
    "a value that only one class has": (
        lambda t: t.assign(closed=np.where(t["fraud"] == "fraud", 3.0, np.nan)),
        "'closed' alone separates",
    ),
    "a category that tells the label": (
        lambda t: t.assign(status=np.where(t["fraud"] == "fraud", "claimed", "paid")),
        "'status' alone separates",
    ),
    "repeated rows": (lambda t: pd.concat([t, t[:40]]).sample(frac=1.0, random_state=0), "40 of 840 rows repeat"),
    "rows in order": (lambda t: t.assign(day=np.arange(len(t)) // 10), "'day' only rises or falls"),
}


@pytest.mark.parametrize("risk", RISKS)
def test_a_risk_is_named_with_its_remedy(risk: str) -> None:
    change, said = RISKS[risk]
    [note] = notes(change(plain_table()))
    assert said in note
    assert "--drop" in note or "--group" in note


def test_a_model_that_is_too_good_is_doubted_once() -> None:
    [note] = notes(plain_table(), auc=0.999)
    assert "an AUC of 0.999 is rarely real" in note


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.35, 0.65], [0.3, 0.33, 0.37]])
def test_balanced_classes_ask_for_the_prior(prior: list[float]) -> None:
    assert "--prior" in str(note_if_balanced(np.array(prior), "the table"))


def test_equally_common_classes_are_noted_by_fit_verify_predict_and_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = plain_table(400, prior=0.5)
    table["income"] = [f"{value:,}" for value in table["income"]]
    table.to_csv("train.csv", index=False)
    said = obil("fit", "train.csv", "--target", "fraud", "--model", "logistic", "--out", "model")
    assert "about equally common in the table" in said.stdout
    assert "'income': thousands marks and currency signs were read as parts of numbers" in said.stdout
    assert "income" in said.stdout
    for command in (
        ["verify", "model", "train.csv", "--target", "fraud"],
        ["predict", "model", "train.csv", "--out", "scored.csv"],
        ["stream", "model", "train.csv", "--out", "decided.csv"],
    ):
        assert "state the prior of the rows to be decided, such as --prior .02" in obil(*command).stderr
    for command in (["predict", "model", "train.csv"], ["stream", "model", "train.csv", "--overwrite"]):
        said = obil(*command, "--out", f"{command[0]}.csv", "--prior", ".02")
        assert "--prior" not in said.stderr


def test_of_two_texts_the_rarer_is_positive_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain_table().to_csv("train.csv", index=False)
    arguments = ["fit", "train.csv", "--target", "fraud", "--model", "logistic", "--out"]
    assert "class fraud (positive)" in obil(*arguments, "model").stdout
    assert "class ok (positive)" in obil(*arguments, "other", "--positive", "ok").stdout
