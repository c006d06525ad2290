"""`obil label` hands labels to a stream through a journal, from which each is learned exactly once."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import obil
from obil.cli.label_journal import Label, LabelJournal, append_labels
from obil.cli.main import app
from obil.online.keyed_checkpoint import KeyedCheckpoint
from obil.online.state.checkpoint import read_checkpoint
from tests.cli.test_stream import Launcher, draw_table, fifo, refused, save_model, until
from tests.thorough import repeats

N_ROWS = 600
HORIZON = ["--horizon", "10000"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("label") / "model")


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, Any]:
    return draw_table(N_ROWS, 0.3, seed=3)


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        given = [str(argument) for argument in arguments]
        if given[0] == "stream":
            given = ["stream", str(model), given[1], "--out", str(tmp_path / "out.csv"), *given[2:]]
        result = CliRunner().invoke(app, given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def online_of(model: Path, state: Path) -> obil.OnlineClassifier:
    return obil.OnlineClassifier.from_state(obil.load(model), read_checkpoint(state).online)


@pytest.mark.parametrize("by_id", [False, True])
def test_labels_are_learned_as_feedback_teaches_them(
    run: Callable[..., Result], rows: tuple[pd.DataFrame, Any], model: Path, tmp_path: Path, by_id: bool
) -> None:
    table, labels = rows
    state, data = tmp_path / "out.csv.state", tmp_path / "in.csv"
    options = [*HORIZON, *(["--id", "id"] if by_id else [])]
    table[:400].to_csv(data, index=False)
    assert run("stream", data, *options).exit_code == 0
    expected = online_of(model, state)
    names = table["id"] if by_id else pd.Series(range(N_ROWS))
    told = pd.DataFrame({"order": [*names[:50], "9999"], "outcome": [*labels[:40], *[""] * 10, "no"]})
    told.to_csv(tmp_path / "labels.csv", index=False)
    ran = run("label", state, tmp_path / "labels.csv", "--id", "order", "--label", "outcome", "--json")
    assert json.loads(ran.stdout) == {"labels": 41, "journal": f"{state}.labels"}
    assert (tmp_path / "out.csv.state.labels").stat().st_mode & 0o777 == 0o600
    assert online_of(model, state).label_counts.labelled == 0  # the state is the stream's to write

    summary = json.loads(run("stream", data, *options, "--json").stdout)
    assert (summary["labels_this_run"], summary["unknown_labels_this_run"]) == (41, 1)
    for name, label in zip(names[:40], labels[:40], strict=True):
        assert expected.feedback(str(name) if by_id else int(name), label)
    assert not expected.feedback("9999" if by_id else 9999, "no")
    assert online_of(model, state).state() == expected.state()

    table.to_csv(data, index=False)
    summary = json.loads(run("stream", data, *options, "--json").stdout)
    assert (summary["labels_this_run"], summary["rows_this_run"]) == (0, N_ROWS - 400)
    assert online_of(model, state).label_counts.labelled == 40
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["row"].tolist() == list(range(N_ROWS))
    assert not by_id or found["id"].tolist() == table["id"].tolist()


def test_labels_of_keyed_streams_name_their_key(
    run: Callable[..., Result], rows: tuple[pd.DataFrame, Any], model: Path, tmp_path: Path
) -> None:
    table, labels = rows
    table = table.assign(branch=[f"b{row % 7}" for row in range(N_ROWS)], outcome=labels, row=range(N_ROWS))
    table.to_csv(tmp_path / "in.csv", index=False)
    state = tmp_path / "out.csv.state"
    assert run("stream", tmp_path / "in.csv", "--by", "branch", *HORIZON).exit_code == 0
    told = table[100:200]
    told.to_csv(tmp_path / "labels.csv", index=False)
    assert run("label", state, tmp_path / "labels.csv", "--label", "outcome").exit_code == 0
    told.drop(columns="branch").to_csv(tmp_path / "labels.csv", index=False)
    refused(run("label", state, tmp_path / "labels.csv", "--label", "outcome"), "'branch'")
    assert "100 labels came, 100 of them" in run("stream", tmp_path / "in.csv", "--by", "branch", *HORIZON).stderr
    with KeyedCheckpoint(state) as states:
        states.open()
        fleet = obil.OnlineFleet(obil.load(model), store=states, most_in_memory=10, horizon=10_000)
        counts = {f"b{key}": fleet[f"b{key}"].label_counts.labelled for key in range(7)}
    assert counts == told["branch"].value_counts().to_dict()


def test_a_running_stream_takes_labels_in(
    run: Callable[..., Result], rows: tuple[pd.DataFrame, Any], model: Path, tmp_path: Path
) -> None:
    table, labels = rows
    stdin, state = fifo(tmp_path / "stdin"), tmp_path / "out.csv.state"
    launcher = Launcher(model)
    args = ["stream", str(model), "-", "--out", str(tmp_path / "out.csv"), *HORIZON]
    pid = launcher.start(args, stdin=stdin)
    with open(stdin, "wb", buffering=0) as writer:
        lines = table.to_csv(index=False).encode().splitlines(keepends=True)
        writer.write(b"".join(lines[:301]))
        until(lambda: state.exists() and read_checkpoint(state).n_rows == 300)
        pd.DataFrame({"row": range(200), "y": labels[:200]}).to_csv(tmp_path / "labels.csv", index=False)
        assert run("label", state, tmp_path / "labels.csv", "--label", "y").exit_code == 0
        writer.write(b"".join(lines[301:]))
        until(lambda: read_checkpoint(state).labels_bytes > 0)
        os.kill(pid, signal.SIGTERM)
        assert launcher.wait() == 128 + signal.SIGTERM
    launcher.close()
    assert online_of(model, state).label_counts.labelled == 200


def test_labels_of_rows_that_a_killed_run_decided_wait_until_they_are_decided_again(
    run: Callable[..., Result], rows: tuple[pd.DataFrame, Any], model: Path, tmp_path: Path
) -> None:
    table, labels = rows
    data, out, state = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "out.csv.state"
    table.to_csv(data, index=False)
    assert run("stream", data, *HORIZON).exit_code == 0
    whole = out.read_bytes()
    for path in (out, state):
        path.unlink()
    table[:100].to_csv(tmp_path / "part.csv", index=False)
    assert run("stream", tmp_path / "part.csv", *HORIZON).exit_code == 0
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:201]))  # as a run that was killed left it
    pd.DataFrame({"row": range(200), "y": labels[:200]}).to_csv(tmp_path / "labels.csv", index=False)
    assert run("label", state, tmp_path / "labels.csv", "--label", "y").exit_code == 0
    assert run("stream", data, *HORIZON, "--checkpoint-every", "10").exit_code == 0
    counts = online_of(model, state).label_counts
    assert (counts.labelled, counts.unknown) == (200, 0)


def test_what_is_wrong_is_named_and_nothing_is_appended(
    run: Callable[..., Result], rows: tuple[pd.DataFrame, Any], tmp_path: Path
) -> None:
    table, _ = rows
    data, state, told = tmp_path / "in.csv", tmp_path / "out.csv.state", tmp_path / "labels.csv"
    table[:50].to_csv(data, index=False)
    assert run("stream", data).exit_code == 0
    told.write_text("row,y\n1,yes\n2,maybe\n")
    refused(run("label", state, told, "--label", "y"), "--horizon")
    assert run("stream", data, *HORIZON).exit_code == 0
    table[:51].to_csv(data, index=False)
    assert run("stream", data, *HORIZON).exit_code == 0
    refused(run("label", state, told, "--label", "y"), "row 2", "'maybe' is not one of the classes")
    told.write_text("row,y\n1,yes\np7,no\n")
    refused(run("label", state, told, "--label", "y"), "row 2", "'p7'", "--id")
    told.write_text("row,y\n1,yes\n,no\n")
    refused(run("label", state, told, "--label", "y"), "row 2", "needs 'row'")
    told.write_text("row,y\n1,yes\n")
    refused(run("label", state, told, "--label", "y", "--propensity", "2"), "--propensity")
    refused(run("label", state, told, "--label", "z"), "'z'")
    refused(run("label", tmp_path / "no.state", told, "--label", "y"), "no.state")
    refused(run("stream", data, "--id", "id", *HORIZON), "columns")
    assert not Path(f"{state}.labels").exists()
    state.unlink()
    append_labels(Path(f"{state}.labels"), [Label("3", "yes")])
    (tmp_path / "out.csv").unlink()
    refused(run("stream", data, *HORIZON), "labels exists and no state belongs to it")
    assert run("stream", data, *HORIZON, "--overwrite").exit_code == 0
    assert not Path(f"{state}.labels").exists()  # they were another stream's
    Path(f"{state}.labels").write_text("nonsense\n")
    refused(run("stream", data, *HORIZON), "is damaged at byte 0")


def test_part_of_a_line_is_never_taken_and_makes_room(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    append_labels(path, [Label("1", "yes"), Label("2", "no", 0.5, "north")])
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        journal = LabelJournal(path)
        assert len(journal.take()) == whole[:end].count(b"\n")
        append_labels(path, [Label("3", "no")])
        assert journal.take() == [Label("3", "no")]


@pytest.mark.slow
def test_no_label_is_lost_or_learned_twice_when_streams_and_labels_are_killed(model: Path, tmp_path: Path) -> None:
    n_rows, n_kills = 12_000, repeats(8, 60)
    table, labels = draw_table(n_rows, 0.2, seed=4)
    data, out, state, told = (tmp_path / name for name in ("in.csv", "out.csv", "out.csv.state", "labels.csv"))
    table.to_csv(data, index=False)
    streaming, labelling = Launcher(model), Launcher(model)
    args = ["stream", str(model), str(data), "--out", str(out), "--checkpoint-every", "40", "--horizon", str(n_rows)]
    label = ["label", str(state), str(told), "--label", "y"]
    rng = np.random.default_rng(0)
    taken = [0]
    for turn in range(n_kills):
        stream_pid = streaming.start(args)
        until(state.exists)
        time.sleep(rng.uniform(0.0, 0.4))
        n_decided = max(out.read_bytes().count(b"\n") - 1, 0)  # more than the state knows
        pd.DataFrame({"row": range(n_decided), "y": labels[:n_decided]}).to_csv(told, index=False)
        label_pid = labelling.start(label)
        if turn % 2:  # the labels are handed over, and the stream is killed
            labelling.wait()
            time.sleep(rng.uniform(0.0, 0.3))
        else:  # both are killed
            time.sleep(rng.uniform(0.0, 1.5))
            os.kill(label_pid, signal.SIGKILL)
            labelling.wait()
        os.kill(stream_pid, signal.SIGKILL)
        streaming.wait()
        taken.append(read_checkpoint(state).labels_bytes)
    assert len(set(taken)) > 2  # or the kills would have tested nothing
    streaming.start(args)
    assert streaming.wait() == 0
    pd.DataFrame({"row": range(n_rows), "y": labels}).to_csv(told, index=False)
    labelling.start(label)
    assert labelling.wait() == 0
    streaming.start(args)
    assert streaming.wait() == 0
    streaming.close()
    labelling.close()
    counts = online_of(model, state).label_counts
    assert (counts.labelled, counts.unknown, counts.replaced) == (n_rows, 0, 0)
    assert [int(line.split(",")[0]) for line in out.read_text().splitlines()[1:]] == list(range(n_rows))
