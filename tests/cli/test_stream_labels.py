"""Labels are fed back from Python to a stream that `obil stream` keeps, as docs/guide.md shows."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import read_checkpoint, write_checkpoint
from obil.policies import AlertBudget
from obil.serving.files import load
from obil.trackers import SafeTracker
from tests.cli.cases import error_line, listing, obil, ward_rows, write_csv


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


@pytest.mark.parametrize("delay", [0, 35, 200])
def test_labels_in_a_column_are_learned_late_and_the_same_after_an_interruption(here: Path, delay: int) -> None:
    rows = ward_rows(400, 0.3, seed=5)
    rows[7][4] = ""  # its label never came
    write_csv(here / "rows.csv", rows)
    options = ["--label", "ill", "--label-delay", str(delay)]
    whole = obil("stream", "model", "rows.csv", "--out", "whole.csv", *options, "--json")
    assert whole.exit_code == 0
    block = max(delay // 10, 1)
    last = (400 // block) * block - delay  # labels of the rows before it are known
    assert json.loads(whole.stdout)["labels_this_run"] == last - 1
    assert json.loads(whole.stdout)["unknown_labels_this_run"] == 0

    model = load(here / "model")
    online = OnlineClassifier(model, horizon=10_000)
    table = pd.read_csv(here / "rows.csv")
    for start in range(0, 400, block):
        end = min(start + block, 400)
        online.decide_many(table.iloc[start:end])
        for row in range(max(start - delay, 0), max(end - delay, 0) if end % block == 0 else 0):
            if rows[row][4]:
                online.feedback(row, rows[row][4])
    found = OnlineClassifier.from_state(model, read_checkpoint(here / "whole.csv.state").online)
    assert found.prior.tolist() == pytest.approx(online.prior.tolist(), rel=1e-9)
    assert found.label_counts.labelled == online.label_counts.labelled == last - 1

    for end in (3, 180, 181, 399, 400):
        write_csv(here / "part.csv", rows[:end])
        ran = obil("stream", "model", "part.csv", "--out", "parts.csv", "--checkpoint-every", "30", *options)
        assert ran.exit_code == 0, ran.output
    assert (here / "parts.csv").read_bytes() == (here / "whole.csv").read_bytes()
    assert read_checkpoint(here / "parts.csv.state").online == read_checkpoint(here / "whole.csv.state").online


def test_a_label_that_is_no_class_is_a_bad_row_and_what_does_not_fit_is_refused(here: Path) -> None:
    rows = ward_rows(50, 0.3, seed=5)
    rows[20][4] = "perhaps"
    write_csv(here / "rows.csv", rows)
    command = ["stream", "model", "rows.csv", "--out", "out.csv", "--label", "ill"]
    assert "'perhaps'" in error_line(obil(*command))
    assert "row 20" in error_line(obil(*command))
    assert obil(*command, "--on-error", "skip").exit_code == 3
    assert "obil label" in error_line(obil(*command, "--by", "id"))
    assert "obil label" in error_line(obil(*command, "--id", "id"))
    assert "learned from" in error_line(obil(*command[:-1], "size"))
    assert "--label-delay" in error_line(obil(*command, "--label-delay", "9999999"))


def test_a_budget_is_alerts_per_rows(here: Path) -> None:
    command = ["stream", "model", "new.csv", "--out", "out.csv"]
    for wrong in ("100", "100/0", "a/b", "3/2", "-1/5", "0/5"):
        assert "--budget must be alerts per rows" in error_line(obil(*command, "--budget", wrong))
    assert "--policy f1" in error_line(obil(*command, "--budget", "1/10", "--policy", "f1"))
    assert "--cost-fn" in error_line(obil(*command, "--budget", "1/10", "--cost-fn", "2"))
    assert obil(*command, "--budget", "10/100").exit_code == 0
    online = OnlineClassifier.from_state(load(here / "model"), read_checkpoint(here / "out.csv.state").online)
    assert online.policy == AlertBudget(rate=0.1)


def test_the_summary_status_and_performance_say_where_a_stream_stands(here: Path) -> None:
    command = ["stream", "model", "new.csv", "--out", "out.csv", "--horizon", "1000", "--cost-fn", "5"]
    ran = obil(*command)
    online = OnlineClassifier.from_state(load(here / "model"), read_checkpoint(here / "out.csv.state").online)
    now = online.performance().now
    assert now.describe().replace("Now:", "Expected of the next rows:") in ran.stderr
    summary = json.loads(obil(*command, "--json").stdout)
    assert summary["expected"]["recall"]["value"] == pytest.approx(now.recall.value)
    assert summary["expected"]["cost per row"]["source"] == "expected"

    table = pd.read_csv(here / "new.csv")
    table["row"] = range(len(table))
    table.to_csv(here / "labels.csv", index=False)
    assert obil("label", "out.csv.state", "labels.csv", "--label", "ill").exit_code == 0
    status = json.loads(obil("status", "out.csv.state", "--json").stdout)
    assert (status["rows"], status["labels_waiting"], status["horizon"]) == (200, 200, 1000)
    assert status["decided"] == summary["decided"]
    assert "200 rows decided" in obil("status", "out.csv.state").stdout

    before = listing(here)
    found = json.loads(obil("performance", "out.csv.state", "--model", "model", "--json").stdout)
    for row, label in enumerate(table["ill"]):
        assert online.feedback(row, label)
    window = online.performance().window
    assert found["window"]["recall"]["value"] == pytest.approx(window.recall.value)
    assert found["window"]["labels"] == pytest.approx(window.n_labels)
    assert found["prior"]["yes"] == pytest.approx(online.prior[1])
    assert "precision" in obil("performance", "out.csv.state", "--model", "model").stdout
    assert listing(here) == before
    assert obil("stream", "model", "new.csv", "--out", "keyed.csv", "--by", "id").exit_code == 0
    assert "keyed streams, by 'id'" in error_line(obil("performance", "keyed.csv.state", "--model", "model"))
    assert json.loads(obil("status", "keyed.csv.state", "--json").stdout)["by"] == "id"
    assert "no.state" in error_line(obil("status", "no.state"))
