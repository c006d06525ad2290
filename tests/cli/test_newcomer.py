"""Twelve wrong or risky inputs, as a new user gives them on the command line, each with the line that it gets."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.cases import obil

FIT = "fit train.csv --target fraud --model logistic --out model"
STREAM = "stream model today.csv --out decided.csv"
REFUSED, LEFT_OUT = 2, 3  # exit codes


def sales(n: int, *, seed: int, prior: float = 0.1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < prior
    return pd.DataFrame(
        {
            "amount": rng.normal(40.0 + 12.0 * fraud, 10.0).round(2),
            "age": rng.integers(18, 90, n),
            "branch": rng.choice(["north", "south"], n),
            "fraud": np.where(fraud, "fraud", "ok"),
        }
    )


def today(n: int = 300) -> pd.DataFrame:
    return sales(n, seed=1).drop(columns="fraud")


def with_cell(table: pd.DataFrame, row: int, column: str, cell: object) -> pd.DataFrame:
    changed = table.astype({column: object})
    changed.loc[row, column] = cell
    return changed


@dataclass(frozen=True)
class Risk:
    """A table that is changed, the command that meets it, and what has to be said and done."""

    command: str
    says: str
    train: Callable[[pd.DataFrame], pd.DataFrame] | None = None  # what the model is fitted on
    rows: Callable[[pd.DataFrame], pd.DataFrame] | None = None  # what is streamed
    exit_code: int = 0


RISKS = {
    "the table was undersampled": Risk(
        FIT,
        "if it was balanced or undersampled, state the prior of the rows to be decided, such as --prior .02",
        train=lambda _: sales(800, seed=0, prior=0.5),
    ),
    "a stream without its prior, of a model fitted on such a table": Risk(
        STREAM,
        "about equally common in the rows that the model was fitted on",
        train=lambda _: sales(800, seed=0, prior=0.5),
    ),
    "of two texts, the alphabet would have chosen the common class": Risk(FIT, "class fraud (positive)"),
    "a column that is filled in after the label is known": Risk(
        FIT,
        "'refund' alone separates the classes (AUC 1.000): leave it out if it is not known before the label (--drop",
        train=lambda table: table.assign(refund=np.where(table["fraud"] == "fraud", 5.0, 0.0)),
    ),
    "a column that counts the days": Risk(
        FIT,
        "'day' only rises or falls along the table",
        train=lambda table: table.assign(day=np.arange(len(table)) // 8),
    ),
    "an order number, in a table that was shuffled": Risk(
        FIT,
        "'order' looks like an id or a time",
        train=lambda table: table.assign(order=5_000 + np.random.default_rng(2).permutation(len(table))),
    ),
    "numbers with thousands marks": Risk(
        FIT,
        "'income': thousands marks and currency signs were read as parts of numbers",
        train=lambda table: table.assign(income=[f"${value:,}" for value in 1_000 + 97 * table["age"] ** 2]),
    ),
    "rows that the model was fitted on, as a hold-out": Risk(
        "verify model train.csv --target fraud",
        "800 of the 800 rows of train.csv are rows of the training table too",
    ),
    "rows without anything, from a feed that broke": Risk(
        STREAM,
        "20 of the 300 rows of this run have no feature at all",
        rows=lambda rows: rows.assign(**{name: rows[name].where(rows.index % 15 > 0) for name in rows}),
    ),
    "a category that is new, and a unit that changed": Risk(
        STREAM,
        "column 'amount' is far outside the training table",
        rows=lambda rows: rows.assign(amount=100.0 * rows["amount"], branch="west"),
    ),
    "a cell that is no number": Risk(
        STREAM, "'amount'", rows=lambda rows: with_cell(rows, 250, "amount", "n/k"), exit_code=REFUSED
    ),
    "the same, where bad rows are put aside": Risk(
        f"{STREAM} --on-error quarantine=bad.csv",
        "1 bad rows were left out (0.33 %), the first of this run because",
        rows=lambda rows: with_cell(rows, 250, "amount", "n/k"),
        exit_code=LEFT_OUT,
    ),
    "a column that is wrong as a whole, where bad rows are put aside": Risk(
        f"{STREAM} --on-error quarantine=bad.csv",
        "'amount'",
        rows=lambda rows: rows.assign(amount="forty"),
        exit_code=REFUSED,
    ),
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plain train.csv, and the model fitted on it."""
    folder = tmp_path_factory.mktemp("plain")
    sales(800, seed=0).to_csv(folder / "train.csv", index=False)
    ran = obil(*FIT.replace("train.csv", f"{folder}/train.csv").replace("--out model", f"--out {folder}/model").split())
    assert ran.exit_code == 0, ran.output
    return folder


@pytest.mark.parametrize("name", RISKS)
def test_a_newcomer_is_told(name: str, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    risk = RISKS[name]
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    if risk.train is not None:
        risk.train(sales(800, seed=0)).to_csv("train.csv", index=False)
        if risk.command != FIT:
            assert obil(*FIT.split()).exit_code == 0
    (today() if risk.rows is None else risk.rows(today())).to_csv("today.csv", index=False)
    ran = obil(*risk.command.split())
    assert risk.says in ran.output
    assert ran.exit_code == risk.exit_code


def test_of_plain_tables_nothing_is_said(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    today().to_csv("today.csv", index=False)
    sales(800, seed=3).to_csv("holdout.csv", index=False)
    shutil.rmtree("model")
    for command in (FIT, "verify model holdout.csv --target fraud", STREAM):
        ran = obil(*command.split())
        assert ran.exit_code == 0, ran.output
        assert "Note:" not in ran.output
