"""Labels are fed back from Python to a stream that `obil stream` keeps, as docs/guide.md shows."""

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd

from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import read_checkpoint, write_checkpoint
from obil.serving.files import load
from obil.trackers import SafeTracker
from tests.cli.cases import obil, ward_rows, write_csv


def test_labels_fed_back_between_two_runs_are_learned_from(here: Path) -> None:
    rows = ward_rows(900, 0.3, seed=5)
    command = ["stream", "model", "rows.csv", "--out", "decisions.csv", "--state", "state.json", "--horizon", "500"]
    write_csv(here / "rows.csv", rows[:600])
    assert obil(*command).exit_code == 0

    model, path = load(here / "model"), here / "state.json"
    saved = read_checkpoint(path)
    online = OnlineClassifier.from_state(model, saved.online)
    known = [online.feedback(row, rows[row][4]) for row in range(600)]
    assert known == [False] * 100 + [True] * 500  # what left the horizon
    write_checkpoint(path, replace(saved, online=online.state()))

    write_csv(here / "rows.csv", rows)
    ran = obil(*command)
    assert ran.exit_code == 0, ran.output
    online.decide_many(pd.read_csv(here / "rows.csv").iloc[600:])
    assert isinstance(online.tracker, SafeTracker)
    assert online.tracker.n_labels == 500
    after = OnlineClassifier.from_state(model, read_checkpoint(path).online)
    assert after.prior.tolist() == online.prior.tolist()
    with (here / "decisions.csv").open() as file:
        assert [int(line["row"]) for line in csv.DictReader(file)] == list(range(900))


def test_without_a_horizon_no_label_is_known_and_another_one_is_refused(here: Path) -> None:
    command = ["stream", "model", "new.csv", "--out", "decisions.csv", "--state", "state.json"]
    assert obil(*command).exit_code == 0
    online = OnlineClassifier.from_state(load(here / "model"), read_checkpoint(here / "state.json").online)
    assert not online.feedback(3, "yes")
    refused = obil(*command, "--horizon", "50")
    assert refused.exit_code == 2
    assert "other settings of its labels" in refused.output
