"""`obil explain` reads a state and says what to do, or one line and exit code 2."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.online.online_classifier import OnlineClassifier
from obil.online.reports.explain import explain
from obil.online.reports.stream_facts import facts_of
from obil.online.state.history import StreamHistory
from obil.serving.files import load
from tests.cli.cases import obil, ward_rows, write_csv
from tests.online.cases import triangle_model
from tests.online.state.damaged import with_field, with_pending, with_settings_text

SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def composed(folder: Path, *, later: float = 0.6) -> tuple[OnlineClassifier, StreamHistory]:
    """Return a stream whose prior moves from .3 halfway, and its history."""
    import pandas as pd

    write_csv(folder / "stream.csv", ward_rows(3_000, 0.3, seed=5) + ward_rows(4_000, later, seed=6))
    model = load(folder / "model")
    online, history = OnlineClassifier(model), StreamHistory(2)
    ratios, first = model.log_ratios(pd.read_csv(folder / "stream.csv")), 0
    for end in history.ends(len(ratios)):
        decided = online.decide_log_ratios(ratios[first:end])
        evidence = [online.monitor.log_evidence] if online.monitor is not None else None
        history.add(decided.posteriors, decided.thresholds, decided.labels == online.positive, log_evidence=evidence)
        first = end
    return online, history


@pytest.fixture
def state(here: Path) -> Path:
    path = here / "today.state"
    path.write_bytes(composed(here)[0].state())
    return path


def test_the_paragraph_is_that_of_the_stream(here: Path) -> None:
    online, history = composed(here)
    (here / "today.state").write_bytes(online.state())
    said = obil("explain", "today.state", "--model", "model")
    assert said.exit_code == 0, said.output
    assert said.stdout == explain(facts_of(online), history).paragraph + "\n"
    assert "The prevalence of 'yes' rose from" in said.stdout
    assert "since about row" in said.stdout


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_a_plot_is_written_the_same_each_time(here: Path, state: Path, suffix: str) -> None:
    for name in ("one", "two"):
        said = obil("explain", state, "--model", "model", "--out", f"{name}{suffix}")
        assert said.exit_code == 0, said.output
        assert f"Plot: {name}{suffix}" in said.stdout
    drawn = (here / f"one{suffix}").read_bytes()
    assert drawn.startswith(SIGNATURES[suffix])
    assert len(drawn) > 5_000
    if suffix != ".pdf":  # which holds the time it was made at
        assert drawn == (here / f"two{suffix}").read_bytes()


def test_json_holds_the_report(here: Path, state: Path) -> None:
    said = obil("explain", state, "--model", "model", "--json", "--level", "0.5")
    record = json.loads(said.stdout)
    assert record["action"] in ("nothing", "get labels")
    assert record["level"] == 0.5
    assert record["class_name"] == "yes"
    assert abs(record["changed_since"] - 3_000) < 1_000


def test_the_state_of_obil_stream_is_read_too(here: Path) -> None:
    ran = obil("stream", "model", "new.csv", "--out", "decisions.csv")
    assert ran.exit_code == 0, ran.output
    said = obil("explain", "decisions.csv.state", "--model", "model")
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("Nothing has changed in 200 rows: the prevalence of 'yes' is")


def test_a_stream_without_rows_is_explained_but_not_drawn(here: Path) -> None:
    (here / "new.state").write_bytes(OnlineClassifier(load(here / "model")).state())
    said = obil("explain", "new.state", "--model", "model")
    assert said.exit_code == 0, said.output
    assert said.stdout == "No rows have come yet.\n"
    drawn = obil("explain", "new.state", "--model", "model", "--out", "change.png")
    assert drawn.exit_code == 2
    assert not (here / "change.png").exists()


def _errors(here: Path) -> dict[str, tuple[bytes, list[str], str]]:
    """Return a state, more options, and what is said."""
    online = composed(here)[0]
    model, good = online.model, online.state()
    assert obil("stream", "model", "new.csv", "--out", "decisions.csv").exit_code == 0
    checkpoint = (here / "decisions.csv.state").read_bytes()
    three = OnlineClassifier(triangle_model()).state()

    def changed(name: str, place: Any, value: Any) -> bytes:
        return with_field(model, good, name, place, value)

    return {
        "nothing": (b"", [], "not the state of an obil stream"),
        "a table": (b"row,label\n", [], "not the state of an obil stream"),
        "a state as it was": (b'{"kind": "obil_stream", "format": 2}', [], "not the state of an obil stream"),
        "an older checkpoint": (b"obil stream 2\n" + checkpoint[14:], [], "or of another version"),
        "a damaged checkpoint": (checkpoint[:-1], [], "is damaged: its checksum is wrong"),
        "a damaged state": (good[:-1], [], "is damaged: its checksum is wrong"),
        "an older state": (good[:8] + b"\2" + good[9:], [], "reads state format 3, got 2"),
        "other classes": (three, [], "belongs to another model"),
        "a broken tracker": (changed("tracker.fast.seen", 1, 10**6), [], "a bank cannot have seen"),
        "a broken tally": (changed("tally.sums", (0, 0), -1.0), [], "tally"),
        "a broken history": (changed("history.counts", 0, 12), [], "history"),
        "a history of other rows": (changed("history.counts", 1, 70), [], "its history saw"),
        "settings that are none": (with_settings_text(model, good, b"[]"), [], "its settings are"),
        "no pending block": (with_pending(model, good, lambda _: b""), [], "that wait for labels are damaged"),
        "a level of 2": (good, ["--level", "2"], "level must lie in"),
        "a plot of no kind": (good, ["--out", "change.txt"], "ends in .png, .svg, .pdf"),
        "a plot nowhere": (good, ["--out", "nowhere/change.png"], "folder that exists"),
        "a plot over the state": (good, ["--out", "today.state"], "another file"),
        "no model": (good, ["--model", "nothing"], "nothing"),
    }


def test_whatever_is_wrong_is_one_line_and_exit_code_2(here: Path) -> None:
    for name, (state, options, said) in _errors(here).items():
        (here / "today.state").write_bytes(state)
        ran = obil("explain", "today.state", "--model", "model", *options)
        assert ran.exit_code == 2, name
        assert said in ran.output, (name, ran.output)
        assert len(ran.output.strip().splitlines()) == 1, (name, ran.output)
        assert (here / "today.state").read_bytes() == state, name
    missing = obil("explain", "missing.state", "--model", "model")
    assert missing.exit_code == 2
    assert missing.output.startswith("Error: missing.state")


def test_a_checkpoint_of_another_model_is_refused(here: Path) -> None:
    assert obil("stream", "model", "new.csv", "--out", "decisions.csv").exit_code == 0
    options = ["--target", "ill", "--positive", "yes", "--model", "logistic", "--drop", "score,id,ward"]
    assert obil("fit", "train.csv", *options, "--out", "other").exit_code == 0
    ran = obil("explain", "decisions.csv.state", "--model", "other")
    assert ran.exit_code == 2
    assert "belongs to another model" in ran.output


def test_numbers_stay_in_range_for_a_falling_prior(here: Path) -> None:
    online, history = composed(here, later=0.05)
    report = explain(facts_of(online), history)
    assert report.changed
    assert report.prior_now < report.prior_then
    assert np.isfinite(report.prior_now)
