"""`obil backtest` answers in a table, a verdict and a plot, or in one line and exit code 2 and nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import obil as package
from obil.cli.main import app
from obil.datasets import prior_paths
from obil.estimators.named_models import MODELS
from obil.trackers import SafeTracker
from tests.cli.cases import HEADER, error_line, listing, obil, ward_rows, write_csv

HEAVY = ("numba", "sklearn", "torch", "pandas", "matplotlib", "scipy", "numpy", "skops")
OPTIONS = ("--target", "ill", "--time", "day", "--positive", "yes", "--model", "logistic", "--drop", "score,id")


def moving_rows(n: int, *, seed: int) -> list[list[str]]:
    """Return rows of a ward whose prior of ill is .2, then .6, with the day of each, twenty per day."""
    rng = np.random.default_rng(seed)
    path = prior_paths.step(n, 0.2, 0.6, at=int(0.55 * n))
    pools = {name: [row for row in ward_rows(4 * n, 0.5, seed=seed) if row[4] == name] for name in ("yes", "no")}
    rows = []
    for i in range(n):
        row = pools["yes" if rng.random() < path[i] else "no"].pop()
        rows.append([*row, f"{1 + i // 20 % 28:02d}.{1 + i // 560:02d}.2024"])
    return rows


@pytest.fixture(scope="session")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("moved") / "t.csv", moving_rows(2_400, seed=0), header=[*HEADER, "day"])


@pytest.fixture
def table(moved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(moved.read_bytes())
    return tmp_path / "t.csv"


def test_a_person_gets_a_table_a_verdict_and_a_plot(table: Path) -> None:
    result = obil("backtest", "t.csv", *OPTIONS, "--cost-fn", "3", "--out", "b.png")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "Fitting logistic on the 1,200 earlier rows...", "Replaying the 1,200 later rows...",
    ]  # fmt: skip
    assert "fitted on the 1,200 earlier rows, replayed on the 1,200 later ones" in result.stdout
    for method in ("not adapting", "Bayes bank", "safe tracker", "safe tracker, labels (1)", "oracle"):
        assert method in result.stdout
    assert "(1) with 5 % of the labels, 500 rows late" in result.stdout
    assert "the mean of 8 draws of which" in result.stdout
    said = " ".join(result.stdout.split())
    assert "(2) mean distance from the local prior, counted in the" in said
    assert "and itself accurate to 0.0" in said
    assert "Verdict: Adapting fast would have cost" in result.stdout
    assert "% less than not adapting" in result.stdout
    assert "Plot: b.png" in result.stdout
    assert (table.parent / "b.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in table.parent.iterdir()) == ["b.png", "t.csv"]


def test_dates_with_slashes_order_the_rows_and_are_left_out_of_the_features(table: Path) -> None:
    text = table.read_text().splitlines()
    days = [line.rsplit(",", 1)[1] for line in text[1:]]
    british = [day.replace(".", "/") for day in days]
    american = ["/".join(day.split(".")[place] for place in (1, 0, 2)) for day in days]
    reference = json.loads(obil("backtest", "t.csv", *OPTIONS, "--json").stdout)
    for time, other in ((british, american), (american, british)):
        lines = [f"{line},{seen}" for line, seen in zip(text, ["seen", *other], strict=True)]
        lines = [f"{line.rsplit(',', 2)[0]},{day},{line.rsplit(',', 1)[1]}" for line, day in
                 zip(lines, ["day", *time], strict=True)]  # fmt: skip
        table.write_text("\n".join(lines) + "\n")
        result = obil("backtest", "t.csv", *OPTIONS, "--json")
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert any("'seen' was left out: it holds dates" in note for note in record.pop("notes"))
        assert record == {name: value for name, value in reference.items() if name != "notes"}


def test_json_is_the_whole_record_and_the_same_each_time(table: Path) -> None:
    command = (
        "backtest",
        "t.csv",
        *OPTIONS,
        "--label-rate",
        ".2",
        "--label-delay",
        "0",
        "--train-size",
        ".4",
        "--json",
    )
    first = obil(*command)
    plot = (table.parent / "backtest.png").read_bytes()
    assert first.exit_code == 0, first.output
    record = json.loads(first.stdout)
    assert record["classes"] == ["no", "yes"]
    assert record["rows"] == {"earlier": 960, "later": 1_440}
    assert record["labels"]["rate"] == 0.2
    assert record["labels"]["came"] > 200
    assert record["labels"]["draws"] == 8
    assert record["local_prior"]["rows"] >= 100
    assert 0.0 < record["local_prior"]["error"] < 0.1
    assert record["plot"] == "backtest.png"
    assert record["unlabelled"] == 0
    assert {one["method"]: one["log_loss_ratio"] for one in record["methods"]}["safe"] < 0.95
    assert sum(record["recommendation"]["start_weights"]) == pytest.approx(1.0)
    assert obil(*command).stdout == first.stdout
    assert (table.parent / "backtest.png").read_bytes() == plot


def test_fit_keeps_the_advice_in_the_model_where_it_is_asked_to(table: Path) -> None:
    asked = obil("fit", "t.csv", *OPTIONS, "--backtest", "--out", "m", "--json")
    assert asked.exit_code == 0, asked.output
    advised = json.loads(asked.stdout)["backtest"]["recommendation"]
    advice = package.load("m").advice
    assert advice is not None
    assert (advice.lead, list(advice.start_weights or ())) == (advised["lead"], advised["start_weights"])
    model = package.load("m")
    SafeTracker.for_model(model, lead=advice.lead, start_weights=advice.start_weights).start(model.prior_)
    plain = obil("fit", "t.csv", *OPTIONS, "--out", "plain", "--json")
    assert "backtest" not in json.loads(plain.stdout)
    assert package.load("plain").advice is None
    shown = obil("fit", "t.csv", *OPTIONS, "--backtest", "--out", "m")
    assert f"Backtest: {advised['sentence']}" in shown.stdout
    same = "arrays.safetensors"  # advice changes nothing else
    assert (table.parent / "m" / same).read_bytes() == (table.parent / "plain" / same).read_bytes()
    calibrated = obil("calibrate", "m", "t.csv", "--target", "ill", "--out", "again")
    assert calibrated.exit_code == 0, calibrated.output
    assert package.load("again").advice is None  # it was measured with the old calibrator and its views


BAD: dict[str, tuple[str, str]] = {
    "no such table": ("backtest nowhere.csv --target ill --time day", "nowhere.csv"),
    "no such time": ("backtest t.csv --target ill --time week", "'week'"),
    "no such target": ("backtest t.csv --target sick --time day", "'sick'"),
    "time is the target": ("backtest t.csv --target ill --time ill", "none of the other columns"),
    "vague times": ("backtest t.csv --target ill --time ward", "times must be numbers or dates"),
    "missing times": ("backtest t.csv --target ill --time pulse", "every row must have a time"),
    "no such model": ("backtest t.csv --target ill --time day --model oracle", "a model is one of"),
    "no such calibration": ("backtest t.csv --target ill --time day --calibration magic", "--calibration must be one"),
    "no such positive": ("backtest t.csv --target ill --time day --positive perhaps", "'perhaps' is not one of"),
    "a fraction above 1": ("backtest t.csv --target ill --time day --train-size 1.5", "train_size must lie in"),
    "too few to fit on": ("backtest t.csv --target ill --time day --train-size .05", "got 120 earlier ones of 2400"),
    "no labels": ("backtest t.csv --target ill --time day --label-rate 0", "label_rate must lie in"),
    "labels from the future": ("backtest t.csv --target ill --time day --label-delay -5", "label_delay must be"),
    "free errors": ("backtest t.csv --target ill --time day --cost-fn 0", "must cost more"),
    "out is the input": ("backtest t.csv --target ill --time day --out t.csv", "another file than the input"),
    "out is nowhere": ("backtest t.csv --target ill --time day --out x/b.png", "make x first"),
    "out is no image": ("backtest t.csv --target ill --time day --out b.txt", "must end in .png"),
    "too few rows": ("backtest few.csv --target ill --time day", "at least 400 labelled rows, got 100"),
    "a class that came later": ("backtest late.csv --target ill --time day", "earlier rows need at least 5 of every"),
    "fit without time": ("fit t.csv --target ill --backtest --out m", "give --time, too"),
    "fit of a score": ("fit t.csv --target ill --score score --backtest --out m", "give --time, too"),
    "fit of few rows": ("fit few.csv --target ill --model logistic --time day --backtest --out m", "at least 400"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_line_and_nothing_is_written(name: str, table: Path) -> None:
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    write_csv(table.parent / "few.csv", rows[:100], header=[*HEADER, "day"])
    late = [[*row[:4], "no" if i < 1_300 else row[4], *row[5:]] for i, row in enumerate(rows)]
    write_csv(table.parent / "late.csv", late, header=[*HEADER, "day"])
    before = listing(table.parent)
    command, said = BAD[name]
    result = obil(*command.split())
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert said in error_line(result)
    assert listing(table.parent) == before


def test_help_is_complete_and_loads_nothing_heavy() -> None:
    found = get_command(app).commands["backtest"]
    assert (found.help or "").endswith(".")
    assert all(parameter.help for parameter in found.params), [one.name for one in found.params]
    text = " ".join(obil("backtest", "--help").stdout.replace("│", " ").split())
    assert all(name in text for name in MODELS)
    code = f"""
import sys
from obil.cli.main import app
try:
    app(["backtest", "--help"])
except SystemExit as stop:
    assert stop.code == 0
print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules])
"""
    source = str(Path(package.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert ran.stdout.rstrip().endswith("HEAVY []")
