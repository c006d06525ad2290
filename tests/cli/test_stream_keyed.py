"""`obil stream --by` decides each key as a stream of its own, and resumes all of them exactly."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import obil
from obil.cli import stream_keyed
from obil.cli.main import app
from obil.online.keyed_checkpoint import KeyedCheckpoint
from tests.cli.test_stream import draw_table, refused, save_model, snapshot

N_ROWS, N_KEYS = 900, 40  # so many that they are decided together


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("keyed") / "model")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    table = draw_table(N_ROWS, 0.2, seed=1)[0]
    return table.assign(branch=[f"b{key}" for key in np.random.default_rng(0).integers(0, N_KEYS, N_ROWS)])


@pytest.fixture
def data(table: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    table.to_csv(path, index=False)
    return path


def stream(model: Path, data: Path, out: Path, *options: str) -> Result:
    result = CliRunner().invoke(app, ["stream", str(model), str(data), "--out", str(out), *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def decided(out: Path) -> list[dict[str, Any]]:
    with out.open() as file:
        return list(csv.DictReader(file))


def without(lines: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: cell for name, cell in line.items() if name not in names} for line in lines]


def test_each_key_is_decided_as_a_stream_of_its_own_rows(
    model: Path, table: pd.DataFrame, data: Path, tmp_path: Path
) -> None:
    ran = stream(model, data, tmp_path / "out.csv", "--by", "branch", "--keep", "id", "--json")
    lines = decided(tmp_path / "out.csv")
    assert [int(line["row"]) for line in lines] == list(range(N_ROWS))
    assert [(line["id"], line["branch"]) for line in lines] == list(zip(table["id"], table["branch"], strict=True))
    for key in ("b3", "b17"):
        table[table["branch"] == key].to_csv(tmp_path / "own.csv", index=False)
        stream(model, tmp_path / "own.csv", tmp_path / f"{key}.csv", "--keep", "id")
        own = [line for line in lines if line["branch"] == key]
        assert without(own, "row", "branch") == without(decided(tmp_path / f"{key}.csv"), "row")
    summary = json.loads(ran.stdout)
    assert (summary["by"], summary["keys"], summary["rows"]) == ("branch", N_KEYS, N_ROWS)
    assert summary["alerts"] == sum(line["label"] == "yes" for line in lines)


@pytest.mark.parametrize(("every", "most"), [(7, 3), (100, 35), (100, 10_000)])
def test_output_depends_neither_on_checkpoints_nor_on_what_is_in_memory(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, most: int
) -> None:
    stream(model, data, tmp_path / "expected.csv", "--by", "branch")
    monkeypatch.setattr(stream_keyed, "MOST_IN_MEMORY", most)
    lines = data.read_text().splitlines(keepends=True)
    for end in (1, 2, 300, 301, N_ROWS + 1):  # the input grows: each run resumes
        (tmp_path / "part.csv").write_text("".join(lines[:end]))
        options = ["--by", "branch", "--checkpoint-every", str(every)]
        assert stream(model, tmp_path / "part.csv", tmp_path / "out.csv", *options).exit_code == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_without_a_state_streams_live_in_memory(model: Path, data: Path, tmp_path: Path) -> None:
    stream(model, data, tmp_path / "out.csv", "--by", "branch")
    before = snapshot(tmp_path)
    shown = CliRunner().invoke(app, ["stream", str(model), str(data), "--out", "-", "--by", "branch"])
    assert shown.stdout.encode() == (tmp_path / "out.csv").read_bytes()
    assert snapshot(tmp_path) == before


def test_a_key_may_be_a_number_that_the_model_reads(model: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    years = table.assign(age=table["age"].round())
    years.to_csv(tmp_path / "in.csv", index=False)
    stream(model, tmp_path / "in.csv", tmp_path / "out.csv", "--by", "age")
    assert [line["age"] for line in decided(tmp_path / "out.csv")] == [f"{age:.0f}" for age in years["age"]]
    with KeyedCheckpoint(tmp_path / "out.csv.state") as states:
        states.open()
        assert sorted(states) == sorted({f"{age:.0f}" for age in years["age"]})


def test_a_row_without_a_key_is_named_and_those_before_it_are_decided(
    model: Path, table: pd.DataFrame, data: Path, tmp_path: Path
) -> None:
    keys = table["branch"].tolist()
    keys[40] = ""
    table.assign(branch=keys).to_csv(data, index=False)
    refused(stream(model, data, tmp_path / "out.csv", "--by", "branch"), "row 40 (from 0)", "'branch'", "got none")
    assert len(decided(tmp_path / "out.csv")) == 40
    table.to_csv(data, index=False)  # mended
    assert stream(model, data, tmp_path / "out.csv", "--by", "branch").exit_code == 0
    stream(model, data, tmp_path / "expected.csv", "--by", "branch")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_what_does_not_belong_to_the_state_is_refused_and_changes_nothing(
    model: Path, data: Path, tmp_path: Path
) -> None:
    out, single = tmp_path / "out.csv", tmp_path / "single.csv"
    refused(stream(model, data, out, "--by", "nowhere"), "column 'nowhere'")
    stream(model, data, out, "--by", "branch")
    stream(model, data, single)
    other = save_model(tmp_path / "other", seed=5)
    before = snapshot(tmp_path)
    refused(stream(model, data, out, "--by", "ward"), "by the column 'branch', not 'ward'")
    refused(stream(model, data, out), "belongs to keyed streams: give --by")
    refused(stream(model, data, single, "--by", "branch"), "is not the state of keyed streams")
    refused(stream(other, data, out, "--by", "branch"), "another model")
    refused(stream(model, data, out, "--by", "branch", "--prior", ".4"), "start prior")
    refused(stream(model, data, out, "--by", "branch", "--cost-fn", "9"), "--change-policy")
    refused(stream(model, data, out, "--by", "branch", "--keep", "id"), "--keep the same")
    assert snapshot(tmp_path) == before


def test_a_changed_policy_holds_for_every_key_from_the_next_row_on(
    model: Path, table: pd.DataFrame, data: Path, tmp_path: Path
) -> None:
    half = N_ROWS // 2
    table[:half].to_csv(tmp_path / "part.csv", index=False)
    stream(model, tmp_path / "part.csv", tmp_path / "out.csv", "--by", "branch")
    options = ["--by", "branch", "--cost-fn", "20", "--change-policy"]
    assert stream(model, data, tmp_path / "out.csv", *options).exit_code == 0
    stream(model, data, tmp_path / "expected.csv", "--by", "branch", "--cost-fn", "20")
    assert decided(tmp_path / "out.csv")[half:] == decided(tmp_path / "expected.csv")[half:]
    assert stream(model, data, tmp_path / "out.csv", "--by", "branch", "--cost-fn", "20").exit_code == 0


def test_a_damaged_stream_of_one_key_is_named(model: Path, table: pd.DataFrame, data: Path, tmp_path: Path) -> None:
    table[:600].to_csv(tmp_path / "part.csv", index=False)
    stream(model, tmp_path / "part.csv", tmp_path / "out.csv", "--by", "branch")
    path = tmp_path / "out.csv.state"
    with KeyedCheckpoint(path) as states:
        saved = states.read()
        assert saved is not None
        states.open()
        states["b7"] = states["b7"][:-1] + b"?"
        states.commit(*saved)
    refused(stream(model, data, tmp_path / "out.csv", "--by", "branch"), "the state of 'b7' is damaged")


def test_labels_are_fed_back_to_a_key_between_two_runs(
    model: Path, table: pd.DataFrame, data: Path, tmp_path: Path
) -> None:
    table[:600].to_csv(tmp_path / "part.csv", index=False)
    options = ["--by", "branch", "--horizon", "100"]
    stream(model, tmp_path / "part.csv", tmp_path / "out.csv", *options)
    lines = [line for line in decided(tmp_path / "out.csv") if line["branch"] == "b7"]
    with KeyedCheckpoint(tmp_path / "out.csv.state") as states:
        saved = states.read()
        assert saved is not None
        states.open()
        fleet = obil.OnlineFleet(obil.load(model), store=states, most_in_memory=10, horizon=100)
        assert all(fleet.feedback("b7", int(line["row"]), "yes") for line in lines)
        assert not fleet.feedback("b8", int(lines[0]["row"]), "yes")
        fleet.flush()
        states.commit(*saved)
    assert stream(model, data, tmp_path / "out.csv", *options).exit_code == 0
    with KeyedCheckpoint(tmp_path / "out.csv.state") as states:
        states.open()
        fleet = obil.OnlineFleet(obil.load(model), store=states, most_in_memory=10, horizon=100)
        assert fleet["b7"].label_counts.labelled == len(lines)
        assert fleet["b8"].label_counts.labelled == 0
