"""Labels are fed back from Python to a stream that `obil stream` keeps, as docs/guide.md shows."""

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import read_checkpoint, write_checkpoint
from obil.serving.files import load
from obil.trackers import SafeTracker
from tests.cli.cases import obil, ward_rows, write_csv


def test_labels_fed_back_between_two_runs_are_learned_from(here: Path) -> None:
    rows = ward_rows(900, 0.3, seed=5)
    command = ["stream", "model", "rows.csv", "--out", "decisions.csv", "--state", "today.state", "--horizon", "500"]
    write_csv(here / "rows.csv", rows[:600])
    assert obil(*command).exit_code == 0

    model, path = load(here / "model"), here / "today.state"
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


def test_without_a_horizon_no_label_is_known_and_from_a_resumed_one_on_those_of_new_rows_are(here: Path) -> None:
    write_csv(here / "rows.csv", ward_rows(300, 0.3, seed=5))
    command = ["stream", "model", "rows.csv", "--out", "decisions.csv", "--state", "today.state"]
    assert obil(*command).exit_code == 0
    model, path = load(here / "model"), here / "today.state"
    online = OnlineClassifier.from_state(model, read_checkpoint(path).online)
    assert not online.feedback(3, "yes")
    write_csv(here / "rows.csv", ward_rows(300, 0.3, seed=5) + ward_rows(70, 0.3, seed=6))
    resumed = obil(*command, "--horizon", "50")
    assert resumed.exit_code == 0, resumed.output
    online = OnlineClassifier.from_state(model, read_checkpoint(path).online)
    assert online.horizon == 50
    assert [online.feedback(row, "yes") for row in (299, 319, 320, 369)] == [False, False, True, True]


@pytest.mark.parametrize("horizon", [0, 40, 100, 5_000])
def test_a_horizon_that_changes_forgets_the_oldest_rows_and_changes_no_decision(here: Path, horizon: int) -> None:
    rows = ward_rows(400, 0.3, seed=5)
    write_csv(here / "rows.csv", rows)
    plain = ["stream", "model", "rows.csv", "--out", "plain.csv", "--state", "plain.state", "--horizon", "100"]
    assert obil(*plain).exit_code == 0
    command = ["stream", "model", "rows.csv", "--out", "decisions.csv", "--state", "today.state"]
    write_csv(here / "rows.csv", rows[:300])
    assert obil(*command, "--horizon", "100").exit_code == 0
    write_csv(here / "rows.csv", rows)
    ran = obil(*command, "--horizon", str(horizon))
    assert ran.exit_code == 0, ran.output
    assert (here / "decisions.csv").read_bytes() == (here / "plain.csv").read_bytes()
    online = OnlineClassifier.from_state(load(here / "model"), read_checkpoint(here / "today.state").online)
    assert online.horizon == horizon
    oldest = max(200, 400 - horizon)  # 100 rows were known when the horizon changed
    assert online.label_counts.pending == 400 - oldest
    assert not online.feedback(oldest - 1, "yes")
    assert horizon == 0 or online.feedback(oldest, "yes")
